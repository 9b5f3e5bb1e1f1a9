"""`Template`, the public class, and the lookup of its fields in a state.

`_grammar` parses the text, and `_value_text` turns values into text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeGuard, cast, final

from pydantic import BaseModel
from typing_extensions import is_typeddict

from graphrt.errors import InputError, closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.templates import (
    EMPTY_FIELDS,
    NO_TEXT_FORM,
    NOT_A_FIELD,
    UNKNOWN_FIELDS,
)
from graphrt.harness.template._grammar import Mistake, parse
from graphrt.harness.template._value_text import NoTextError, plain_text

__all__ = ["Template"]

_MISSING: Final = object()


@final
@dataclass(frozen=True, slots=True)
class Template:
    """A text with fields in braces: `Template("Summarise {topic} in {style}.")`.

    Only `{name}` is a field. Braces that cannot be a field are text, so JSON needs no escapes: `{"a": 1}`, `{}`, a
    single brace, a group over several lines. Forms that other template languages accept, and this one does not, are
    refused: `{user.name}`, `{rows[0]}`, `{x!r}`, `{x:>5}`, `{0}`, `{ x }`, `{f(x)}`, `{user-name}`, `{{x}}`. Braces
    cannot be escaped; pass a literal `{name}` as the value of a field.

    Raises:
        InputError: *text* is not a string, or has a group of a refused form (`template-field`).
    """

    text: str
    """The text of the template."""
    fields: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """0..n field names, each once, in the order of the text."""
    _parts: tuple[str, ...] = field(init=False, compare=False, repr=False)
    """Literal text and field names alternately, with text first and last."""

    def __post_init__(self) -> None:
        text: Any = self.text  # callers without a type checker may pass anything
        if not isinstance(text, str):
            raise INVALID_ARGUMENT(argument="A template", value=type(text), wanted="a text")
        parts, mistakes = parse(text)
        if mistakes:
            raise _no_field(mistakes)
        object.__setattr__(self, "_parts", parts)
        object.__setattr__(self, "fields", tuple(dict.fromkeys(parts[1::2])))

    def check(self, state_type: type[Any], *, more: Iterable[str] = ()) -> Self:
        """Check that the state has every field, and return the template.

        Args:
            state_type: A pydantic model, a dataclass or a TypedDict.
            more: Names that are passed to `render` as keyword arguments.

        Raises:
            InputError: A field is unknown (`template-unknown`), or *state_type* is not such a class (`input`).
        """
        known = [*_names_of(state_type), *more]
        self._refuse(
            [name for name in self.fields if name not in known],
            known,
            f"The template uses {{}}, which {state_type.__name__} does not have.",
        )
        return self

    def render(self, state: Any = None, /, **more: Any) -> str:
        """Fill the fields and return the text. Braces inside a value are not interpreted.

        Strings and numbers are inserted as they are, enum members as their values, and dates in ISO format. Containers,
        dataclasses and pydantic models are inserted as JSON.

        Args:
            state: A pydantic model, a dataclass or a mapping.
            **more: Values that the state does not have, or that replace its values.

        Raises:
            InputError: A field has no value or None (`template-missing`), a value has no text form
                (`template-value`), *more* has an unknown name (`template-unknown`), or *state* is not a state
                (`input`).
        """
        self._refuse(
            [name for name in more if name not in self.fields],
            self.fields,
            "render() was given {}, which the template does not use.",
        )
        values = {name: more[name] if name in more else _read(state, name) for name in self.fields}
        empty = [name for name, value in values.items() if value is None or value is _MISSING]
        if empty:
            problems = [f"{name!r} is {'None' if values[name] is None else 'not there'}" for name in empty]
            raise EMPTY_FIELDS(
                problems=", ".join(problems),
                state_text="None" if state is None else f"of type {type(state).__name__}",
                template=_clip(self.text),
                field=empty[0],
            )
        texts = {name: _show(name, value) for name, value in values.items()}
        return "".join(texts[part] if n % 2 else part for n, part in enumerate(self._parts))

    def _refuse(self, unknown: list[str], known: Iterable[str], message: str) -> None:
        if not unknown:
            return
        known = list(known)
        guesses = [f"Did you mean {guess!r} for {name!r}?" for name in unknown if (guess := closest(name, known))]
        raise UNKNOWN_FIELDS(
            problem=message.format(names(unknown)),
            template=_clip(self.text),
            field=unknown[0],
            known=names(known) or "no fields",
            fix=" ".join(guesses) or None,
        )


def _no_field(mistakes: tuple[Mistake, ...]) -> InputError:
    first, *rest = mistakes
    return NOT_A_FIELD(
        value=first.group,
        why=first.why,
        line=first.line,
        column=first.column,
        known="; ".join(f"also {mistake.group!r} in line {mistake.line}: {mistake.why}" for mistake in rest[:11]),
    )


def _names_of(state_type: Any) -> list[str]:
    if _is_model(state_type):
        return [*state_type.model_fields, *state_type.model_computed_fields]
    if isinstance(state_type, type) and dataclasses.is_dataclass(cast("object", state_type)):
        return [state_field.name for state_field in dataclasses.fields(state_type)]
    if is_typeddict(state_type):
        keys: frozenset[str] = getattr(state_type, "__required_keys__") | getattr(state_type, "__optional_keys__")  # noqa: B009 - no checker knows them
        return sorted(keys)
    raise _no_state(state_type)


def _is_model(value: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(value, type) and issubclass(value, BaseModel)


def _read(state: Any, name: str) -> Any:
    if state is None:
        return _MISSING
    if isinstance(state, BaseModel):
        known = name in type(state).model_fields or name in type(state).model_computed_fields
        return getattr(state, name, _MISSING) if known else (state.model_extra or {}).get(name, _MISSING)
    if isinstance(state, Mapping):
        values: Mapping[Any, Any] = {**state}
        return values.get(name, _MISSING)
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        known = any(state_field.name == name for state_field in dataclasses.fields(state))
        return getattr(state, name, _MISSING) if known else _MISSING
    raise _no_state(state)


def _no_state(value: Any) -> InputError:
    return INVALID_ARGUMENT(
        argument="The state of a template",
        value=value,
        wanted="a pydantic model, a dataclass, a TypedDict or a mapping, or the class of a state to check()",
    )


def _show(name: str, value: Any) -> str:
    try:
        return plain_text(value)
    except NoTextError as error:
        path = f"{name}{'' if error.path[:1] in ('', '[') else '.'}{error.path}"
        raise NO_TEXT_FORM(field=name, path=path, problem=error.what) from None


def _clip(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
