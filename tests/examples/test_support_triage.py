"""The second week of a support desk on SQLite: releases while threads wait, editors, wrong answers, large values."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from examples.support_triage.graph import (
    ARTICLES,
    Desk,
    State,
    Triage,
    Verdict,
    approve,
    classify,
    deliver,
    graph,
    look_up,
    send,
    write,
)
from examples.support_triage.offline import offline

from graphrt import END, Context, GraphBuilder, InputError, NodeError, Runtime
from graphrt.events import AnswerDiscarded, AnswerUsed, EffectRecorded, InterruptAnswered, SuperstepAbandoned
from graphrt.graph import CompiledGraph
from graphrt.stores import EncryptedStore, SqliteStore

ANGRY = {"number": 7, "customer": "ann@example.org", "ticket": "You charged me twice!"}
CALM = {"number": 8, "customer": "bob@example.org", "ticket": "I cannot sign in."}
PAID_BACK = f"Thank you for asking. {ARTICLES['billing']}"
SIGN_IN = f"Thank you for asking. {ARTICLES['technical']}"


class World:
    """One database and one desk; every call of `runtime` stands for a separate process."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.desk = Desk()
        self.url = f"sqlite:///{folder / 'desk.db'}"
        self._stack = stack

    def runtime(self, release: CompiledGraph[State, Any] = graph, **options: Any) -> Runtime[State]:
        options = {"store": self.url, "deps": self.desk, "models": offline(), **options}
        return self._stack.enter_context(Runtime(release, **options))

    def texts(self) -> list[str]:
        return [text for _, text in self.desk.sent]


@pytest.fixture
def world(tmp_path: Path):
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def events_of(runtime: Runtime[State], kind: type, thread: str = "t") -> list[Any]:
    return [entry.event for entry in runtime.entries(thread) if isinstance(entry.event, kind)]


# -------------------------------------------------------------------------------------------------- normal operation


def test_harmless_answer_is_sent_without_a_question(world: World) -> None:
    result = world.runtime().run(CALM, thread="t")

    assert (result.status, result.warnings) == ("completed", ())
    assert world.desk.sent == [("bob@example.org", SIGN_IN)]
    assert world.desk.closed == [8]


def test_person_requests_a_rewrite_and_then_sends_their_own_text(world: World) -> None:
    asked = world.runtime().run(ANGRY, thread="t")
    again = world.runtime().resume("t", answer=Verdict(do="rewrite", text="say sorry"))
    done = world.runtime().resume("t", answer={"do": "send", "text": "You have it back."})

    assert asked.interrupts[0].payload == {"ticket": ANGRY["ticket"], "draft": PAID_BACK}
    assert again.interrupts[0].payload["draft"] == f"We are sorry. {ARTICLES['billing']}"
    assert (done.state.receipt, world.texts()) == ("mail 1", ["You have it back."])
    assert asked.interrupts[0].answer_schema["properties"]["do"]["enum"] == ["send", "rewrite", "drop"]


WRITTEN = {"triage": Triage(topic="other"), "draft": "x"}


@pytest.mark.routes(
    graph,
    "write",
    [
        ({**CALM, **WRITTEN, "article": "a"}, "send"),
        ({**CALM, **WRITTEN, "article": ""}, "approve"),
        ({**ANGRY, **WRITTEN}, "approve"),
    ],
)
def test_router_chooses_the_reader_of_an_answer() -> None:
    """One test for each row."""


# --------------------------------------------------------------------------------------- a release while threads wait


def released(node: Any) -> CompiledGraph[State, Any]:
    """The next release, in which *node* asks the person."""
    return graph.with_nodes({"approve": node})


def reworded(state: State, ctx: Context[Desk]) -> dict[str, Any]:
    verdict = ctx.interrupt({"Shall this go out?": state.draft}, key="approve", answer_type=Verdict)
    return {"verdict": verdict, "receipt": deliver(state, ctx, verdict.text or state.draft)}


