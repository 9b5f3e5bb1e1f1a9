"""Thirteen of LangGraph's published examples, rewritten in graphrt, for tests of tools that explore graphs.

All are correct: a finding here is a false positive. Each is a module with a function `graph` that builds the graph, and
with an `EXAMPLE` that describes how to run it.
"""

from __future__ import annotations

from typing import Final

from tests.testing.langgraph_examples import (
    branching,
    corrective_rag,
    customer_support,
    essay_writer,
    handoff,
    human_approval,
    map_reduce,
    plan_and_execute,
    react,
    reflection,
    sql_agent,
    supervisor,
    teams,
)
from tests.testing.langgraph_examples.example import Example

__all__ = ["EXAMPLES", "Example"]

EXAMPLES: Final[tuple[Example, ...]] = (
    branching.EXAMPLE,
    map_reduce.EXAMPLE,
    reflection.EXAMPLE,
    plan_and_execute.EXAMPLE,
    supervisor.EXAMPLE,
    corrective_rag.EXAMPLE,
    human_approval.EXAMPLE,
    react.EXAMPLE,
    sql_agent.EXAMPLE,
    customer_support.EXAMPLE,
    essay_writer.EXAMPLE,
    handoff.EXAMPLE,
    teams.EXAMPLE,
)
