"""`g.node`: adds functions as nodes and gives back handles that keep the functions' own types.

A node's function is seen twice by type checkers: as what the graph asks for, which is verified, and as what it is,
which is kept. That is why its two protocols have two overloads each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, Protocol, TypeVar, final, overload

from typing_extensions import Unpack

from graphrt._drivers.context import Context
from graphrt.errors import InputError
from graphrt.graph.handles import NodeHandle, Outcome, P, R_co, S, U, function_of
from graphrt.graph.places import here
from graphrt.graph.policies import NodePolicy

R = TypeVar("R")
S_contra = TypeVar("S_contra", contravariant=True)
"""The state. Contravariant: a node that takes more is usable where one that takes this state is expected."""
O_co = TypeVar("O_co", covariant=True)
"""What the graph lets a node return. Covariant, like what it does return."""


class NodeFunction(Protocol[S_contra, O_co, P, R_co]):
    """A function of the state that returns an outcome; in itself one that returns R."""

    @overload
    def __call__(self, state: S_contra, /) -> O_co: ...
    @overload
    def __call__(self, state: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class NodeFunctionWithContext(Protocol[S_contra, O_co, P, R_co]):
    """A function of the state and the context that returns an outcome; in itself one that returns R."""

    @overload
    def __call__(self, state: S_contra, ctx: Context[Any], /) -> O_co: ...
    @overload
    def __call__(self, state: S_contra, ctx: Context[Any], /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


@final
class NodeDecorator(Generic[S, U]):
    """Adds a function as a node named like it; called with arguments, under another name or with a policy."""

    def __init__(
        self,
        add: Callable[[Any, Any, Mapping[str, Any], str], None],
        name: str | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        self._add = add
        self._name = name
        self._policy: Mapping[str, Any] = policy if policy is not None else {}

    @overload
    def __call__(self, fn: NodeFunction[S, Outcome[U], P, R], /) -> NodeHandle[Concatenate[S, P], R]: ...
    @overload
    def __call__(
        self, fn: NodeFunctionWithContext[S, Outcome[U], P, R], /
    ) -> NodeHandle[Concatenate[S, Context[Any], P], R]: ...
    @overload
    def __call__(self, /, *, name: str | None = ..., **policy: Unpack[NodePolicy[S]]) -> NodeDecorator[S, U]: ...
    def __call__(self, fn: Any = None, /, *, name: str | None = None, **policy: Any) -> Any:
        """Add *fn* as a node, or say how the next one is added.

        Args:
            fn: `fn(state)` or `fn(state, ctx)`, sync or async.
            name: Another name than the function's.
            policy: See `GraphBuilder.add_node`.

        Returns:
            A handle: callable as the function was, and standing for the node wherever one is named.
        """
        if isinstance(fn, str):
            raise InputError(
                f"@g.node was given the name {fn!r} as if it were a function.",
                code="bad-node",
                where=here(),
                fix=f"Write @g.node(name={fn!r}).",
            )
        if fn is None:
            return NodeDecorator[S, U](self._add, name if name is not None else self._name, {**self._policy, **policy})
        own_name = self._name if self._name is not None else getattr(fn, "__name__", type(fn).__name__)
        self._add(own_name, fn, self._policy, here())
        return NodeHandle(function_of(fn), own_name)