def inserted(state: State, ctx: Context[Desk]) -> dict[str, Any]:
    known = ctx.interrupt("Is it a customer of ours?", key="known", answer_type=bool)
    verdict = ctx.interrupt({"draft": state.draft}, key="approve", answer_type=Verdict)
    return {"verdict": verdict, "receipt": deliver(state, ctx, state.draft) if known else "refused"}


def removed(state: State, ctx: Context[Desk]) -> dict[str, Any]:
    return {"receipt": deliver(state, ctx, state.draft)}


def test_release_may_reword_the_question(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")
    new = world.runtime(released(reworded))

    assert [verdict.kind for verdict in new.check_threads()] == ["identical"]
    assert new.resume("t", answer={"do": "send"}).status == "completed"
    assert world.texts() == [PAID_BACK]
    (used,) = events_of(new, AnswerUsed)
    assert (used.reworded, used.payload) == (True, {"Shall this go out?": PAID_BACK})
    assert new.replay("t").values.receipt == "mail 1"


def test_release_may_insert_a_question_which_does_not_get_the_answer_of_the_other(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")

    asked = world.runtime(released(inserted)).resume("t", answer={"do": "send"})
    assert [question.payload for question in asked.interrupts] == ["Is it a customer of ours?"]
    assert world.desk.sent == []
    done = world.runtime(released(inserted)).resume("t", True)
    assert (done.status, done.state.receipt, world.texts()) == ("completed", "mail 1", [PAID_BACK])


def test_release_may_remove_the_question(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")
    new = world.runtime(released(removed))

    assert new.resume("t", answer={"do": "drop"}).state.receipt == "mail 1"
    assert [event.reason for event in events_of(new, AnswerDiscarded)] == ["not-asked"]
    assert world.texts() == [PAID_BACK]


def test_release_may_add_a_node_after_the_waiting_one(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")

    g = GraphBuilder(State, name="support")
    g.add_node("classify", classify).add_node("look_up", look_up).add_node("write", write)
    g.add_node("send", send).add_node("approve", approve)
    g.add_node("survey", lambda state: {"receipt": f"{state.receipt}, survey"})
    g.add_sequence(["classify", "look_up", "write"]).set_entry("classify")
    g.add_conditional_edges("write", lambda state: "approve", ["approve", "send"])
    g.add_sequence(["approve", "survey", END]).add_edge("send", END)
    new = world.runtime(g.compile())

    (verdict,) = new.check_threads()
    assert (verdict.kind, verdict.pending) == ("compatible", ("approve",))
    assert new.resume("t", answer={"do": "send"}).state.receipt == "mail 1, survey"
    assert world.texts() == [PAID_BACK]


# ------------------------------------------------------------------------------------------- an editor, and a person


def supervised() -> CompiledGraph[State, Any]:
    """The same desk, with an editor who reads each draft before the router chooses further readers."""
    g = GraphBuilder(State, name="supervised")
    g.add_node(
        "write",
        lambda state: {"triage": Triage(topic="billing"), "article": "a", "draft": PAID_BACK},
        interrupt_after=True,
    )
    g.add_node("approve", approve).add_node("send", send).set_entry("write")
    g.add_conditional_edges("write", graph_risk, ["approve", "send"])
    return g.set_finish("approve").set_finish("send").compile()


def graph_risk(state: State) -> str:
    return "approve" if "paid back" in state.draft else "send"


def test_editor_corrects_a_draft_before_the_router(world: World) -> None:
    paused = world.runtime(supervised()).run(ANGRY, thread="t")
    assert (paused.interrupts[0].kind, paused.state.draft) == ("after", PAID_BACK)

    edited = world.runtime(supervised()).update("t", {"draft": "We are looking into it."})
    assert edited.interrupts[0].kind == "after"
    done = world.runtime(supervised()).resume("t", True)

    assert (done.status, world.texts()) == ("completed", ["We are looking into it."])
    assert events_of(world.runtime(supervised()), AnswerUsed) == []  # no other person was asked


def test_editor_who_changes_nothing_leaves_the_draft_to_the_router(world: World) -> None:
    world.runtime(supervised()).run(ANGRY, thread="t")

    asked = world.runtime(supervised()).resume("t", True)
    assert [question.node for question in asked.interrupts] == ["approve"]


def test_editor_corrects_a_draft_after_the_router(world: World) -> None:
    """The router has already chosen a person, and is not called again: the answer sends the corrected draft."""
    world.runtime().run(ANGRY, thread="t")

    edited = world.runtime().update("t", {"draft": "We are looking into it."})
    assert [question.stale for question in edited.interrupts] == [True]
    done = world.runtime().resume("t", answer={"do": "send"})
    assert (done.status, world.texts()) == ("completed", ["We are looking into it."])


def test_corrected_draft_is_shown_before_it_is_answered(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")
    world.runtime().update("t", {"draft": "We are looking into it."})

    asked = world.runtime().retry("t")
    assert [(question.payload["draft"], question.stale) for question in asked.interrupts] == [
        ("We are looking into it.", False)
    ]
    assert world.runtime().resume("t", answer={"do": "send"}).state.receipt == "mail 1"
    assert world.texts() == ["We are looking into it."]


# ------------------------------------------------------------------------------------------------------ wrong answers


def test_wrong_answer_is_replaced_while_no_effect_depends_on_it(world: World) -> None:
    world.runtime().run(ANGRY, thread="t")
    with pytest.raises(NodeError, match="an empty answer is not sent"):
        world.runtime().resume("t", answer={"do": "send", "text": "  "})

    runtime = world.runtime()
    assert "an empty answer is not sent" in str(runtime.state("t").error)
    assert runtime.resume("t", answer={"do": "send", "text": "Done."}).status == "completed"
    assert world.texts() == ["Done."]
    assert [(event.answer.text, event.nth) for event in events_of(runtime, InterruptAnswered)] == [
        ("  ", 1),
        ("Done.", 2),
    ]


def test_an_answer_of_another_form_changes_nothing(world: World) -> None:
    asked = world.runtime().run(ANGRY, thread="t")

    for answer in ({"do": "post"}, "send"):
        with pytest.raises(InputError) as caught:
            world.runtime().resume("t", answer=answer)
        assert caught.value.code == "bad-answer"
    assert world.runtime().state("t").interrupts == asked.interrupts


@pytest.mark.parametrize("way", ["retry", "as_node", "abandon"])
def test_wrong_answer_is_final_once_the_mail_was_sent(world: World, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """The refusal names the remaining ways, and each of them continues without a second mail to the customer."""
    world.runtime().run(ANGRY, thread="t")
    with monkeypatch.context() as broken:

        def close(number: int) -> None:
            raise ConnectionError("the tracker is down")

        broken.setattr(world.desk, "close", close)
        with pytest.raises(NodeError, match="the tracker is down"):
            world.runtime().resume("t", answer={"do": "send", "text": "You owe us."})

    runtime = world.runtime()
    with pytest.raises(InputError) as refused:
        runtime.resume("t", answer={"do": "drop"})
    assert (refused.value.code, refused.value.effects) == ("answer-has-effects", ("send",))
    assert all(named in str(refused.value) for named in ("retry('t')", "as_node='approve'", 'if_exists="abandon"'))

    if way == "retry":
        assert runtime.retry("t").state.receipt == "mail 1"
        recorded = [event for event in events_of(runtime, EffectRecorded) if event.task.endswith(":approve")]
        assert {event.key: event.result for event in recorded} == {"send#0": "mail 1", "close#0": None}
    elif way == "as_node":
        assert runtime.update("t", {"receipt": "mail 1, closed by hand"}, as_node="approve").next == ()
        done = runtime.retry("t")  # the blocking effect is done; this ends the run
        assert (done.status, done.state.receipt) == ("completed", "mail 1, closed by hand")
    else:
        again = runtime.run({"ticket": "You charged me thrice!"}, thread="t", if_exists="abandon")
        assert (again.status, again.interrupts[0].payload["ticket"]) == ("interrupted", "You charged me thrice!")
    assert world.texts() == ["You owe us."]
    assert world.desk.closed == ([7] if way == "retry" else [])


def test_another_ticket_abandons_an_open_question(world: World) -> None:
    """The customer wrote again before anyone had read the draft."""
    world.runtime().run(ANGRY, thread="t")
    runtime = world.runtime()
    with pytest.raises(InputError) as refused:
        runtime.run({"ticket": "I cannot sign in."}, thread="t")
    assert (refused.value.code, 'if_exists="abandon"' in str(refused.value)) == ("wrong-verb", True)

    done = runtime.run({"ticket": "I cannot sign in."}, thread="t", if_exists="abandon")
    assert (done.status, world.desk.sent) == ("completed", [("ann@example.org", SIGN_IN)])
    (given_up,) = events_of(runtime, SuperstepAbandoned)
    assert (given_up.tasks, given_up.interrupts) == (("4.0:approve",), ("t/4.0:approve#key=approve",))


# -------------------------------------------------------------------------------------------------------- stop button


def test_waiting_thread_is_stopped_and_asks_again_when_it_continues(world: World) -> None:
    first = world.runtime().run(ANGRY, thread="t").interrupts[0]

    assert world.runtime().cancel("t") is True
    stopped = world.runtime().state("t")
    assert (stopped.status, stopped.interrupts, stopped.next) == ("cancelled", (), ("approve",))
    with pytest.raises(InputError) as refused:
        world.runtime().resume("t", answer={"do": "send"})
    assert refused.value.code == "wrong-verb"

    again = world.runtime().retry("t").interrupts[0]
    assert (again.payload, again.id) == (first.payload, f"{first.id}:2")
    assert world.runtime().resume("t", answer={"do": "send"}).status == "completed"
    assert world.texts() == [PAID_BACK]


# ------------------------------------------------------------------------------------------------------- large values


@pytest.mark.needs("cryptography")
def test_ticket_of_400_kilobytes_survives_every_verb(world: World, tmp_path: Path) -> None:
    """Pause, resume, history, prune, export, import, and a run in a database that encrypts."""
    log = "You charged me twice! " + Random(1).randbytes(200_000).hex()
    world.runtime().run({**ANGRY, "ticket": log}, thread="t")
    runtime = world.runtime()
    question = runtime.state("t").interrupts[0]
    assert question.payload == {"ticket": log, "draft": PAID_BACK}

    large = Verdict(do="rewrite", text=Random(2).randbytes(200_000).hex())
    again = runtime.resume("t", answer=large)
    assert (again.status, again.state.ticket, again.state.verdict) == ("interrupted", log, large)
    history = list(runtime.history("t"))
    assert [snapshot.status for snapshot in history].count("interrupted") == 2
    assert all(snapshot.values.ticket == log for snapshot in history)

    assert runtime.prune("t") > 0
    pruned = list(runtime.history("t"))
    assert 0 < len(pruned) < len(history)
    assert (pruned[0].values, pruned[0].interrupts) == (history[0].values, history[0].interrupts)
    assert runtime.verify(replay=True).ok

    file = tmp_path / "t.grt"
    runtime.export_thread("t", file)
    store = EncryptedStore(SqliteStore(tmp_path / "other.db"), keys={"k": bytes(range(32))})
    with store, Runtime(graph, store=store, deps=world.desk, models=offline()) as other:
        assert other.import_thread(file) == "t"
        assert other.state("t").interrupts == again.interrupts
        done = other.resume("t", answer={"do": "send"})
        assert (done.status, done.state.ticket, done.state.verdict) == ("completed", log, Verdict(do="send"))
        assert other.replay("t").values == done.state
        assert other.verify(replay=True).ok
    assert (len(world.desk.sent), runtime.state("t").status) == (1, "interrupted")

    runtime.resume("t", answer={"do": "drop"})
    before = stored(world)
    runtime.prune("t")
    assert before - stored(world) > len(large.text)  # the first verdict is no longer needed
    assert (runtime.state("t").values.ticket, runtime.verify(replay=True).ok) == (log, True)


def stored(world: World) -> int:
    """Bytes in the database, without free pages."""
    with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"))) as database:
        parts, records = (f"(SELECT coalesce(sum(length(body)), 0) FROM {table})" for table in ("part", "record"))
        return int(database.execute(f"SELECT {parts} + {records}").fetchone()[0])
