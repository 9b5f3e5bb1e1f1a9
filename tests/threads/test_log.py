"""The log of runs: it covers the life of a run, contains no values, and is silent unless configured."""

from __future__ import annotations

import logging
import textwrap
from typing import Annotated

import pytest
from pydantic import BaseModel
from tests.testing.warm_python import warm_python

from graphrt import END, START, Context, GraphBuilder, MockHarness, NodeError, RetryPolicy, Runtime
from graphrt.events import Entry
from graphrt.reducers import append
from graphrt.stores import MemoryStore, TenantStore

CANARY = "canary-4711"


class State(BaseModel):
    notes: Annotated[list[str], append] = []


class Line:
    """An outside world that the test controls."""

    def __init__(self) -> None:
        self.up = False


def graph(line: Line):
    g = GraphBuilder(State, name="logged")

    @g.node
    async def ask(state: State, ctx: Context):
        reply = await ctx.harness.run(f"{CANARY} prompt")
        return {"notes": [reply.text]}

    @g.node
    def approve(state: State, ctx: Context):
        answer = ctx.interrupt(f"{CANARY} payload", key=f"{CANARY}-key")
        ctx.effect(f"{CANARY}-effect", lambda: CANARY)
        return {"notes": [answer]}

    @g.node(retry=RetryPolicy(attempts=2))
    def send(state: State):
        if not line.up:
            raise OSError(f"{CANARY} text of an error")
        return {"notes": [CANARY]}

    g.add_sequence([START, ask, approve, send, END])
    return g.compile()


def runtime(line: Line, store: str = "memory:", **options) -> Runtime[State]:
    return Runtime(graph(line), store=store, harness=MockHarness([f"{CANARY} reply"]), sleep=lambda _: None, **options)


