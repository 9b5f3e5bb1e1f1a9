"""The checks of `compile()`: turns the declarations of a graph into its plan, or into one error with all problems.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from graphrt._plan.reachability import JUDGEMENTS, judgements
from graphrt._plan.specs import GraphSpec
from graphrt._plan.tables import Plan
from graphrt._plan.validate import errors
from graphrt.errors._codes.findings import BAD_ALLOW, DEFINITION
from graphrt.limits import Limits


def checked(spec: GraphSpec, limits: Limits, allow: frozenset[str]) -> Plan:
    """Return the plan of *spec*. Called by `GraphBuilder.compile`, and by `rewired` for a copy with other edges.

    Args:
        spec: The declarations, in the order of the calls, with the problems that the builder has found already.
        limits: Limits of a run.
        allow: Codes of judgements to accept.

    Raises:
        DefinitionError: The graph has problems; `.problems` has all of them, in declaration order.
    """
    problems = errors(spec, limits)
    for code in sorted(allow.difference(JUDGEMENTS), key=str):  # `str`: a caller may pass anything
        problems.append(BAD_ALLOW(accepted=code, judgements=JUDGEMENTS))
    plan: Plan | None = None
    if not problems:  # judgements need a plan, and only a graph without errors has one
        plan = Plan(spec, limits)
        problems = [problem for problem in judgements(plan) if problem.code not in allow]
    if problems or plan is None:  # the second condition is only for type checkers
        raise DEFINITION(who=f"Graph {spec.name!r}", problems=problems, where=f"defined at {spec.where}")
    return plan
