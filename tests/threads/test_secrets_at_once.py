"""A thread that is resumed at the moment at which its run ends has the secrets of that run."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.audit import Secret
from graphrt.events import Entry
from graphrt.stores import SqliteStore


class State(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    key: Secret | None = None
    used: bool = False


def ask(state: State, ctx: Context) -> dict[str, Any]:
    ctx.interrupt("go on?")
    return {"used": state.key is not None and state.key.known}


def test_secrets_are_kept_before_the_thread_is_released(tmp_path: Path) -> None:
    g = GraphBuilder(State, name="secret")
    g.add_node("make", lambda state: {"key": Secret("open sesame")})
    g.add_node("ask", ask)
    g.add_edge(START, "make").add_edge("make", "ask").add_edge("ask", END)
    paused = threading.Event()

    def tell(entry: Entry) -> None:  # for example a page that is notified of the question
        if type(entry.event).__name__ == "RunInterrupted":
            paused.set()
            time.sleep(0.5)

    with SqliteStore(tmp_path / "runs.db") as store:
        runtime = Runtime(g.compile(), store=store, sinks=[tell])
        first = threading.Thread(target=runtime.run, args=({},), kwargs={"thread": "t"})
        first.start()
        assert paused.wait(20)

        result = runtime.resume("t", "yes")

        first.join(20)
        assert result.state.used
