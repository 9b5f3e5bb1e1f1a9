"""Values that nodes and routers return, and the two ends of every graph.

START, END, PARENT, Command, Send, Interrupt and the markers of an update (DELETE, Overwrite, UNSET) are defined here,
with the checks of their arguments. So is `Erased`, which stands for an erased value. The code that acts on these values
is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar, final

import typing_extensions as te

from graphrt._arguments import is_number
from graphrt._display import brief
from graphrt._due_times import Moment, expiry
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, INVALID_ARGUMENT

__all__ = [
    "DELETE",
    "END",
    "PARENT",
    "START",
    "UNSET",
    "Command",
    "EndType",
    "Erased",
    "Interrupt",
    "NodeRef",
    "Overwrite",
    "ParentType",
    "Send",
    "StartType",
]

T = TypeVar("T")
U_co = te.TypeVar("U_co", covariant=True, default=Any)
"""Type of a Command's update. Covariant: a Command with a narrower update type fits where a wider one is expected."""


@final
class StartType(Enum):
    """The type of START, an enum with one member, so that type checkers refuse an edge to START."""

    START = "__start__"

    def __repr__(self) -> str:
        return "START"


@final
class EndType(Enum):
    """The type of END, an enum with one member, so that type checkers refuse an edge from END."""

    END = "__end__"

    def __repr__(self) -> str:
        return "END"


START: Final = StartType.START
"""The virtual first node, where the input enters the graph. It never runs and is never visited."""
END: Final = EndType.END
"""The virtual last node, which ends a branch. It never runs and is never visited."""


@final
class ParentType(Enum):
    """The type of PARENT, an enum with one member."""

    PARENT = "__parent__"

    def __repr__(self) -> str:
        return "PARENT"


PARENT: Final = ParentType.PARENT
"""The graph that encloses a nested graph, in `Command(goto=..., graph=PARENT)`."""

RESERVED_NAMES: Final = frozenset({"START", "END", "__start__", "__end__"})
"""Names that `compile()` refuses for a node (`reserved-name`)."""


class HasNodeName(Protocol):
    """An object that can be passed where a node is named: the handle that `@g.node` returns."""

    @property
    def __graphrt_node__(self) -> str: ...


NodeRef: TypeAlias = str | HasNodeName
"""Reference to a node: its name, or the handle that `@g.node` returned."""


def node_name(ref: object) -> object:
    """Return the name of the node that *ref* refers to; any other value is returned unchanged."""
    return ref if isinstance(ref, str) else getattr(ref, "__graphrt_node__", ref)


@final
class Sentinel:
    """A marker that is compared by identity.

    Not an Enum: pydantic would accept the member's value for a field of type `int` or `str`.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return self._name  # copy and pickle look up this name in the module, and so keep the identity


UNSET: Any = Sentinel("UNSET")
"""Default of the fields of a dataclass used as `Update`: a field with this value is not written."""
DELETE: Any = Sentinel("DELETE")
"""In an update: reset the field to its default, or remove the key of a TypedDict.

A field that has no default and may not be absent cannot be deleted: the update is refused with an UpdateError.
"""


@final
class Erased:
    """The value that is read in place of a stored value that was erased (`Runtime.erase`).

    All of its instances are one object.

    It is false. As an annotation it lets a field hold erased values: `name: str | Erased`.
    """

    __slots__ = ()
    _only: ClassVar[Erased | None] = None

    def __new__(cls) -> Erased:
        """Return the one instance."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "Erased()"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> tuple[type[Erased], tuple[()]]:
        return Erased, ()  # copy and pickle keep the identity

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(cls, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: Any, _handler: Any) -> dict[str, Any]:
        return {"type": "string", "const": repr(cls())}


ERASED: Final = Erased()
"""The one instance of `Erased`."""


@final
class Replacement:
    """The value that `Overwrite(value)` returns at run time. Only `Overwrite` builds it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value
        """The new value of the field."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replacement) and other.value == self.value

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"


if TYPE_CHECKING:
    # For type checkers the marker has the type of its value, so that it fits the field in a typed update.

    def Overwrite(value: T) -> T:  # noqa: N802 - reads as the marker that it makes
        """In an update: set the field to *value* without calling its reducer."""
        ...

else:

    def Overwrite(value: Any) -> Replacement:  # noqa: N802 - reads as the marker that it makes
        """In an update: set the field to *value* without calling its reducer.

        Conflicts with any other write of the field in the same superstep (`ConcurrentUpdateError`).
        """
        return Replacement(value)


