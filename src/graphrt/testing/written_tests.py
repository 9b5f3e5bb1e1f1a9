"""Files that graphrt writes into a repository: tests of recorded steps and of bugs, and golden traces.

A test file is source text that a person can read, change and keep. `TestSource` collects the imports that its body
needs, and assembles the parts.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from pprint import PrettyPrinter
from typing import Any, Final, final

_SCALARS: Final = (type(None), bool, int, str, bytes)
_MAX_NAME: Final = 60
_WIDTH: Final = 100


def plain(value: Any) -> Any:
    """Return *value* as data with a literal form: models and dataclasses as dicts, other values as in JSON.

    Equal values give equal data, in every process. A set whose items become dicts, lists or sets is a sorted list, and a
    key that becomes one is its source text.
    """
    kind: Any = value.__class__
    if kind in _SCALARS:
        return value
    if kind is float:
        return value if math.isfinite(value) else repr(value)
    if issubclass(kind, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if issubclass(kind, tuple):
        return tuple(plain(item) for item in value)
    if issubclass(kind, set | frozenset):
        items = [plain(item) for item in value]
        return set(items) if all(map(_is_hashable, items)) else sorted(items, key=literal)
    fields = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    from pydantic_core import to_jsonable_python

    # A value without such a form is represented by its class, because an object's repr may contain its address.
    return to_jsonable_python(value, fallback=lambda other: f"<{type(other).__qualname__}>")


def _key(key: Any) -> Any:
    data = plain(key)
    return data if _is_hashable(data) else literal(data)


def _is_hashable(data: Any) -> bool:
    """Return whether plain *data* can be in a set."""
    return all(map(_is_hashable, data)) if data.__class__ is tuple else data.__class__ not in (dict, list, set)


@final
class _Printer(PrettyPrinter):
    """Also sorts sets on one line, because their order differs between processes."""

    def format(self, object: Any, context: dict[int, int], maxlevels: int, level: int) -> tuple[str, bool, bool]:
        if object.__class__ is not set or not object:
            return super().format(object, context, maxlevels, level)
        items = sorted(super(_Printer, self).format(item, context, maxlevels, level + 1)[0] for item in object)
        return f"{{{', '.join(items)}}}", True, False


def literal(value: Any, indent: int = 0) -> str:
    """Return the source text of `plain(value)`, with *indent* spaces before all lines but the first."""
    text = _Printer(width=max(_WIDTH - indent, 60), sort_dicts=False).pformat(plain(value))
    return text.replace("\n", "\n" + " " * indent)


def one_line(value: Any, max_length: int = 100) -> str:
    """Return *value* as a line for a docstring or a comment, truncated to *max_length* characters."""
    text = value.replace("\n", " ") if isinstance(value, str) else " ".join(literal(value).split())
    if not text.isprintable():
        # A file with a control character or a lone surrogate could not be written, or not be parsed.
        text = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return text if len(text) <= max_length else f"{text[:max_length]}... ({len(text)} characters)"


def slug(text: str) -> str:
    """Return *text* as part of a name: lower case letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_MAX_NAME] or "x"


def home_of(value: Any) -> tuple[str, str] | None:
    """Return the module that has *value*, and its name there; None if no imported module has it."""
    name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    if isinstance(name, str) and isinstance(module, str) and getattr(sys.modules.get(module), name, None) is value:
        return module, name
    for place, content in list(sys.modules.items()):
        if place == "__main__" or place.startswith("graphrt."):
            continue
        for key, item in list(getattr(content, "__dict__", {}).items()):
            if item is value and key.isidentifier():
                return place, key
    return None


@final
class TestSource:
    """The source text of one test."""

    __test__ = False  # pytest collects classes by their names

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = {}
        self.fixtures: dict[str, None] = {}
        """The objects that the test does not make or import itself."""

    def use(self, module: str, name: str) -> str:
        """Import *name* from *module*; return it."""
        self._imports.setdefault(module, set()).add(name)
        return name

    def text(
        self,
        *,
        about: str,
        name: str,
        body: Iterable[str],
        rule: str = "",
        before: Sequence[str] = (),
        after: Sequence[str] = (),
    ) -> str:
        """Return the text of the file.

        Args:
            about: Docstring of the file.
            name: Name of the test, without `test_`.
            body: Lines of the test, indented.
            rule: Docstring of the test.
            before: Lines between the imports and the test.
            after: Texts behind the test.
        """
        groups: list[list[str]] = [[], [], []]
        for module, names in sorted(self._imports.items()):
            top = module.partition(".")[0]
            group = 2 if top == "graphrt" else 0 if top in sys.stdlib_module_names else 1
            groups[group].append(f"from {module} import {', '.join(sorted(names))}")
        parts = [
            f'"""{_escaped(about)}"""',
            *("\n".join(group) for group in groups if group),
            *(["\n".join(before)] if before else []),
        ]
        returns = "" if self.fixtures else " -> None"  # the types of fixtures are not known here
        test = [
            f"def test_{name}({', '.join(self.fixtures)}){returns}:",
            *([f'    """{_escaped(rule)}"""'] if rule else []),
            *body,
        ]
        return "\n\n".join(parts) + "\n\n\n" + "\n\n\n".join(["\n".join(test), *after]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"""' in text or "\\" in text else text


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically, creating its folders, so that a killed process leaves the old one.

    Raises:
        OSError: It cannot be written; nothing is left behind.
    """
    draft = path.with_name(f".{sha256(path.name.encode()).hexdigest()[:16]}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
