"""Joins and their generations (rule R5): which sources arrived, whether the join fired, and starved joins.

A source of a join *arrives* when it has finished and its edges apply. The join *fires*, that is, its node becomes due,
once `need` distinct sources have arrived: all, one, or a given number. Arrivals are counted in *generations*, so that a
join in a loop can fire again. A generation begins with an arrival, fires once, and closes when all have arrived or when
a counted source arrives again. Only the open generation is kept (`JoinState`).

When nothing is due any more, a join whose generation has begun but not fired is *starved*: the missing arrivals cannot
happen. A join is *emptied* if a router returned an empty list instead of starting a source (a map over nothing,
decision 0060). Its `starved` option decides: "error", "run" (fire nevertheless) or "ignore". For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphrt._engine.join_state import JoinState
from graphrt._engine.route import Routed
from graphrt._plan.tables import BranchPlan, NodePlan
from graphrt.errors import StarvedJoinError, names
from graphrt.errors._codes.nodes import STARVED_JOIN

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState


def starved_error(engine: RunState, joins: Sequence[JoinState]) -> StarvedJoinError:
    """Return the error for *joins* that still wait when nothing is due any more."""
    nodes = engine.plan.nodes
    first = joins[0]
    missing = [nodes[at].name for at in first.missing()]
    text = "; ".join(
        f"the join before {join.plan.dst.name!r} waits for {names(nodes[at].name for at in join.missing())}"
        for join in joins
    )
    return STARVED_JOIN(
        waiting=text,
        arrived=(nodes[at].name for at in sorted(first.arrived)),
        need=first.plan.need,
        join=first.plan.dst.name,
        node=first.plan.dst.name,
        nodes=tuple(missing),
        where=engine.where(),
    )


def arrive(engine: RunState, routed: Routed) -> list[JoinState]:
    """Count the arrivals of *routed*, and add the nodes of joins that fire to it.

    Returns the changed joins. Called in each commit, after the edges and routers of the ended tasks were followed. The
    event of the commit contains the changed joins.
    """
    changed: list[JoinState] = []
    for join, source in routed.arrivals:  # index of the join, and of the node that arrived
        state = engine.joins[join]
        if state.arrive(source):
            routed.plain[state.plan.dst.index] = state.plan.dst  # one plain activation of the join's node
        if state not in changed:
            changed.append(state)
    for branch in routed.emptied:  # conditional edges whose routers returned an empty list
        changed += [state for state in empty(engine, branch) if state not in changed]
    return changed


def empty(engine: RunState, branch: BranchPlan) -> list[JoinState]:
    """Mark the joins that wait for nodes that *branch* could have started, after its router returned an empty list.

    Returns:
        The marked joins: those with such a source and without arrivals in their open generation.
    """
    nodes = engine.plan.nodes
    # Other targets than nodes are END, and NO_DEFAULT for a branch without a default.
    skipped = {target.index for target in (*branch.table.values(), branch.default) if isinstance(target, NodePlan)}
    waiting = list(skipped)
    while waiting:  # nodes behind them by static edges do not run either
        for target in nodes[waiting.pop()].static:
            if target.index not in skipped:
                skipped.add(target.index)
                waiting.append(target.index)
    emptied = [join for join in engine.joins if not join.arrived and not join.plan.sources.isdisjoint(skipped)]
    for join in emptied:
        join.emptied = True
    return emptied


def never_fired(engine: RunState) -> list[str]:
    """Return warnings for the result of a completed run: one for each join that a map over nothing kept from firing.

    An empty list is often intended, so it is an error only if a source arrived. `starved="ignore"` suppresses the
    warning.
    """
    nodes = engine.plan.nodes
    return [
        f"The join before {join.plan.dst.name!r} never fired: a router returned an empty list, so nothing was started "
        f"that leads to {names(nodes[at].name for at in sorted(join.plan.sources))}. Give the join starved='run' to "
        "run it all the same, or starved='ignore' if this is meant."
        for join in engine.joins
        if join.emptied and join.plan.starved == "error"
    ]


def fire_starved(engine: RunState) -> list[JoinState]:
    """Fire the starved and emptied joins with `starved="run"`: make their nodes due, and return these joins.

    Called when nothing is due. If enough sources of a join have arrived, because a new version of the graph requires
    fewer, it fires with any option. An emptied join without arrivals does not raise an error: with "error" it causes a
    warning at the end of the run (`never_fired`).

    Raises:
        StarvedJoinError: A join with `starved="error"` has arrivals and never fired.
    """
    starved = [join for join in engine.joins if join.starved]
    emptied = [join for join in engine.joins if join.emptied and join.plan.starved == "run"]
    if not starved and not emptied:
        return []
    bad = [join for join in starved if join.plan.starved == "error" and not join.is_overdue]
    if bad:  # before any join fires, so that the generations are unchanged
        raise starved_error(engine, bad)
    fired = [join for join in starved if join.plan.starved == "run" or join.is_overdue]
    routed = Routed()
    for join in fired:  # the generation stays open, and absorbs any later arrivals
        join.fired = True
    for join in emptied:  # nothing arrived, so no generation is open; reset, so that it fires once for an empty list
        join.emptied = False
    for join in (*fired, *emptied):
        routed.plain[join.plan.dst.index] = join.plan.dst
    engine.make_due(routed.due())
    return [*fired, *emptied]
