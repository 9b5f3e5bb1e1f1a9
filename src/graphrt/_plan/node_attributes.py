"""Attributes of a node's function: the fields it reads and writes, and how a factory created it.

The library's factories set these attributes on their ready-made nodes. Nothing here inspects a function's code.

- `__graphrt_fields__`: the fields that the node reads, writes and deletes. `declare_fields` sets it for any function.
  The argument `writes=` of `add_node` overrides it, and `nodes` checks the names.
- `__graphrt_agent__`: the agent or harness that the node runs. `declare_fields` also sets this, and `compile()` checks
  the declarations of the agent's tools.
- `__graphrt_form__`: the class of the node's *form* in a manifest, and the arguments passed to its factory.
  `declare_form` sets it, even on a compiled graph. Forms, and the conversion of arguments to data, belong to `specs`.

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

    `writes` becomes the argument `writes=` of `add_node`, unless that is given explicitly.

    Args:
        fn: A function that accepts attributes. The declaration is set on it.
        reads: Fields that it reads.
        writes: Fields that it may write; empty if unknown. With *deletes*, name all of them: the two together count as
            complete.
        deletes: Fields that it always deletes; they also count as written.
        agent: The agent or harness that it runs; `compile()` checks which fields the agent's tools declare to read and
            write, and where they lead. `tools=` of `add_node` restricts the tools.

    Returns:
        *fn*.

    Raises:
        InputError: *fn* is not a function.
    """
    checked_function("fn", fn, "Give the function of a node.")
    deleted = tuple(deletes)
    fields = NodeFields(reads=tuple(reads), writes=tuple(dict.fromkeys((*writes, *deleted))), deletes=deleted)
    setattr(fn, ATTRIBUTE, fields)
    if agent is not None:
        setattr(fn, AGENT, agent)
    return fn


def fields_of(fn: Any) -> NodeFields | None:
    """Return the fields that *fn* declares; None if it declares none."""
    fields: Any = getattr(fn, ATTRIBUTE, None)
    return fields if isinstance(fields, NodeFields) else None


def agent_of(fn: Any) -> Any:
    """Return the agent or harness that the node of *fn* declares to run; None if it declares none."""
    return getattr(fn, AGENT, None)


FORM: Final = "__graphrt_form__"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MadeOf:
    """A factory's description of the node that it created."""

    form: Any
    """Class of the form."""
    arguments: Mapping[str, Any]
    """Arguments by name, as given, including functions and models."""


def declare_form(made: T, form: Any, arguments: Mapping[str, Any]) -> T:
    """Declare how a node was created, so that `graph.to_spec()` can write it as data.

    Args:
        made: A function that accepts attributes, or a compiled graph.
        form: The class of the form, which has a field for each argument.
        arguments: Arguments by name, as passed to the factory.

    Returns:
        *made*.
    """
    object.__setattr__(made, FORM, MadeOf(form, dict(arguments)))  # a compiled graph refuses a plain assignment
    return made


def form_of(made: Any) -> MadeOf | None:
    """Return how *made* was created; None if that was not declared."""
    form: Any = getattr(made, FORM, None)
    return form if isinstance(form, MadeOf) else None
