"""The rewritten examples of LangGraph run to their ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.testing.langgraph_examples import EXAMPLES, Example

from graphrt import Runtime

ENDS: dict[str, Any] = {
    "branching": {"trail": ["begin", "left", "middle", "meet"]},
    "map-reduce": {"best": "A animals 0 walks into a bar."},
    "reflection": {"drafts": ["About tea .", "About tea shorter."]},
    "plan-and-execute": {"past": ["search: done", "look: done"], "answer": "Done."},
    "supervisor": {"done": ["researcher", "coder"]},
    "corrective-rag": {"searched_web": True, "grounded": True, "tries": 1},
    "human-approval": {"version": 2, "sent": "Tea."},
    "sql-agent": {"errors": ["no such column: name"], "rows": ["title of Blue"]},
    "customer-support": {"cancelled": True, "said": ["LX 12 is cancelled."]},
    "essay-writer": {"revisions": 2},
    "handoff": {"active": "hotel"},
    "teams": {"report": "4 facts: search on tea, page on tea, search on tea, page on tea"},
}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_runs_to_its_end_with_its_answers(example: Example) -> None:
    with Runtime(example.graph(), store="memory:", **example.options()) as runtime:
        result = runtime.run(example.input, thread="t")
        for answer in example.answers:
            result = runtime.resume("t", answer=answer)

    assert result.status == "completed"
    assert result.warnings == ()
    ended = result.state if isinstance(result.state, dict) else result.state.model_dump()
    assert {name: ended[name] for name in ENDS.get(example.name, {})} == ENDS.get(example.name, {})
