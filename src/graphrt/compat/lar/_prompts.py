"""`Prompt`: a Lár prompt as a `Template`, with Lár's own interpretation of braces.

| In the prompt | Sent to the model |
|---|---|
| `{key}`, `{{key}}`, `{{ key }}` | the value of the key |
| `{{"a": 1}}`, `{{` and `}}` around anything but a name, and `{{{{` and `}}}}` | single braces |
| `{{{key}}}` | the value in single braces |
| `{{{{key}}}}` | `{key}`, as text |
| single braces around anything but a name, such as JSON | as they are |

Nested JSON ends with `}}` too, so a pair of closing braces is an escape only if the braces that it closes are one.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final, final

from graphrt.harness import Template

_TOKEN: Final = re.compile(r"(\{+)(?:(\s*)([^\W\d]\w*)\2(\}+))?|(\}+)|[^{}]+")
"""Groups: opening braces (1), with a name (3) and closing braces (4) if they follow directly; or closing braces (5).
Otherwise text without braces."""
_BRACES: Final = {"{": "lar_opening_brace", "}": "lar_closing_brace"}
"""Fields that represent escaped braces, which the template would otherwise take for those of a field."""


@final
class Prompt:
    """A prompt with keys of the state in braces.

    Args:
        text: The prompt.

    Raises:
        InputError: It has a group in braces that accesses attributes or items, such as `{user.name}`
            (`template-field`).
    """

    def __init__(self, text: str) -> None:
        self.text: Final = text
        parts = list(_parts(text))
        self._template: Final = Template("".join(map(_shown, parts)))
        self.fields: Final = tuple(dict.fromkeys(part for kind, part in parts if kind == "field"))
        """0..n keys, each once, in the order of the text."""

    def render(self, values: Mapping[str, Any]) -> str:
        """Fill in the values and return the text.

        Raises:
            InputError: A key is missing or None (`template-missing`), or has no text form (`template-value`).
        """
        return self._template.render({**values, **{name: brace for brace, name in _BRACES.items()}})


def _shown(part: tuple[str, str]) -> str:
    kind, text = part
    if kind == "brace":
        return f"{{{_BRACES[text]}}}"
    return f"{{{text}}}" if kind == "field" else text


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a prompt in order: plain "text", an escaped "brace", or the name of a "field"."""
    at = 0
    open_braces: list[int] = []
    """For each open brace, the number of braces in the text: 1, or 2 or 4 for an escaped one."""
    while match := _TOKEN.match(text, at):
        if match[1]:
            at += yield from _opened(match, open_braces)
        else:
            at = match.end()
            if match[5]:
                yield from _closed(len(match[5]), open_braces)
            else:
                yield "text", match[0]


def _opened(match: re.Match[str], open_braces: list[int]) -> Generator[tuple[str, str], None, int]:
    """Yield the parts of opening braces, with the name in them; return their length in characters."""
    space, name, closing = (match[group] or "" for group in (2, 3, 4))
    count = len(match[1])
    inside = len(space) * 2 + len(name)
    if not name or (count % 2 and space):
        opened, inside, field = count, 0, False
    elif count % 2:
        opened, field = count - 1, True
    elif len(closing) >= count:  # Lár halves the braces, and then parses the result as a format string
        half = count // 2
        for brace in "{}":
            if brace == "}":
                yield ("field" if half % 2 else "text"), name
            yield from (("brace", brace),) * (half // 2)
        return count * 2 + inside
    else:
        opened, inside, field = count, 0, False
    remaining = opened
    while remaining:
        width = next(width for width in (4, 2, 1) if width <= remaining)
        remaining -= width
        open_braces.append(width)
        yield ("brace" if width > 1 else "text"), "{"
    if not field:
        return opened
    yield "field", name
    return opened + 2 + inside


def _closed(count: int, open_braces: list[int]) -> Iterator[tuple[str, str]]:
    """Yield the parts of *count* closing braces, and remove the braces that they close from *open_braces*."""
    while count:
        width = min(count, open_braces.pop() if open_braces else 2)
        count -= width
        yield ("brace" if width > 1 else "text"), "}"