@final
class Send:
    """A request to start one task of *node* whose `ctx.arg` is *arg*.

    Returned by a router, or as part of `Command.goto`. Sends never merge: each becomes a task of its own, in the order
    in which they were emitted.

    Args:
        node: The node to start, by name or by handle.
        arg: Any value; the task gets a copy.
    """

    __slots__ = ("arg", "node")

    def __init__(self, node: NodeRef, arg: Any = None) -> None:
        # Any other value is kept, so that the error of the router that returned it can show it.
        self.node: str = node if node.__class__ is str else node_name(node)  # type: ignore[assignment]
        """Name of the node."""
        self.arg: Any = arg
        """Value of `ctx.arg` in the task."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and (other.node, other.arg) == (self.node, self.arg)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Send({self.node!r}, {self.arg!r})"


Goto: TypeAlias = NodeRef | EndType | Send | Sequence["NodeRef | EndType | Send"]
"""Targets of a Command: one, or a sequence of 0..n."""


@final
class Command(Generic[U_co]):
    """The result of a node, or of a tool, that updates the state *and* chooses the next nodes.

    Attributes:
        update: A partial update, or None for no change. A node may give a list of updates, which fold in order.
        goto: A node, END, a Send or a list of these. It *replaces* all outgoing edges of the node, joins included.
            None leaves the edges in force; an empty list ends the branch.
        graph: PARENT: *goto* names nodes of the graph that encloses this nested one, which declares them with
            `hands_over_to=`. The nested graph ends, and *goto* replaces the edges of its node. None: nodes of this
            graph.
        result: Only in a tool: the result for the model, as with any tool result. None: the text "Done.".
    """

    __slots__ = ("goto", "graph", "result", "update")

    def __init__(
        self,
        *,
        update: U_co | Sequence[U_co] | None = None,
        goto: Goto | None = None,
        graph: ParentType | None = None,
        result: Any = None,
    ) -> None:
        """Make a Command.

        Raises:
            InputError: *graph* is neither PARENT nor None, or is given without *goto* (`input`).
        """
        if graph is not None:
            _check_parent(graph, goto)
        self.update: U_co | Sequence[U_co] | None = update
        self.goto: Goto | None = goto
        self.graph: ParentType | None = graph
        self.result: Any = result

    def __eq__(self, other: object) -> bool:
        that: Any = other
        return issubclass(type(that), Command) and bool(
            (that.update, that.goto, that.graph, that.result) == (self.update, self.goto, self.graph, self.result)
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        graph = "" if self.graph is None else f", graph={self.graph!r}"
        result = "" if self.result is None else f", result={self.result!r}"
        return f"Command(update={self.update!r}, goto={self.goto!r}{graph}{result})"


def _check_parent(graph: Any, goto: Any) -> None:
    """Check the `graph=` of a Command.

    Raises:
        InputError: It is not PARENT, or there is no *goto* (`input`).
    """
    if not isinstance(graph, ParentType):
        raise INVALID_ARGUMENT(
            argument="graph= of a Command", value=graph, wanted="PARENT, or leave it out", boundary=True
        )
    if goto is None:
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="graph=PARENT of a Command", missing="goto=, nodes of the graph above", boundary=True
        )


def check_signal_name(name: Any) -> str:
    """Check the name of a signal and return it unchanged.

    Raises:
        InputError: *name* is not a text of 1 to 100 printable characters (`input`).
    """
    if type(name) is str and 1 <= len(name) <= 100 and name.isprintable():
        return name
    raise INVALID_ARGUMENT(
        argument="The name of a signal",
        value=name,
        wanted="a str of 1 to 100 printable characters, the one that the node passes to ctx.receive()",
        boundary=True,
    )


def check_expiry(expires_s: Any, argument: str = "expires_s= of a question") -> float | None:
    """Check the expiry of a question and return it unchanged.

    Args:
        argument: Its name for the caller.

    Raises:
        InputError: *expires_s* is neither None nor a finite number of seconds above 0 (`input`).
    """
    if expires_s is None or (is_number(expires_s) and 0 < expires_s < inf):
        seconds: float | None = expires_s
        return seconds
    raise INVALID_ARGUMENT(
        argument=argument,
        value=expires_s,
        wanted="a number of seconds above 0, or None for no limit",
        boundary=True,
    )


def check_default(default: Any, expires: Any) -> None:
    """Check that a question with the answer *default* expires.

    Raises:
        InputError: It does not expire, since *expires* is None (`input`).
    """
    if default is not UNSET and expires is None:
        raise ARGUMENT_NEEDS_ANOTHER(
            argument=f"The default {brief(default)} of a question or signal, which counts when its time is over,",
            missing="expires_s= or expires_at=, or timeout_s= of ctx.receive()",
            boundary=True,
        )


def check_key(key: Any) -> str | None:
    """Check the key of a question and return it unchanged.

    Raises:
        InputError: *key* is neither None nor a string (`input`).
    """
    if key is None or isinstance(key, str):
        return key
    raise INVALID_ARGUMENT(
        argument="key= of a question or an effect",
        value=key,
        wanted="a text, such as key='publish'; without a key it is matched by what the node asks, in order",
        boundary=True,
    )


@final
class Interrupt:
    """A node's result that pauses its task and asks a question; once answered, the node runs again with `ctx.answer`."""

    __slots__ = ("answer_type", "default", "expires_at", "expires_s", "payload")

    def __init__(
        self,
        payload: Any = None,
        *,
        answer_type: Any = None,
        expires_s: float | None = None,
        expires_at: Moment | float | None = None,
        default: Any = UNSET,
    ) -> None:
        """Make a question with *payload*.

        Args:
            payload: The question, as any value that can be stored.
            answer_type: Type that the answer must have, for instance `bool` or a pydantic model; None takes any answer.
            expires_s: Seconds after which the question answers itself; None waits forever.
            expires_at: The moment of expiry, in place of *expires_s*: an aware datetime, or seconds since the epoch.
            default: The answer used on expiry. Without one, `ctx.answer` then raises a `QuestionExpiredError`.

        Raises:
            InputError: *expires_s* is not a finite number of seconds above 0 (`input`), *expires_at* is
                not a moment (`input`), or there is a *default* without an expiry (`input`).
        """
        self.payload: Any = payload
        """The question."""
        self.answer_type: Any = answer_type
        """Type that the answer must have; None takes any answer."""
        self.expires_s: float | None = check_expiry(expires_s)
        """Seconds from asking to expiry; None if the question does not expire."""
        self.expires_at: float | None = None
        """Seconds since the epoch; None if the question does not expire, and before it is asked with *expires_s*."""
        self.default: Any = default
        """The answer used when it expires; UNSET if there is none."""
        if expires_at is not None or default is not UNSET:
            self.expires_at = expiry(expires_s, expires_at)
            check_default(default, expires_s if expires_at is None else expires_at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interrupt) and other.payload == self.payload

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # holds an arbitrary value

    def __repr__(self) -> str:
        return f"Interrupt({self.payload!r})"
