"""The content of records: the states, the inner runs of a step, and the step that wrote each value."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from graphrt.compat.lar import AddValueNode, BatchNode, FunctionalNode, GraphExecutor, RouterNode, ToolNode, apply_diff
from graphrt.compat.lar._state import same

from .support import asking, broken, echo, model, run, three_steps


class Plain:
    def __init__(self) -> None:
        self.x = 1
        self.inside: list[Any] = [{"y": 1}]


class Slots:
    __slots__ = ("x",)

    def __init__(self) -> None:
        self.x = 1


@dataclass
class Data:
    x: int = 1
    unseen: int = field(default=1, compare=False)


class Model(BaseModel):
    x: int = 1


class Items(dict[str, Any]):
    x = 1


def set_x(state: Any) -> None:
    state.get("o").x = 2


def set_inside(state: Any) -> None:
    state.get("o").inside[0]["y"] = 2


def set_unseen(state: Any) -> None:
    state.get("o").unseen = 2


@pytest.mark.parametrize(
    ("make", "change", "look"),
    [
        (Plain, set_x, lambda value: value.x),
        (Plain, set_inside, lambda value: value.inside[0]["y"]),
        (Slots, set_x, lambda value: value.x),
        (Data, set_x, lambda value: value.x),
        (Data, set_unseen, lambda value: value.unseen),
        (Model, set_x, lambda value: value.x),
        (Items, set_x, lambda value: value.x),
    ],
    ids=["attribute", "deep", "slots", "dataclass", "not compared", "pydantic", "subclass of dict"],
)
def test_object_that_a_node_changes_is_a_change_of_that_step(make: Any, change: Any, look: Any) -> None:
    """ "state_before: Snapshot"; "the exact change the node made to the state" """
    given = make()
    executor = GraphExecutor()
    look_on = FunctionalNode(lambda state: look(state["o"]), "seen")
    records = list(executor.run_step_by_step(FunctionalNode(change, next_node=look_on), {"o": given}))

    for one in (records[0], executor.logger.get_history()[0]):
        assert [look(one[at]["o"]) for at in ("state_before", "state_after")] == [1, 2]
        assert one["state_diff"]["updated"]["o"] is not one["state_after"]["o"]
    assert list(records[0]["state_diff"]["updated"]) == ["o"]
    assert records[1]["state_after"]["seen"] == 2
    assert list(records[1]["state_diff"]["updated"]) == []
    assert look(given) == 1
    assert same(executor.logger.get_history(), records)


def test_objects_that_were_only_read_are_not_changes() -> None:
    class Ring:
        def __init__(self) -> None:
            self.me = self

    reads = FunctionalNode(lambda state: state.get_all() and None)
    given = {"plain": Plain(), "ring": Ring(), "lock": Path, "open": iter([1]), "error": ValueError("a")}

    assert run(BatchNode([reads, FunctionalNode(lambda state: state.get_all() and None)]), given).records[0][
        "state_diff"
    ] == {"added": {}, "removed": {}, "updated": {}, "modified": {}}


def test_exceptions_with_other_arguments_differ() -> None:
    assert not same(ValueError("a"), ValueError("b"))
    assert same(ValueError("a"), ValueError("a"))


# -- inside a step ---------------------------------------------------------------------------------------------------


def brief(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one.get("branch"), one["node"], one["outcome"], one["state_diff"]["added"]) for one in records]


def test_batch_has_the_records_of_its_branches() -> None:
    """ "yields exact execution diffs back to the caller at every node boundary" """
    deep = BatchNode([asking("say {q}", "said"), AddValueNode("c", 3)], AddValueNode("d", 4))
    start = BatchNode([AddValueNode("a", 1, AddValueNode("b", 2)), deep], AddValueNode("end", True))

    outcome = run(start, {"q": "it", "token_budget": 100}, model=model(prompt_tokens=10))

    record = outcome.records[0]
    assert brief(record["inner"]) == [
        (0, "AddValueNode", "success", {"a": 1}),
        (0, "AddValueNode", "success", {"b": 2}),
        (1, "BatchNode", "success", {"said": "TEXT", "c": 3}),
        (1, "AddValueNode", "success", {"d": 4}),
    ]
    assert brief(record["inner"][2]["inner"]) == [
        (0, "LLMNode", "success", {"said": "TEXT"}),
        (1, "AddValueNode", "success", {"c": 3}),
    ]
    asked = record["inner"][2]["inner"][0]
    assert (asked["prompt"], asked["run_metadata"]["total_tokens"], asked["run_metadata"]["model"]) == (
        "say it",
        11,
        "m",
    )
    assert record["inner"][1]["state_before"] == {"q": "it", "a": 1, "token_budget": 100}
    for one in (*record["inner"], *record["inner"][2]["inner"]):
        assert apply_diff(one["state_before"], one["state_diff"]) == one["state_after"]
    assert "inner" not in outcome.records[1]


def test_history_has_the_yielded_records() -> None:
    deep = BatchNode([asking("say {q}", "said"), FunctionalNode(lambda state: state.delete("q"))], AddValueNode("d", 4))
    executor = GraphExecutor(models={"m": model(prompt_tokens=10)})
    start = BatchNode([asking("say {q}", "a", AddValueNode("b", {"x": [1]})), deep], AddValueNode("end", True))

    records = list(executor.run_step_by_step(start, {"q": "it", "token_budget": 101}))

    assert executor.logger.get_history() == records
    records[0]["inner"][1]["state_diff"]["added"]["b"]["x"].append(2)
    records[0]["state_before"]["q"] = "changed"
    assert executor.logger.get_history()[0]["inner"][1]["state_after"]["b"] == {"x": [1]}
    assert executor.logger.get_history()[0]["state_before"]["q"] == "it"


def test_branches_share_one_copy_of_a_state() -> None:
    big = {"text": ["x" * 100] * 1000}
    (record,) = run(BatchNode([AddValueNode(f"key{n}", n) for n in range(50)]), big).records

    assert len({id(one["state_before"]["text"]) for one in record["inner"]}) == 1


def test_failed_batch_has_the_records_of_its_finished_steps() -> None:
    outcome = run(BatchNode([AddValueNode("a", 1, ToolNode(broken, [], None)), AddValueNode("b", 2)]))

    assert [(one["branch"], one["outcome"], one.get("error")) for one in outcome.records[0]["inner"]] == [
        (0, "success", None),
        (0, "error", "no route to host"),
        (1, "success", None),
    ]


# -- causes ----------------------------------------------------------------------------------------------------------


def test_record_names_the_steps_that_wrote_the_values_it_read() -> None:
    """ "Causality: we log the exact state change that caused the new reality" """
    last = ToolNode(broken, ["joined", "topic", "missing"], None)
    join = asking("Join {one} {two}", "joined", last)
    one = asking("One on {topic}", "draft1", ToolNode(str.title, ["draft1"], "one"))
    batch = BatchNode([one, AddValueNode("two", "{style}")], join)
    route = RouterNode(lambda state: state["style"], {"short": batch})

    records = run(AddValueNode("style", "short", route), {"topic": "tea", "unused": 1}, model=echo()).records

    assert [record["reads"] for record in records] == [
        {},
        {"style": 0},
        {"style": 0, "topic": None},
        {"one": 2, "two": 2},
        {"joined": 3, "topic": None},
    ]
    assert records[-1]["outcome"] == "error"
    assert [one["reads"] for one in records[2]["inner"]] == [{"topic": None}, {"draft1": [2, 0]}, {"style": 0}]


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the names of open files")
def test_record_is_on_the_disk_before_it_is_yielded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "GxP-compliant JSON persistence" """
    sizes: dict[str, int] = {}
    sync = os.fsync

    def noted(handle: int) -> None:
        sync(handle)
        path = str(Path(f"/proc/self/fd/{handle}").readlink())
        sizes[path] = os.fstat(handle).st_size

    monkeypatch.setattr("os.fsync", noted)
    for record in GraphExecutor(log_dir=tmp_path).run_step_by_step(three_steps(), {}):
        (file,) = tmp_path.iterdir()
        assert sizes[str(file)] == file.stat().st_size
        assert json.loads(file.read_bytes().splitlines()[-1])["step"] == record["step"]
        assert str(tmp_path) in sizes


def test_inner_records_in_a_file_have_no_states(tmp_path: Path) -> None:
    executor = GraphExecutor(log_dir=tmp_path)
    executor.run(BatchNode([AddValueNode("a", 1)]), {"big": "x" * 1000})

    (file,) = tmp_path.iterdir()
    step = json.loads(file.read_bytes().splitlines()[1])
    assert step["inner"][0]["state_diff"]["added"] == {"a": 1}
    assert "x" * 1000 not in json.dumps(step)
    assert executor.logger.history[0]["inner"][0]["state_before"] == {"big": "x" * 1000}


def test_values_of_all_kinds_have_a_line_in_the_file(tmp_path: Path) -> None:
    odd = {"bytes": b"\xff", "keys": {(1, 2): 3}, "nan": float("nan"), "lone": "\ud800", "object": Plain()}

    assert run(three_steps(), odd, log_dir=tmp_path, document=True).outcome == "success"
    assert len(list(tmp_path.iterdir())) == 2
