"""`@g.node`: adds a function as a node and returns a handle that keeps the function's own types.

Type checkers see a node's function in two ways: as the function that the graph needs, which they verify, and as it was
declared, which the handle keeps. That is why both protocols below have two overloads each. The protocols exist for type
checkers alone: nothing calls their methods. `S` is the state, `U` the update that a node returns, and an *outcome* is
whatever the graph accepts from a node, such as an update. In both protocols, the first overload is how the graph calls
the function, and the second is how it was declared: the state, then any other parameters (P).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, Protocol, TypeVar, final, overload

from typing_extensions import Unpack

from graphrt._drivers.context import Context
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph.handles import NodeHandle, Outcome, P, R_co, S, U, function_of
from graphrt.graph.places import here
from graphrt.graph.policies import NodePolicy

R = TypeVar("R")
"""The result that the decorated function declares."""
S_contra = TypeVar("S_contra", contravariant=True)
"""The state. Contravariant: a function that accepts a wider type can be a node for this state."""
O_co = TypeVar("O_co", covariant=True)
"""The results that the graph accepts from a node. Covariant, like the declared result."""


class NodeFunction(Protocol[S_contra, O_co, P, R_co]):
    """A function of the state: for the graph it returns an outcome, for its callers what it declares (R_co)."""

    @overload
    def __call__(self, state: S_contra, /) -> O_co: ...
    @overload
    def __call__(self, state: S_contra, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class NodeFunctionWithContext(Protocol[S_contra, O_co, P, R_co]):
    """A function of state and context: for the graph it returns an outcome, for its callers what it declares (R_co)."""

    @overload
    def __call__(self, state: S_contra, ctx: Context[Any], /) -> O_co: ...
    @overload
    def __call__(self, state: S_contra, ctx: Context[Any], /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


@final
class NodeDecorator(Generic[S, U]):
    """Decorator that adds a function as a node. Called with keyword arguments, it sets the name or the policy first.

    `GraphBuilder.node` returns one.

    Args:
        add: Declares a node from its name, its function, its policy arguments and the `file:line` of the call.
        name: Name of the node; None takes the function's.
        policy: Policy arguments of the node.
    """

    def __init__(
        self,
        add: Callable[[Any, Any, Mapping[str, Any], str], None],
        name: str | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> None:
        self._add = add
        self._name = name
        self._policy: Mapping[str, Any] = policy if policy is not None else {}

    # `@g.node` on a function of the state, on a function of state and context, and `@g.node(...)`.
    @overload
    def __call__(self, fn: NodeFunction[S, Outcome[U], P, R], /) -> NodeHandle[Concatenate[S, P], R]: ...
    @overload
    def __call__(
        self, fn: NodeFunctionWithContext[S, Outcome[U], P, R], /
    ) -> NodeHandle[Concatenate[S, Context[Any], P], R]: ...
    @overload
    def __call__(self, /, *, name: str | None = ..., **policy: Unpack[NodePolicy[S]]) -> NodeDecorator[S, U]: ...
    def __call__(self, fn: Any = None, /, *, name: str | None = None, **policy: Any) -> Any:
        """Add *fn* as a node; without *fn*, return a decorator with this name and policy.

        Args:
            fn: `fn(state)` or `fn(state, ctx)`, sync or async.
            name: Name of the node; None takes the function's.
            policy: See `GraphBuilder.add_node`.

        Returns:
            A handle that can be called like the function, and that is accepted wherever a node is named.

        Raises:
            InputError: The argument is a text instead of a function (`input`).
        """
        if isinstance(fn, str):
            raise INVALID_ARGUMENT(
                argument="The function of @g.node",
                value=fn,
                wanted=f"it as the name: @g.node(name={fn!r})",
                where=here(),
            )
        if fn is None:  # `@g.node(...)`: the result is called with the function
            return NodeDecorator[S, U](self._add, name if name is not None else self._name, {**self._policy, **policy})
        # A callable object has no `__name__`: its node is named after its class.
        own_name = self._name if self._name is not None else getattr(fn, "__name__", type(fn).__name__)
        self._add(own_name, fn, self._policy, here())
        return NodeHandle(function_of(fn), own_name)
