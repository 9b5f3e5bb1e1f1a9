"""Credentials of a call are in no byte of its thread, whether the run completes or fails."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from tests.harness.test_litellm_secrets import ANSWERS, ASKED, ENVIRONMENT, PASSWORD, SECRETS, hits, model_at
from tests.harness.wires import WIRES, address

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.errors import GraphrtError
from graphrt.harness import Agent, Budget, TokenTracker, ToolCall, tool
from graphrt.reducers import append
from graphrt.testing import ChatAnswer, FakeChatServer

CALL = ToolCall(id="call_1", name="look", arguments={"name": "tea"})
pytestmark = [pytest.mark.needs("litellm"), pytest.mark.xdist_group("litellm")]


class State(BaseModel):
    said: Annotated[list[str], append] = []


@tool(approval=True)
def look(name: str) -> str:
    """Look it up."""
    return f"seen {name}"


def graph() -> Any:
    async def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [(await ctx.harness.run("go", options=ASKED.options)).text]}

    async def saved(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": [str(ctx.error)]}

    g = GraphBuilder(State, name="asks")
    g.add_node("ask", ask, tools=["look"], on_error="saved")
    g.add_node("saved", saved)
    g.add_edge(START, "ask")
    g.add_edge("ask", END)
    g.add_edge("saved", END)
    return g.compile()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("kind", [*ANSWERS, "asks"])
def test_no_byte_of_a_thread_contains_a_credential(
    wire: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asks` pauses for an approval and ends; the others end at once, or take the error edge with the raised error."""
    monkeypatch.setenv("SOME_OTHER_API_KEY", ENVIRONMENT)
    monkeypatch.setenv("SOME_SERVICE_URL", f"https://user:{PASSWORD}@host/x")
    answers = [ChatAnswer(tool_calls=(CALL,)), ChatAnswer(text="fine")] if kind == "asks" else [ANSWERS[kind]]
    tracker = TokenTracker()
    shown: list[Any] = []
    with FakeChatServer(answers, strict=False) as server:
        agent = Agent(model_at(address(wire, server), wire), tools=[look], retry=None)
        with Runtime(
            graph(),
            store=f"sqlite:///{tmp_path}/t.db",
            harness=agent,
            sinks=[tracker, shown.append],
            budget=Budget(calls=9),
        ) as runtime:
            try:
                shown += runtime.stream({}, thread="t")
                if kind == "asks":
                    shown.append(runtime.state("t").interrupts)
                    shown.append(runtime.resume("t", answer=True))
            except GraphrtError as error:
                shown += [error, repr(error)]
            entries = list(runtime.entries("t"))
            shown += [*entries, *(repr(entry) for entry in entries), runtime.state("t").values, tracker.summary()]
    with closing(sqlite3.connect(tmp_path / "t.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())

    found = {secret for secret in SECRETS if secret.encode() in stored or json.dumps(secret)[1:-1].encode() in stored}
    assert found == set()
    assert hits(*shown) == []
    assert b"asks" in stored
