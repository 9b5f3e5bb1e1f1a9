"""Redacted values appear nowhere, whichever way they enter."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.audit import canaries
from tests.audit.canaries import CARD, KEY, MAIL, MARKED, NAME, PHONE, SECRET, Watched, canaries_in, chain
from tests.stores import postgres_server
from typing_extensions import TypedDict

from graphrt import END, START, Context, GraphBuilder, GraphrtError, Runtime
from graphrt.audit import AuditLog, Redaction, Secret, TextPattern, verify
from graphrt.harness import Agent, Message, ScriptedModel, ToolCall, tool
from graphrt.limits import RetryPolicy
from graphrt.reducers import append, messages, redacted

pytestmark = pytest.mark.slow


def test_no_canary_leaves_a_run_that_pauses_fails_and_is_edited(tmp_path: Path) -> None:
    with Watched(tmp_path, f"sqlite:///{tmp_path}/runs.db") as watched, watched.runtime() as open_one:
        open_one.threads()  # the write-ahead log stays beside the database while a connection is open
        shown = canaries.through(watched)
        shown.append(watched.everything())
        shown.append(watched.everything("fork"))

        assert (tmp_path / "runs.db-wal").exists()
        assert canaries_in("\n".join(shown)) == []
        assert watched.files() == []
        assert "<email:" in "\n".join(shown)
    mirror = watched.audit.path("t")
    assert mirror is not None
    assert verify(mirror, key=KEY).exit_code in (0, 3)
    assert watched.files() == []


@pytest.mark.needs("psycopg")
def test_no_canary_is_in_a_row_of_postgres(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = postgres_server.fresh_url(request.config, pool_size="2")
    _, schema = postgres_server.plain(url)
    with Watched(tmp_path, url) as watched:
        shown = canaries.through(watched)
        shown.append(watched.everything())
    tables = postgres_server.run(
        url, "select table_name from information_schema.tables where table_schema = %s", schema
    )
    rows = [
        bytes(cell) if isinstance(cell, (bytes, memoryview)) else str(cell).encode()
        for (table,) in tables
        for row in postgres_server.run(url, f'select * from "{schema}"."{table}"')
        for cell in row
    ]
    postgres_server.drop(url)

    assert len(rows) > 50
    assert [one for row in rows for one in canaries_in(row)] == []
    assert canaries_in("\n".join(shown)) == []
    assert watched.files() == []


class Inner(TypedDict, total=False):
    question: str
    alias: str
    notes: Annotated[list[str], append]
    hidden: Annotated[str, redacted]


def test_no_canary_leaves_a_nested_graph_that_pauses_and_fails(tmp_path: Path) -> None:
    def start(state: Inner, ctx: Context) -> Any:
        told = ctx.interrupt(f"May we call {PHONE}?")
        return {"hidden": MARKED, "alias": NAME, "notes": [f"{told} for {MAIL}"]}

    def end(state: Inner, ctx: Context) -> Any:
        if ctx.deps is None:
            raise RuntimeError(f"cannot reach {MAIL}")
        return {"notes": [f"{CARD} is charged"]}

    def build() -> Any:
        inner = GraphBuilder(Inner, name="inner")
        inner.add_node("start", start).add_node("end", end, retry=RetryPolicy(attempts=2, wait_initial_s=0))
        inner.add_edge(START, "start").add_edge("start", "end")
        outer = GraphBuilder(Inner, name="outer")
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        return outer.compile()

    with Watched(tmp_path, f"sqlite:///{tmp_path}/runs.db", build=build) as watched:
        shown: list[str] = []
        modes = ("updates", "values", "events", "live")
        with watched.runtime() as runtime:
            shown += map(repr, runtime.stream({"question": MAIL, "hidden": MARKED}, thread="t", modes=modes))
        with watched.runtime() as runtime:
            with pytest.raises(GraphrtError) as caught:
                list(map(shown.append, map(repr, runtime.stream(thread="t", answer=f"write {MAIL}", modes=modes))))
            shown.append(chain(caught.value))
        watched.more["deps"] = 1
        with watched.runtime() as runtime:
            shown += map(repr, runtime.stream(thread="t", modes=modes))
            final = runtime.state("t").values
        shown.append(watched.everything())

    assert final["hidden"].startswith("<hidden:")
    assert [note.count("<") for note in final["notes"]] == [2, 1]
    assert canaries_in("\n".join(shown)) == []
    assert watched.files() == []


class Asked(TypedDict, total=False):
    question: str
    reply: Any


@tool
def find(alias: str, mail: str) -> dict[str, Any]:
    """Find a customer.

    Args:
        alias: The name.
        mail: The address.
    """
    return {"alias": alias, "note": f"known as {MAIL}", "key": repr(Secret(SECRET))}


def test_no_canary_leaves_an_agent_with_tools_and_the_model_gets_the_original(tmp_path: Path) -> None:
    models: list[ScriptedModel] = []

    def build() -> Any:
        call = ToolCall(id="1", name="find", arguments={"alias": NAME, "mail": MAIL})
        model = ScriptedModel([call, f"I wrote to {MAIL} and {PHONE}."])
        models.append(model)
        agent = Agent(model, name="clerk", tools=[find])

        async def ask(state: Asked, ctx: Context) -> Any:
            reply = await ctx.bind(agent).run(f"Who is {MAIL}?")
            return {"reply": reply}

        g = GraphBuilder(Asked, name="agents")
        g.add_node("ask", ask)
        g.add_edge(START, "ask")
        return g.compile()

    with Watched(tmp_path, f"sqlite:///{tmp_path}/runs.db", build=build) as watched:
        with watched.runtime() as runtime:
            shown = [*map(repr, runtime.stream({"question": MAIL}, thread="t", modes=("messages", "events", "values")))]
        shown.append(watched.everything())

    assert MAIL in repr([one for model in models for one in model.calls])
    assert canaries_in("\n".join(shown)) == []
    assert watched.files() == []


def test_rule_that_raises_stops_the_run_before_the_value_is_written(tmp_path: Path) -> None:
    import re

    def check(match: str) -> bool:
        raise LookupError(f"nobody knows {match}")

    broken = TextPattern("customer-number", re.compile(r"KD-\d{4}-[a-z]{1,10}"), check=check)
    audit = AuditLog(tmp_path / "logs", key=KEY, redact=Redaction(patterns=[broken]), on_failure="continue")

    def work(state: Asked) -> Any:
        return {"reply": f"number {canaries.NUMBER}"}

    g = GraphBuilder(Asked, name="broken")
    g.add_node("work", work, retry=RetryPolicy(attempts=3, wait_initial_s=0))
    g.add_edge(START, "work")
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        with pytest.raises(GraphrtError) as caught:
            runtime.run({"question": "?"}, thread="t")
        with pytest.raises(GraphrtError) as refused:
            runtime.run({"question": canaries.NUMBER}, thread="never")
        left = runtime.state("t")
        threads = [one.thread for one in runtime.threads()]

    assert caught.value.code == refused.value.code == "redaction-failed"
    assert caught.value.__dict__["rule"] == "customer-number"
    assert "LookupError" in str(caught.value)
    assert left.values == {"question": "?"}
    assert "never" not in threads
    assert canaries_in(chain(caught.value) + chain(refused.value) + repr(left)) == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or canaries_in(path.read_bytes()) == []


class Numbers(BaseModel):
    age: Annotated[int, redacted] = 0
    born: Any = None


@pytest.mark.parametrize("given", [{"age": 41}, {"born": 1984}, {"born": [Secret("x"), 7.5]}])
def test_value_that_cannot_be_masked_stops_the_run(tmp_path: Path, given: dict[str, Any]) -> None:
    audit = AuditLog(tmp_path / "logs", redact=Redaction(fields=["born"]))
    g = GraphBuilder(Numbers, name="numbers")
    g.add_node("work", lambda state: given)
    g.add_edge(START, "work")

    with (
        Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime,
        pytest.raises(GraphrtError) as caught,
    ):
        runtime.run({"age": 0} if "age" not in given else {}, thread="t")

    assert caught.value.code == "redaction-misfit"
    assert caught.value.__dict__["rule"] in ("age", "born")


def test_async_runs_also_redact(tmp_path: Path) -> None:
    async def work(state: Asked, ctx: Context) -> Any:
        seen = await ctx.effect("look", asyncio.sleep, 0, f"found {MAIL}")
        return {"reply": f"{seen}, and {CARD}"}

    g = GraphBuilder(Asked, name="async")
    g.add_node("work", work)
    g.add_edge(START, "work")
    audit = AuditLog(tmp_path / "logs", redact=canaries.rules())

    async def main() -> Any:
        runtime = Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit)
        result = await runtime.arun({"question": PHONE}, thread="t")
        runtime.close()
        return result.state

    final = asyncio.run(main())

    assert canaries_in(repr(final)) == []
    assert final["reply"].count("<") == 2


def test_errors_about_the_callers_values_are_also_redacted(tmp_path: Path) -> None:
    def ask(state: canaries.State, ctx: Context) -> Any:
        return {"question": str(ctx.interrupt("age?", answer_type=int))}

    g = GraphBuilder(canaries.State, name="wrong")
    g.add_node("ask", ask)
    g.add_edge(START, "ask")
    audit = AuditLog(tmp_path / "logs", redact=canaries.rules())
    caught: list[str] = []
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        for wrong in ({"customer": f"of {MAIL}"}, {"letter": CARD}, {"marked": [MARKED]}):
            with pytest.raises(GraphrtError) as refused:
                runtime.run(wrong, thread="t")
            caught.append(chain(refused.value))
        runtime.run({}, thread="t")
        for call in (lambda: runtime.resume("t", PHONE), lambda: runtime.update("t", {"customer": MAIL})):
            with pytest.raises(GraphrtError) as refused:
                call()
            caught.append(chain(refused.value))

    assert canaries_in("\n".join(caught)) == []


def full(current: list[str], incoming: list[str]) -> list[str]:
    raise ValueError(f"no room for {incoming} of {MAIL}")


class Routed(TypedDict, total=False):
    log: Annotated[list[str], full]
    text: str


def test_errors_of_routers_and_reducers_are_redacted(tmp_path: Path) -> None:
    def route(state: Routed) -> str:
        raise LookupError(f"no way to {PHONE}")

    g = GraphBuilder(Routed, name="broken")
    g.add_node("write", lambda state: {"log": [CARD]} if state.get("text") == "fold" else {"text": "x"})
    g.add_edge(START, "write").add_conditional_edges("write", route, {"end": END})
    audit = AuditLog(tmp_path / "logs", redact=canaries.rules())
    caught: list[str] = []
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        for text in ("fold", "route"):
            with pytest.raises(GraphrtError) as failed:
                runtime.run({"text": text, "log": []}, thread=text)
            caught += [chain(failed.value), *map(repr, runtime.entries(text))]

    assert "no way to" in "\n".join(caught)
    assert "no room for" in "\n".join(caught)
    assert canaries_in("\n".join(caught)) == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or canaries_in(path.read_bytes()) == []


class Open(BaseModel, extra="allow"):
    name: str = ""


@pytest.mark.parametrize(
    "value",
    [
        Open.model_validate({MAIL: 1}),
        ipaddress.ip_address("192.168.7.31"),
        {MAIL: 1, "canary.bird+77@EXAMPLE-MINE.org": 2},
        frozenset({MAIL, "b@example.org"}),
    ],
)
def test_nested_value_that_cannot_be_masked_stops_the_run(tmp_path: Path, value: Any) -> None:
    class Held(TypedDict, total=False):
        value: Any
        declared: Open

    g = GraphBuilder(Held, name="held")
    g.add_node("work", lambda state: {"value": value})
    g.add_edge(START, "work")
    audit = AuditLog(tmp_path / "logs", redact=Redaction(patterns=["email", "ip"]))

    with (
        Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime,
        pytest.raises(GraphrtError) as caught,
    ):
        runtime.run({}, thread="t")

    assert caught.value.code == "redaction-misfit"
    assert canaries_in(chain(caught.value)) == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or canaries_in(path.read_bytes()) == []


def test_path_is_redacted_and_stays_a_path(tmp_path: Path) -> None:
    class Filed(TypedDict, total=False):
        file: Any

    g = GraphBuilder(Filed, name="filed")
    g.add_node("work", lambda state: {"file": PurePosixPath("/home") / MAIL / "x.txt"})
    g.add_edge(START, "work")
    audit = AuditLog(tmp_path / "logs", redact=Redaction(patterns=["email"]))
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db", audit=audit) as runtime:
        final = runtime.run({}, thread="t").state

    assert final["file"] == PurePosixPath("<email>/x.txt")  # the local part of an address may have slashes


class Conversation(BaseModel):
    chat: Annotated[list[Message], messages] = []
    customer: dict[str, str] = {}
    price: int = 0


class Price(BaseModel):
    cents: int


@pytest.mark.parametrize("field", ["name", "text", "id", "error", "kind", "call"])
def test_field_rule_leaves_forms_of_graphrt_alone(field: str) -> None:
    """A rule for a field named as a key of a reply, a tool's result or a message does not break the conversation."""

    def price_of(name: str) -> str:
        """The price of a good."""
        return f'{{"{field}": "Ann", "cents": 3}}'

    call = ToolCall(id="call-1", name="price_of", arguments={"name": "tea"})
    agent = Agent(ScriptedModel([call, Price(cents=3)]), tools=[price_of], output=Price)
    g = GraphBuilder(Conversation, name="prices")

    @g.node
    async def ask(state: Conversation, ctx: Context) -> Any:
        reply = await ctx.bind(agent).run("What does tea cost?")
        return {"chat": reply.messages, "price": reply.output.cents}

    g.add_edge(START, "ask")
    with Runtime(g.compile(), store="memory:", audit=AuditLog(redact=Redaction(fields=[field]))) as runtime:
        state = runtime.run({"customer": {field: "Ann"}}, thread="t").state
        effects = [
            entry.event.result for entry in runtime.entries("t") if type(entry.event).__name__ == "EffectRecorded"
        ]

    assert state.price == 3
    assert state.customer == {field: f"<{field}>"}
    assert [(made.id, made.name) for message in state.chat for made in getattr(message, "tool_calls", ())] == [
        ("call-1", "price_of")
    ]
    assert effects == [{"text": f'{{"{field}": "<{field}>", "cents": 3}}', "error": False, "call": "call-1"}]
