"""`NodeHandle`, which `@g.node` returns, and the types of the places where nodes, labels and results are accepted.

A *label* is what a router returns to choose the next node. `NodeRef` is a node's name or handle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt.commands import Command, EndType, Interrupt, NodeRef, Send, StartType

S = te.TypeVar("S", default=Any)
"""The state. Invariant: nodes take it and results return it."""
U = te.TypeVar("U", default=Mapping[str, Any])
"""The update. Invariant, like the state."""
I_co = te.TypeVar("I_co", default=Mapping[str, Any], covariant=True)
"""The type of a run's input other than a whole state. Covariant, so that a graph with a more strictly typed input can
be used where any mapping is accepted: by a function that takes graphs, or in a variable annotated without this type.
Each run checks its input again."""
P = ParamSpec("P")
"""The parameters of a node's function."""
R_co = TypeVar("R_co", covariant=True)
"""The result of a function. Covariant: a function with a narrower result can be used where a wider one is expected."""

Source: TypeAlias = NodeRef | StartType
"""Where an edge begins; `Target` is where it leads."""
Target: TypeAlias = NodeRef | EndType
Label: TypeAlias = str | bool | int | Enum
RouterResult: TypeAlias = Label | Send | Sequence[Label | Send]
# A node returns an update or a list of updates, a Command (these with the next nodes), an Interrupt (a question that
# pauses the run), or None for no change.
Returned: TypeAlias = U | Sequence[U] | Command[U] | Command[Sequence[U]] | Interrupt | None
Outcome: TypeAlias = Returned[U] | Coroutine[Any, Any, Returned[U]]
"""The result of calling a node's function: a returned value, or a coroutine of one."""


@final
class NodeHandle(Generic[P, R_co]):
    """A node's function, which can still be called, and which is accepted wherever a node is named.

    Args:
        fn: The function.
        name: The node's name.
    """

    def __init__(self, fn: Callable[P, R_co], name: str) -> None:
        functools.update_wrapper(self, fn)  # the handle has the function's name and docstring
        self._fn = fn
        self._name = name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        return self._fn(*args, **kwargs)

    @property
    def __graphrt_node__(self) -> str:
        """The node's name; by this attribute other modules recognise what names a node."""
        return self._name

    def __repr__(self) -> str:
        return f"<node {self._name!r}>"


def function_of(fn: Any) -> Any:
    """Return the function of a handle; any other value unchanged. Plans must call the function itself."""
    return fn._fn if isinstance(fn, NodeHandle) else fn
