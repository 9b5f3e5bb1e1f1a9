"""Routing tables as parametrised tests: one test per row of `@pytest.mark.routes(graph, table)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from graphrt import CompiledGraph

ARGUMENT = "graphrt_route"
"""Name of the argument by which a test can get its row."""
_USE = (
    "write @pytest.mark.routes(graph, 'node', [(state, target), ...]), or "
    "@pytest.mark.routes(graph, {'node': [(state, target), ...]})"
)
_MOVE = "move the test out of the class, or let the class not inherit unittest.TestCase"


@dataclass(frozen=True)
class Route:
    """One row of a routing table, passed to a test with the argument `graphrt_route`."""

    graph: CompiledGraph[Any, Any, Any]
    """The graph under test."""
    node: Any
    """The node whose edges are checked, or START."""
    state: Any
    """The state for which they are checked."""
    expected: tuple[Any, ...]
    """The expected targets, as `CompiledGraph.route` returns them."""


@dataclass(frozen=True)
class _BadTable:
    why: str


def check(item: pytest.Item) -> None:
    """Check the row of *item*, a test with the marker `routes`: the edges of its node have the expected targets."""
    row: Route | _BadTable | None = vars(item)["callspec"].params.get(ARGUMENT) if "callspec" in vars(item) else None
    if row is None:
        if isinstance(item, pytest.Function):  # as a doctest is not, in a module whose `pytestmark` has a table
            pytest.fail(
                f"pytest calls a test of a unittest.TestCase once, and not for each row: {_MOVE}", pytrace=False
            )
        return
    if isinstance(row, _BadTable):
        pytest.fail(row.why, pytrace=False)
    from graphrt.errors import GraphrtError

    taken: tuple[Any, ...] = ()
    problem: str | None = None
    try:
        taken = row.graph.route(row.node, row.state)
    except GraphrtError as error:
        problem = str(error)
    if problem is not None:  # outside the handler, so that pytest shows no other error
        pytest.fail(problem, pytrace=False)
    if taken != row.expected:
        pytest.fail(
            f"{_name(row.node)} leads to {_names(taken)}, not to {_names(row.expected)}.\n  state: {row.state!r}",
            pytrace=False,
        )


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Call the test once per row of its routing tables."""
    rows: list[Any] = []
    ids: list[str] = []
    for marker in reversed(list(metafunc.definition.iter_markers("routes"))):  # in source order of the decorators
        for row in _rows(marker):
            rows.append(row)
            ids.append("bad-table" if isinstance(row, _BadTable) else _id(row))
    if ARGUMENT not in metafunc.fixturenames:  # the row is checked even if the test does not take it
        metafunc.fixturenames.append(ARGUMENT)
    metafunc.parametrize(ARGUMENT, rows, ids=_numbered(ids))


def _rows(marker: pytest.Mark) -> Iterator[Route | _BadTable]:
    args: tuple[Any, ...] = marker.args
    if not args or not _is_graph(args[0]) or marker.kwargs:
        yield _BadTable(f"@pytest.mark.routes needs a compiled graph and a table: {_USE}")
        return
    tables: list[tuple[Any, Any]]
    if len(args) == 2 and isinstance(args[1], Mapping):
        tables = list(args[1].items())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not tables:
            yield _BadTable("the mapping of routing tables is empty")
    elif len(args) == 3:
        tables = [(args[1], args[2])]
    else:
        yield _BadTable(f"@pytest.mark.routes needs a graph and a table: {_USE}")
        return
    for node, rows in tables:
        if isinstance(rows, str) or not isinstance(rows, Iterable):
            yield _BadTable(f"the routing table of {_name(node)} is not a list of (state, target): {rows!r}")
            continue
        pairs: list[Any] = list(rows.items() if isinstance(rows, Mapping) else rows)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if not pairs:
            yield _BadTable(f"the routing table of {_name(node)} is empty")
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:  # pyright: ignore[reportUnknownArgumentType]
                yield _BadTable(f"a row of the routing table of {_name(node)} is not (state, target): {pair!r}")
            else:
                state, target = pair  # pyright: ignore[reportUnknownVariableType]
                yield Route(args[0], node, state, _targets(target))


def _is_graph(value: object) -> bool:
    from graphrt import CompiledGraph

    return isinstance(value, CompiledGraph)


def _targets(target: Any) -> tuple[Any, ...]:
    given: list[Any] = list(target) if isinstance(target, list | tuple) else [target]  # pyright: ignore[reportUnknownArgumentType]
    from graphrt import END
    from graphrt.commands import node_name

    targets = (END if name == "END" else node_name(name) for name in given)
    return tuple(targets) or (END,)  # a router that returns an empty list ends the branch


def _id(row: Route) -> str:
    return f"{_name(row.node)}-{'+'.join(_name(one) for one in row.expected)}"


def _numbered(ids: list[str]) -> list[str]:
    """Return *ids*, with numbers appended to equal ones."""
    return [f"{name}-{ids[:at].count(name) + 1}" if ids.count(name) > 1 else name for at, name in enumerate(ids)]


def _name(node: Any) -> str:
    node = getattr(node, "node", node)  # of a Send
    name = getattr(node, "__graphrt_node__", getattr(node, "name", node))  # of a handle; of START or END
    return name if isinstance(name, str) else repr(name)


def _names(targets: tuple[Any, ...]) -> str:
    return ", ".join(_name(one) if not hasattr(one, "arg") else repr(one) for one in targets)
