"""What a node may say, and the two ends of every graph.

START, END, Command, Send, Interrupt, and the markers of an update (DELETE, Overwrite, UNSET) live here.
Nothing that decides or performs anything does.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt.errors import InputError

__all__ = [
    "DELETE",
    "END",
    "START",
    "UNSET",
    "Command",
    "EndType",
    "Interrupt",
    "NodeRef",
    "Overwrite",
    "Send",
    "StartType",
]

T = TypeVar("T")
U_co = te.TypeVar("U_co", covariant=True, default=Any)
"""Covariant: a Command that updates less is usable where one that may update more is expected."""


_NONE: Any = object()


@final
class StartType(Enum):
    """The type of START: a class of its own, so that type checkers refuse an edge to START."""

    START = "__start__"

    def __repr__(self) -> str:
        return "START"


@final
class EndType(Enum):
    """The type of END: a class of its own, so that type checkers refuse an edge from END."""

    END = "__end__"

    def __repr__(self) -> str:
        return "END"


START: Final = StartType.START
"""The virtual first node: where the input comes in. Never runs, is never visited."""
END: Final = EndType.END
"""The virtual last node: ends a branch. Never runs, is never visited."""

RESERVED_NAMES: Final = frozenset({"START", "END", "__start__", "__end__"})


class HasNodeName(Protocol):
    """What stands for a node besides its name: what `@g.node` returns."""

    @property
    def __graphrt_node__(self) -> str: ...


NodeRef: TypeAlias = str | HasNodeName
"""Wherever a node is named: its name, or the handle that `@g.node` returned."""


def node_name(ref: object) -> object:
    """The name that *ref* stands for; anything that is no reference is returned as it is."""
    return ref if isinstance(ref, str) else getattr(ref, "__graphrt_node__", ref)


@final
class Sentinel:
    """A value that is only itself. No Enum: pydantic would take the member's value for a number or a string."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return self._name  # copied and unpickled as the one in this module


UNSET: Any = Sentinel("UNSET")
"""Default of every field of a dataclass used as `Update`: the field is not written."""
DELETE: Any = Sentinel("DELETE")
"""In an update: remove the value (back to the field's default, or absent in a TypedDict)."""


@final
class Replacement:
    """What `Overwrite(value)` makes; only `Overwrite` builds it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replacement) and other.value == self.value

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"


if TYPE_CHECKING:

    def Overwrite(value: T) -> T:  # noqa: N802 - reads as the marker that it makes
        """In an update: set the field to *value*, past its reducer."""
        ...

else:

    def Overwrite(value: Any) -> Replacement:  # noqa: N802 - reads as the marker that it makes
        """In an update: set the field to *value*, past its reducer."""
        return Replacement(value)


@final
class Send:
    """Start one task of *node* whose `ctx.arg` is *arg*.

    Sends never merge: each is a task of its own, in the order in which they were emitted.
    """

    __slots__ = ("arg", "node")

    def __init__(self, node: NodeRef, arg: Any = None) -> None:
        # Anything that is no reference stays what it is: the router that emits it is told.
        self.node: str = node if node.__class__ is str else node_name(node)  # type: ignore[assignment]
        self.arg: Any = arg

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and (other.node, other.arg) == (self.node, self.arg)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Send({self.node!r}, {self.arg!r})"


Goto: TypeAlias = NodeRef | EndType | Send | Sequence["NodeRef | EndType | Send"]


@final
class Command(Generic[U_co]):
    """What a node returns to update the state *and* choose where to go.

    Attributes:
        update: A partial update, or None.
        goto: A node, END, a Send or a list of these; it *replaces* all outgoing edges of the node.
            None leaves the edges in force, an empty list ends the branch.
    """

    __slots__ = ("goto", "update")

    def __init__(
        self, *, update: U_co | None = None, goto: Goto | None = None, resume: te.Never = _NONE, graph: te.Never = _NONE
    ) -> None:
        if resume is not _NONE or graph is not _NONE:
            raise InputError(
                f"A Command has no {'resume' if resume is not _NONE else 'graph'}=.",
                code="unknown-option",
                fix="Answer a question from outside: Runtime(graph, store=...).resume(thread, answer)."
                if resume is not _NONE
                else "A Command leads to nodes of its own graph; what a nested graph returns tells the graph around it.",
                boundary=True,
            )
        self.update: U_co | None = update
        self.goto: Goto | None = goto

    def __eq__(self, other: object) -> bool:
        that: Any = other
        return issubclass(type(that), Command) and bool((that.update, that.goto) == (self.update, self.goto))

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Command(update={self.update!r}, goto={self.goto!r})"


def check_expiry(expires_s: Any) -> float | None:
    """*expires_s*, if a question may expire after so many seconds.

    Raises:
        InputError: It is no number of seconds above 0 (`bad-expiry`).
    """
    number = not isinstance(expires_s, bool) and isinstance(expires_s, (int, float))
    if expires_s is None or (number and 0 < expires_s < float("inf")):
        found: float | None = expires_s
        return found
    raise InputError(
        f"expires_s= of a question must be a number of seconds above 0, not {expires_s!r}.",
        code="bad-expiry",
        fix="Pass seconds, or None to wait for ever.",
        boundary=True,
    )


def check_key(key: Any) -> str | None:
    """*key*, if a question may be named so.

    Raises:
        InputError: It is no text (`bad-interrupt-key`).
    """
    if key is None or isinstance(key, str):
        return key
    raise InputError(
        f"key= of a question must be a text, not {key!r}.",
        code="bad-interrupt-key",
        fix="Name the question: key='publish'; None numbers the questions of a node in their order.",
        boundary=True,
    )


@final
class Interrupt:
    """What a node returns to pause its task and ask the outside; the node runs again with `ctx.answer`."""

    __slots__ = ("answer_type", "expires_at", "expires_s", "payload")

    def __init__(self, payload: Any = None, *, answer_type: Any = None, expires_s: float | None = None) -> None:
        """Ask *payload*.

        Args:
            payload: What is asked.
            answer_type: What the answer must be, for instance `bool` or a pydantic model; None takes anything.
            expires_s: Seconds after which no answer is taken any more; None waits for ever.
        """
        self.payload: Any = payload
        self.answer_type: Any = answer_type
        self.expires_s: float | None = check_expiry(expires_s)
        self.expires_at: float | None = None
        """Seconds since the epoch; set when the question is asked."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interrupt) and other.payload == self.payload

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Interrupt({self.payload!r})"
