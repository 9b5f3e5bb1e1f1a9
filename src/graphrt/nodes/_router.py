"""`router`: the arguments of a conditional edge that follows a field, or a function of the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

from graphrt.commands import END
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph import declare_fields
from graphrt.graph.handles import RouterResult, Target
from graphrt.nodes._state_access import read
from graphrt.specs import Form, Parts, declare_form
from graphrt.specs.manifest import Name

NOTHING: Final = "(nothing)"
"""Label of a field that is None; only the default accepts it."""


class Routes(NamedTuple):
    """The arguments of `add_conditional_edges` after the source: `g.add_conditional_edges(node, *routes)`."""

    router: Callable[[Any], RouterResult]
    """A pure function of the state."""
    routes: Mapping[Any, Target] | Sequence[Target]
    """Label to target, or a list of nodes."""
    default: Target | None
    """Target of any other label; None rejects other labels."""


def router(
    by: str | Callable[[Any], RouterResult],
    routes: Mapping[Any, Target] | Sequence[Target],
    *,
    default: Target | None = None,
) -> Routes:
    """Return a conditional edge that chooses its target by a field.

    The routes are those of `add_conditional_edges`: `compile()` checks them, and `graph.route()` tests them. A label
    without a route, or a field that is None, goes to the default; without one it is a RouteError.

    Args:
        by: The field whose value is the label (a string, bool, int, Enum member, or a list of these), or a function of
            the state.
        routes: Label to target, or a list of nodes.
        default: Target of any other label.

    Raises:
        InputError: *by* is neither a field nor a function (`input`).
    """
    if not isinstance(by, str):
        if not callable(by):
            raise INVALID_ARGUMENT(
                argument="by= of router()", value=by, wanted="the name of a field, or a function of the state"
            )
        return Routes(by, routes, default)

    def choose(state: Any) -> Any:
        label = read(state, by)
        return NOTHING if label is None and default is not None else label

    declare_fields(choose, reads=[by])
    return Routes(declare_form(choose, FieldRouterForm, {"field": by}), routes, default)


class FieldRouterForm(Form):
    """Chooses the next node by a field."""

    kind: Literal["field"] = "field"
    field: Name
    """The field whose value is the label."""

    is_router: ClassVar[bool] = True

    def make(self, parts: Parts) -> Any:
        """Return the router."""
        return router(self.field, {}, default=END if parts.has_default else None).router
