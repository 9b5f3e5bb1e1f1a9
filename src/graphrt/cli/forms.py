"""Forms: asks a person for a value that fits a JSON schema, field by field. `resume` validates the value again."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from graphrt._display import brief
from graphrt.console.screen import Screen

_TIMES: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "date": ("2026-01-31", date.fromisoformat),
    "date-time": ("2026-01-31T08:15:00", datetime.fromisoformat),
    "time": ("08:15:00", time.fromisoformat),
}
"""Text formats that are checked on input, each with an example."""
_YES: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class NoAnswer(Exception):  # noqa: N818 - not an error: the person left, and the question stays open
    """The input ended before the form was filled in."""


class Form:
    """Asks for one value.

    Args:
        screen: Where to ask.
        schema: JSON schema of the value; an empty one takes anything.
    """

    def __init__(self, screen: Screen, schema: Mapping[str, Any]) -> None:
        self._screen = screen
        self._schema = schema

    def ask(self, title: str = "answer") -> Any:
        """Return the value.

        Raises:
            NoAnswer: The input ended.
        """
        return self._value(self._schema, title, required=True)

    def _value(self, schema: Mapping[str, Any], title: str, *, required: bool) -> Any:  # noqa: PLR0911 - one for each kind
        schema = self._resolved(schema)
        if schema.get("description") and title:
            self._screen.line((str(schema["description"]).split("\n")[0], "faint"))
        options = schema.get("anyOf") or schema.get("oneOf")
        if options:
            return self._one_of(schema, [self._resolved(option) for option in options], title, required=required)
        if "enum" in schema or "const" in schema:
            return self._choice(schema.get("enum", [schema.get("const")]), title, schema, required=required)
        match schema.get("type"):
            case "object" if schema.get("properties"):
                return self._object(schema, title)
            case "array" if isinstance(schema.get("items"), Mapping):
                return self._list(schema["items"], title)
            case "boolean":
                return self._parsed(f"{title} (y/n)", schema, _boolean, required=required)
            case "integer":
                return self._parsed(title, schema, _Read(int, schema), required=required)
            case "number":
                return self._parsed(title, schema, _Read(float, schema), required=required)
            case "string":
                form = schema.get("format")
                read = _Time(form) if isinstance(form, str) and form in _TIMES else _Read(str, schema)
                return self._parsed(title, schema, read, required=required)
            case "null":
                return None
            case "object" | "array":
                return self._parsed(f"{title} (JSON)", schema, json.loads, required=required)
            case _:
                return self._parsed(f"{title} (JSON or text)", schema, _anything, required=required)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        for _ in range(16):  # a schema that refers to itself must not cause endless recursion
            place = schema.get("$ref")
            if not isinstance(place, str):
                break
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            schema = {**self._schema.get("$defs", {}).get(place.rpartition("/")[2], {}), **rest}
        return schema

    def _one_of(
        self, schema: Mapping[str, Any], options: Sequence[Mapping[str, Any]], title: str, *, required: bool
    ) -> Any:
        present = [option for option in options if option.get("type") != "null"]
        optional = len(present) < len(options)
        if len(present) == 1:
            inner = {**present[0], **({"default": schema["default"]} if "default" in schema else {})}
            return self._value(inner, title, required=required and not optional)
        names = [str(option.get("title") or option.get("const") or ", ".join(map(str, option.get("enum", ()))) or option.get("type") or "value") for option in present]  # fmt: skip
        chosen = self._choice(names, f"{title}: which form", {}, required=required and not optional)
        return None if chosen is None else self._value(present[names.index(chosen)], title, required=True)

    def _choice(self, values: Sequence[Any], title: str, schema: Mapping[str, Any], *, required: bool) -> Any:
        if len(values) == 1 and required:
            return values[0]
        for number, value in enumerate(values, 1):
            self._screen.line((f"{number}", "accent"), f"  {value if isinstance(value, str) else brief(value)}")

        def read(text: str) -> Any:
            if text in map(str, values):
                return next(value for value in values if str(value) == text)
            if text.isdigit() and 1 <= int(text) <= len(values):
                return values[int(text) - 1]
            raise ValueError(f"choose 1 to {len(values)}, or one of the values")

        return self._parsed(title, schema, read, required=required)

    def _object(self, schema: Mapping[str, Any], title: str) -> dict[str, Any]:
        if title:
            self._screen.line((title, "name"))
        required = set(schema.get("required", ()))
        values: dict[str, Any] = {}
        for name, inner in schema["properties"].items():
            value = self._value(inner, name, required=name in required)
            if value is not None or name in required:
                values[name] = value
        return values

    def _list(self, items: Mapping[str, Any], title: str) -> list[Any]:
        entries: list[Any] = []
        items = self._resolved(items)
        if items.get("type") in ("object", "array", "boolean") or "anyOf" in items or "oneOf" in items:
            # An empty line cannot end these lists: an object asks for its fields, and an empty line may mean a default.
            while self._parsed(f"{title}: {'another' if entries else 'add one'}? (y/n)", {"default": False}, _boolean, required=False):  # fmt: skip
                entries.append(self._value(items, f"{title} {len(entries) + 1}", required=True))
            return entries
        self._screen.line((f"{title}: one after another, an empty line ends the list", "faint"))
        while True:
            value = self._value(items, f"{title} {len(entries) + 1}", required=False)
            if value is None:
                return entries
            entries.append(value)

    def _parsed(self, title: str, schema: Mapping[str, Any], read: Any, *, required: bool) -> Any:
        default = schema.get("default")
        shown = f" [{_short(default)}]" if default not in (None, "") else ""
        optional = "" if required or shown else " (optional)"
        while True:
            text = self._screen.ask(f"{title}{shown}{optional}:")
            if text is None:
                raise NoAnswer
            if not text and not required:
                return default
            if not text and default is not None:
                return default
            try:
                return read(text)
            except ValueError as error:
                self._screen.line((f"! {error}", "warn"))


def _short(default: Any) -> str:
    if isinstance(default, bool):
        return "y" if default else "n"
    return default if isinstance(default, str) else brief(default, 40)


def _boolean(text: str) -> bool:
    if text.lower() not in _YES:
        raise ValueError("say y or n")
    return _YES[text.lower()]


class _Read:
    """Reads a number or a text within the bounds of its schema."""

    def __init__(self, kind: type[int | float | str], schema: Mapping[str, Any]) -> None:
        self._kind = kind
        self._schema = schema

    def __call__(self, text: str) -> Any:
        try:
            value = self._kind(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a {'whole number' if self._kind is int else 'number'}") from None
        size = len(value) if isinstance(value, str) else value
        names = ("minLength", "maxLength") if isinstance(value, str) else ("minimum", "maximum")
        bounds = {
            "at least": (names[0], operator.ge),
            "at most": (names[1], operator.le),
            "above": ("exclusiveMinimum", operator.gt),
            "below": ("exclusiveMaximum", operator.lt),
        }
        limits = {word: (self._schema[name], fits) for word, (name, fits) in bounds.items() if name in self._schema}
        if not all(fits(size, bound) for bound, fits in limits.values()):
            noun = " characters" if isinstance(value, str) else ""
            raise ValueError(", ".join(f"{word} {bound}{noun}" for word, (bound, _) in limits.items()))
        return value


class _Time:
    """Reads a date or a time in ISO 8601. The value stays a text, as in JSON."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __call__(self, text: str) -> str:
        example, read = _TIMES[self._form]
        try:
            read(text)
        except ValueError:
            raise ValueError(f"write it as {example}") from None
        return text


def _anything(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
