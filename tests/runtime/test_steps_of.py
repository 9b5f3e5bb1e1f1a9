"""`Runtime.steps_of`: the records of a thread's journal equal the steps of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.audit.honest_logs import options
from tests.journal import voyage

from graphrt import START, GraphBuilder, Runtime
from graphrt.errors import NodeError


def lasting(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("duration_s", "seq", "at")}


@pytest.mark.parametrize("url", ["memory:", pytest.param("sqlite:///{0}/runs.db", marks=pytest.mark.full)])
def test_records_equal_the_steps(tmp_path: Path, url: str) -> None:
    """Fan-out, retries, a nested graph, questions, an edit between the runs, a second input."""
    voyage.tries.clear()
    with Runtime(voyage.graph(), store=url.format(tmp_path), **options()) as runtime:
        steps = list(runtime.steps({"notes": ["begun"]}, thread="t"))
        runtime.update("t", {"table": {"c": "x" * 70_000}})
        for answers in ("left", True):
            steps += runtime.steps(thread="t", answer=answers)
        steps += runtime.steps({"count": 1}, thread="t")
        wanted = [lasting(step.to_dict()) for step in steps]
        found = list(runtime.steps_of("t"))

        for mine in wanted:  # a step of a resumed run is numbered from 0
            mine.pop("step")
        kept = [{key: value for key, value in lasting(one).items() if key != "step"} for one in found]
        assert [one["node"] for one in kept] == [one["node"] for one in wanted]
        assert kept == wanted
        assert [one["step"] for one in found][:3] == [0, 1, 2]
        assert all(one["seq"] and one["at"] and one["duration_s"] is None for one in found)


def test_failed_task_has_a_record_and_another_one_when_it_ends() -> None:
    broken = [1]

    def work(_: Any) -> Any:
        if broken.pop() if broken else False:
            raise ValueError("no")
        return {"done": True}

    g: Any = GraphBuilder(voyage.State, name="g")
    g.add_node("work", lambda state: {"count": 1} if work(state) else None).add_edge(START, "work")
    with Runtime(g.compile(), store="memory:") as runtime:
        with pytest.raises(NodeError):
            runtime.run({"notes": []}, thread="t")
        runtime.retry("t")

        assert [(one["outcome"], one["error"]) for one in runtime.steps_of("t")] == [
            ("error", "ValueError: no"),
            ("success", None),
        ]
