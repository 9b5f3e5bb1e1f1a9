"""What `@g.node` returns: the function as it was, that also stands for its node. And what may stand where."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt.commands import Command, EndType, Interrupt, NodeRef, Send, StartType

S = TypeVar("S")
"""The state. Invariant: nodes take it and results give it."""
U = te.TypeVar("U", default=Mapping[str, Any])
"""The update. Invariant, like the state."""
P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
"""Covariant: a node that returns less is usable where one that may return more is expected."""

Source: TypeAlias = NodeRef | StartType
Target: TypeAlias = NodeRef | EndType
Label: TypeAlias = str | bool | int | Enum
RouterResult: TypeAlias = Label | Send | Sequence[Label | Send]
Returned: TypeAlias = U | Command[U] | Interrupt | None
Outcome: TypeAlias = Returned[U] | Coroutine[Any, Any, Returned[U]]
"""What a call of a node's function gives: something returned, or a coroutine of it."""


@final
class NodeHandle(Generic[P, R_co]):
    """A node's function, callable as it was, that stands for the node wherever one is named."""

    def __init__(self, fn: Callable[P, R_co], name: str) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._name = name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        return self._fn(*args, **kwargs)

    @property
    def __graphrt_node__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<node {self._name!r}>"


def function_of(fn: Any) -> Any:
    """The function behind a handle; anything else as it is."""
    return fn._fn if isinstance(fn, NodeHandle) else fn
