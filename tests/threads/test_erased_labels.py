"""Erasure covers the listed data of a thread: labels, and questions in the inbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt import Context, GraphBuilder, Runtime
from graphrt.stores import open_store

CANARY = "Anna Zeppelin"


class State(BaseModel):
    about: str = ""
    said: str = ""


def asking() -> Any:
    g = GraphBuilder(State, name="asking")

    @g.node
    def ask(state: State, ctx: Context) -> dict[str, Any]:
        return {"said": ctx.interrupt(f"What of {state.about}?", key="q")}

    g.set_entry(ask)
    g.set_finish(ask)
    return g.compile()


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_labels_and_listed_questions_lose_erased_values(tmp_path: Path, tenant: str | None) -> None:
    store = open_store(f"sqlite:///{tmp_path}/runs.db", tenant=tenant)
    with store, Runtime(asking(), store=store) as runtime:
        runtime.run({"about": CANARY}, thread="t", title=f"About {CANARY}", tags=["keep"])
        runtime.run({"about": "tea"}, thread="other", title="Tea", tags=["keep"])
        assert [item.thread for item in runtime.inbox()] == ["t", "other"]
        report = runtime.erase(CANARY, force=True)
        assert report.threads == ("t",)
        titles = {info.thread: (info.title, info.tags) for info in runtime.threads()}
        assert titles["other"] == ("Tea", frozenset({"keep"}))
        assert titles["t"][0] is None
        assert CANARY not in repr(runtime.inbox())
        assert runtime.verify().ok
    found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert CANARY.encode() not in found


def test_tags_that_name_a_person_are_erased(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/runs.db") as store, Runtime(asking(), store=store) as runtime:
        runtime.run({"about": "tea"}, thread="t", title="Tea", tags=[CANARY, "keep"])
        runtime.label("t", add_tags=["more"])
        assert runtime.erase(CANARY, dry_run=True).lines == 2
        runtime.erase(CANARY, force=True)
        (info,) = runtime.threads()
        assert (info.title, info.tags) == ("Tea", frozenset())
        assert runtime.threads(tags=[CANARY]) == ()
        assert runtime.verify().ok
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_copy_of_a_tenants_thread_is_erased_with_it(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/runs.db", tenant="acme") as store, Runtime(asking(), store=store) as runtime:
        runtime.run({"about": "x"}, thread="t")
        runtime.copy_thread("t", "copy")
        report = runtime.erase(("t", "about"), force=True)
        assert report.threads == ("t", "copy")
