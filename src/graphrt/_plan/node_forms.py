"""How a ready-made node was made: the class of its form in a manifest, and the arguments that its factory was given.

A node that a factory made is written in a manifest as its *form*, an object with a field for each argument of the
factory, from which the node can be made again.

A function or compiled graph has this as the attribute `__graphrt_form__`. `declare_form` sets it. What a form is, and
how arguments become data, belongs to `specs`. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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
