"""What a node's function says of itself: the fields that it reads and writes, and how a factory made it.

All are attributes. Ready-made nodes, which the library's factories make, have them set; nothing here looks into a
function's code.

- `__graphrt_fields__`: the fields that the node reads, writes and deletes. `declare_fields` sets it for any function.
  The argument `writes=` of `add_node` overrides it, and `nodes` checks the names.
- `__graphrt_agent__`: the agent or harness that the node runs. `declare_fields` sets it, too, and `compile()` checks what
  the agent's tools declare.
- `__graphrt_form__`: the class of the node's *form* in a manifest, and the arguments that its factory was given.
  `declare_form` sets it, also on a compiled graph. What a form is, and how arguments become data, belongs to `specs`.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from graphrt._arguments import checked_function
from graphrt._plan.specs import NodeFields

ATTRIBUTE: Final = "__graphrt_fields__"
AGENT: Final = "__graphrt_agent__"
F = TypeVar("F", bound=Callable[..., Any])


def declare_fields(
    fn: F,
    *,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    deletes: Iterable[str] = (),
    agent: Any = None,
) -> F:
    """Declare which fields a node's function reads, writes and deletes, so that `compile()` can check them.

    `writes` becomes the argument `writes=` of `add_node`, unless the node is added with another one.

    Args:
        fn: A function that takes attributes. It gets one.
        reads: Fields that it reads.
        writes: Fields that it may write; none if that is unknown. With *deletes*, name all of them: the two together
            count as complete.
        deletes: Fields that it always deletes; they count as written too.
        agent: The agent or harness that it runs; `compile()` checks what the agent's tools declare to read and write, and
            where they lead. `tools=` of `add_node` narrows them.

    Returns:
        *fn*.

    Raises:
        InputError: *fn* is not a function.
    """
    checked_function("fn", fn, "Give the function of a node.")
    gone = tuple(deletes)
    fields = NodeFields(reads=tuple(reads), writes=tuple(dict.fromkeys((*writes, *gone))), deletes=gone)
    setattr(fn, ATTRIBUTE, fields)
    if agent is not None:
        setattr(fn, AGENT, agent)
    return fn


def fields_of(fn: Any) -> NodeFields | None:
    """Return the fields that *fn* declares; None if it declares none."""
    found: Any = getattr(fn, ATTRIBUTE, None)
    return found if isinstance(found, NodeFields) else None


def agent_of(fn: Any) -> Any:
    """Return the agent or harness that the node of *fn* declares to run; None if it declares none."""
    return getattr(fn, AGENT, None)


FORM: Final = "__graphrt_form__"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a factory says about what it made."""

    form: Any
    """Class of the form."""
    arguments: Mapping[str, Any]
    """Arguments by name, as they were given: functions and models too."""


def declare_form(made: T, form: Any, arguments: Mapping[str, Any]) -> T:
    """Declare how a node was made, so that `graph.to_spec()` can write it as data.

    Args:
        made: A function that takes attributes, or a compiled graph.
        form: The class of the form, which has a field for each argument.
        arguments: Arguments by name, as the factory was given them.

    Returns:
        *made*.
    """
    object.__setattr__(made, FORM, MadeOf(form, dict(arguments)))  # a compiled graph refuses a plain assignment
    return made


def form_of(made: Any) -> MadeOf | None:
    """Return how *made* was made; None if nothing declares it."""
    found: Any = getattr(made, FORM, None)
    return found if isinstance(found, MadeOf) else None
