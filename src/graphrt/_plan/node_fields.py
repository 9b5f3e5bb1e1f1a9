"""The fields that a node's function says it reads, writes and deletes, and the errors in these names.

A function has them as the attribute `__graphrt_fields__`. Ready-made nodes, which the library's factories make, have it
set; `declare_fields` sets it for any other function. Nothing here looks into a function's code. `validate` checks the
names: those read with `unknown_reads`, those written and deleted with the argument `writes=` (`nodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from graphrt._arguments import checked_function
from graphrt._plan.specs import NodeFields, NodeSpec
from graphrt._plan.state import StateSchema, short
from graphrt.errors import Problem, closest
from graphrt.errors._codes.findings import UNKNOWN_READ

ATTRIBUTE: Final = "__graphrt_fields__"
F = TypeVar("F", bound=Callable[..., Any])


def declare_fields(fn: F, *, reads: Iterable[str] = (), writes: Iterable[str] = (), deletes: Iterable[str] = ()) -> F:
    """Declare which fields a node's function reads, writes and deletes, so that `compile()` can check them.

    `writes` becomes the argument `writes=` of `add_node`, unless the node is added with another one.

    Args:
        fn: A function that takes attributes. It gets one.
        reads: Fields that it reads.
        writes: Fields that it may write; none if that is unknown. With *deletes*, name all of them: the two together
            count as complete.
        deletes: Fields that it always deletes; they count as written too.

    Returns:
        *fn*.

    Raises:
        InputError: *fn* is not a function.
    """
    checked_function("fn", fn, "Give the function of a node.")
    gone = tuple(deletes)
    fields = NodeFields(reads=tuple(reads), writes=tuple(dict.fromkeys((*writes, *gone))), deletes=gone)
    setattr(fn, ATTRIBUTE, fields)
    return fn


def fields_of(fn: Any) -> NodeFields | None:
    """Return the fields that *fn* declares; None if it declares none."""
    found: Any = getattr(fn, ATTRIBUTE, None)
    return found if isinstance(found, NodeFields) else None


def unknown_reads(node: NodeSpec, state: StateSchema) -> Iterator[Problem]:
    """Yield a problem for each field that a node declares to read and that the state lacks."""
    if node.fields is None:
        return
    computed: Any = getattr(state.cls, "model_computed_fields", ())  # of a pydantic model; a node can read these, too
    for name in node.fields.reads:
        if name in state.fields or name in computed:
            continue
        guess = closest(name, state.fields)
        yield UNKNOWN_READ(node=node.name, name=short(name), fields=state.fields, where=node.where, guess=guess)