def lived(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    """Records of a thread that pauses, fails after a retry, is retried, and completes."""
    line = Line()
    with caplog.at_level(level, logger="graphrt"), runtime(line) as one:
        one.run({"notes": [f"{CANARY} input"]}, thread="t")
        with pytest.raises(NodeError):
            one.resume("t", answer=f"{CANARY} answer")
        line.up = True
        one.retry("t")
        one.update("t", {"notes": [CANARY]})
        one.fork("t", at=one.state("t").seq, to="copy")
    return [record for record in caplog.records if record.name.startswith("graphrt")]


def test_life_of_a_thread_is_logged_at_info(caplog):
    told = [record.getMessage().partition(" [")[0] for record in lived(caplog, logging.INFO)]

    assert told == [
        "run started",
        "node 'approve' asks a question of the kind 'question'",
        "run paused with 1 open question",
        "run continued by resume()",
        "a question was answered",
        "attempt 1 of node 'send' failed with OSError; the next is in " + told[5].rpartition(" in ")[2],
        "node 'send' failed with OSError",
        "run failed with NodeError",
        "run continued by retry()",
        f"run completed after {told[9].split()[3]} supersteps",
        "thread edited: 1 field",
        told[11],
    ]
    assert told[11].startswith("thread forked from 't' at ")


def test_erasure_is_logged_without_the_erased_values(caplog, tmp_path):
    with caplog.at_level(logging.INFO, logger="graphrt"), runtime(Line(), f"sqlite:///{tmp_path}/runs.db") as one:
        one.run({"notes": [f"{CANARY} input"]}, thread="t")
        caplog.clear()
        one.erase(CANARY, force=True, reason="asked for by mail")
    (record,) = [record for record in caplog.records if record.name.startswith("graphrt")]

    assert record.getMessage().startswith("values erased: ")
    assert record.graphrt_thread == "t"
    assert record.graphrt_values > 1
    assert CANARY not in str(record.__dict__)


def test_steps_are_logged_at_debug_only(caplog):
    records = lived(caplog, logging.DEBUG)

    debug = {record.getMessage().partition(" [")[0] for record in records if record.levelno == logging.DEBUG}
    assert {"node 'ask' finished", "superstep 1 committed"} <= debug
    assert any(text.startswith("model ") for text in debug)
    assert {record.levelno for record in records} == {logging.INFO, logging.DEBUG}


def test_no_record_contains_a_value_of_the_state_a_prompt_an_answer_or_the_text_of_an_error(caplog):
    records = lived(caplog, logging.DEBUG)

    assert len(records) >= 20
    for record in records:
        assert CANARY not in f"{record.getMessage()} {record.__dict__}", record.__dict__


def test_records_have_their_position_as_extra_fields(caplog):
    records = lived(caplog, logging.INFO)

    retried = next(record for record in records if record.graphrt_event == "task-retried")
    fields = {name: value for name, value in vars(retried).items() if name.startswith("graphrt_")}
    assert fields.pop("graphrt_run")
    assert fields.pop("graphrt_seq") > 0
    assert fields.pop("graphrt_delay_s") >= 0
    assert fields == {
        "graphrt_attempt": 1,
        "graphrt_error": "OSError",
        "graphrt_event": "task-retried",
        "graphrt_graph": "logged",
        "graphrt_node": "send",
        "graphrt_task": "3.0:send",
        "graphrt_thread": "t",
    }


@pytest.mark.slow
def test_takeover_of_a_thread_whose_owner_died_is_logged(caplog, tmp_path):
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    program = f"""
        import os
        from typing import Annotated
        from pydantic import BaseModel
        from graphrt import END, START, GraphBuilder, Runtime
        from graphrt.reducers import append

        class State(BaseModel):
            notes: Annotated[list[str], append] = []

        g = GraphBuilder(State, name="dying")
        g.add_node("first", lambda state: {{"notes": ["first"]}})
        g.add_node("second", lambda state: os._exit(9))
        g.add_sequence([START, "first", "second", END])
        Runtime(g.compile(), store={url!r}).run({{}}, thread="t")
    """
    died = warm_python().run(["-c", textwrap.dedent(program)], timeout_s=60)
    assert died.returncode == 9
    g = GraphBuilder(State, name="dying")
    g.add_node("first", lambda state: {"notes": ["first"]})
    g.add_node("second", lambda state: {"notes": ["second"]})
    g.add_sequence([START, "first", "second", END])

    with caplog.at_level(logging.INFO, logger="graphrt"), Runtime(g.compile(), store=url) as one:
        assert one.retry("t").state.notes == ["first", "second"]

    told = [record.getMessage().partition(" [")[0] for record in caplog.records]
    assert told == [
        "thread taken over: its owner died while it ran",
        "run continued by retry()",
        "run completed after 2 supersteps",
    ]


def test_end_of_a_nested_graph_is_logged_at_debug(caplog):
    inner = GraphBuilder(State, name="inner")
    inner.add_node("look", lambda state: {"notes": ["found"]})
    inner.add_sequence([START, "look", END])
    g = GraphBuilder(State, name="outer")
    g.add_node("inner", inner.compile())
    g.add_sequence([START, "inner", END])

    with caplog.at_level(logging.INFO, logger="graphrt"):
        g.compile().run({})

    told = [record.getMessage().partition(" [")[0] for record in caplog.records]
    assert told == ["run started", "run completed after 1 superstep"]


def test_disabled_log_adds_no_listener_and_an_enabled_one_only_writes_records(caplog):
    """Without a listener a run builds no events."""
    seen: list[Entry] = []
    line = Line()
    line.up = True
    silent = runtime(line, sinks=[seen.append], seed=1, clock=lambda: 1.0, ids=iter("abc").__next__)
    silent.run({}, thread="t")
    heard: list[Entry] = []
    with caplog.at_level(logging.DEBUG, logger="graphrt"):
        logged = runtime(line, sinks=[heard.append], seed=1, clock=lambda: 1.0, ids=iter("abc").__next__)
        logged.run({}, thread="t")

    assert [entry.to_dict() for entry in heard] == [entry.to_dict() for entry in seen]


PROGRAM = """
import sys
{before}
from pydantic import BaseModel
from graphrt import END, START, GraphBuilder

class State(BaseModel):
    note: str = ""

def fail(state):
    raise OSError("down")

g = GraphBuilder(State, name="g")
g.add_node("fail", fail)
g.add_sequence([START, "fail", END])
try:
    g.compile().run({{}})
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        "",
        pytest.param("import logging", marks=pytest.mark.full),
        "import logging; logging.getLogger('graphrt').setLevel(10)",
    ],
)
def test_log_is_silent_without_a_handler(before):
    program = PROGRAM.format(before=before)
    done = warm_python().run(["-c", program], timeout_s=60)

    assert (done.stdout, done.stderr) == ("NodeError\n", "")


@pytest.mark.slow
def test_log_of_a_configured_process_has_a_line_for_each_event():
    program = PROGRAM.format(before="import logging; logging.basicConfig(level='INFO', format='%(name)s %(message)s')")
    done = warm_python().run(["-c", program], timeout_s=60)

    lines = [line.partition(" [")[0] for line in done.stderr.splitlines()]
    assert lines == [
        "graphrt.runs run started",
        "graphrt.runs node 'fail' failed with OSError",
        "graphrt.runs run failed with NodeError",
    ]
    assert "Traceback" not in done.stderr


def test_records_name_threads_with_their_tenant_for_every_driver(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="graphrt.runs")
    store = MemoryStore()
    with TenantStore(store, "acme") as acme:
        runtime(Line(), acme).run({}, thread="t")
        runtime(Line(), acme).update("t", {"notes": []})
    line = Line()
    line.up = True
    runtime(line, store).resume("acme~t", answer="yes")

    records = [record for record in caplog.records if record.name == "graphrt.runs"]
    assert len(records) > 4
    assert {record.graphrt_thread for record in records} == {"acme~t"}
    assert all("thread 'acme~t'" in record.getMessage() for record in records)
