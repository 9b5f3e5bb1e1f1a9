"""`Runtime.changes`: folding the changes of a thread gives the states of its steps."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic_core import to_jsonable_python
from tests.audit.honest_logs import options
from tests.journal import voyage

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append
from graphrt.runtime import StateChange


def folded(values: dict[str, Any], change: StateChange) -> dict[str, Any]:
    """Return the state after a change, as JSON data."""
    root: Any = deepcopy(values)
    for operation in to_jsonable_python(change.operations, fallback=repr, bytes_mode="base64"):
        verb, (*way, last), *given = operation
        place = root
        for part in way:
            place = place[part]
        if verb == "set":
            place[last] = given[0]
        elif verb == "remove":
            del place[last]
        elif verb == "append":
            place[last] += given[0]
        else:
            at, goes, comes = given
            place[last][at : at + goes] = comes
    return root


def test_folded_changes_are_the_states_of_the_steps() -> None:
    """Fan-out, retries, a nested graph, questions, an edit between the runs, a second input."""
    voyage.tries.clear()
    with Runtime(voyage.graph(), store="memory:", **options()) as runtime:
        list(runtime.steps({"notes": ["begun"]}, thread="t"))
        runtime.update("t", {"table": {"c": "x" * 70_000}})
        for answers in ("left", True):
            list(runtime.steps(thread="t", answer=answers))
        list(runtime.steps({"count": 1}, thread="t"))
        wanted = [(one["task_id"], one["state_after"]) for one in runtime.steps_of("t") if one["outcome"] == "success"]

        state: dict[str, Any] = {}
        found: list[tuple[str, Any]] = []
        kinds: list[str] = []
        for change in runtime.changes("t"):
            state = folded(state, change)
            kinds.append(change.kind)
            if change.task_id:
                found.append((change.task_id, state))

        assert [one for one in found if one[0] in dict(wanted)] == wanted
        assert kinds[0] == "input"
        assert {"task", "edit"} <= set(kinds)
        assert state == to_jsonable_python(runtime.state("t").values, bytes_mode="base64")


class Shelf(TypedDict, total=False):
    books: Annotated[list[Any], append]
    table: dict[str, Any]
    order: list[Any]


def test_changes_have_the_writes_and_can_be_continued_from_the_last_position(tmp_path: Path) -> None:
    g = GraphBuilder(Shelf, name="shelf")

    @g.node
    def work(state: Shelf) -> dict[str, Any]:
        order = [dict(one) for one in state.get("order", [{"n": n} for n in range(50)])]
        order[3] = {"n": len(state.get("books", []))}
        return {"books": [{"title": "b"}], "table": {**state.get("table", {}), "last": 1}, "order": order}

    g.add_sequence([START, work, END])
    with Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.run({"books": [1, 2], "table": {"first": 0}}, thread="t")
        changes = runtime.changes("t")
        first = list(changes)
        assert list(changes) == []
        runtime.run({"books": [3]}, thread="t")
        then = list(changes)

        assert [(one.kind, one.wrote) for one in first] == [
            ("input", ("books", "table")),
            ("task", ("books", "table", "order")),
        ]
        assert ("append", ("books",), [{"title": "b"}]) in first[1].operations
        assert ("set", ("table", "last"), 1) in first[1].operations
        assert then[0].operations == (("append", ("books",), [3]),)
        assert then[1].operations[1:] == (("set", ("order", 3, "n"), 4),)

        then[1].operations[0][2].append("mine")  # a copy
        assert "mine" not in str(runtime.state("t").values)
