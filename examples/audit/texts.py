"""Licence texts: the licences in a text, recognised by their unique sentences. No metadata, no policy."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Mark(NamedTuple):
    """The marks of a licence: words that must all occur, and words that must not."""

    id: str
    has: tuple[str, ...]
    lacks: tuple[str, ...] = ()


_BSD: Final = "redistributions of source code must retain"
_MARKS: Final = (
    Mark(
        "MIT", ("permission is hereby granted free of charge", "to permit persons", "shall be included in all copies")
    ),
    Mark("MIT-0", ("permission is hereby granted free of charge", "to permit persons"), ("shall be included in all",)),
    Mark("BSD-4-Clause", (_BSD, "all advertising materials mentioning")),
    Mark("BSD-3-Clause", (_BSD, "redistributions in binary form", "to endorse or promote products"), ("advertising",)),
    Mark("BSD-2-Clause", (_BSD, "redistributions in binary form"), ("to endorse or promote products",)),
    Mark("Apache-2.0", ("apache license", "version 2.0"), ("mozilla public",)),
    Mark("MPL-2.0", ("mozilla public license", "2.0")),
    Mark("AGPL-3.0-only", ("gnu affero general public license version 3 19 november 2007",)),
    Mark("LGPL-3.0-only", ("gnu lesser general public license version 3 29 june 2007",)),
    Mark("LGPL-2.1-only", ("gnu lesser general public license version 2.1 february 1999",)),
    Mark("GPL-3.0-only", ("gnu general public license version 3 29 june 2007",)),
    Mark("GPL-2.0-only", ("gnu general public license version 2 june 1991",)),
    Mark(
        "ISC", ("permission to use copy modify and or distribute", "copyright notice and this permission notice appear")
    ),
    Mark(
        "0BSD", ("permission to use copy modify and or distribute",), ("copyright notice and this permission notice",)
    ),
    Mark("PSF-2.0", ("python software foundation license version 2",)),
    Mark("CNRI-Python", ("cnri license agreement",)),
    Mark("Unlicense", ("this is free and unencumbered software released into the public domain",)),
    Mark("CC0-1.0", ("cc0 1.0 universal",)),
    Mark("Zlib", ("altered source versions must be plainly marked as such",)),
    Mark("BSL-1.0", ("boost software license", "version 1.0")),
    Mark("EPL-2.0", ("eclipse public license", "2.0")),
    Mark("Artistic-2.0", ("the artistic license 2.0",)),
    Mark("OFL-1.1", ("sil open font license", "version 1.1")),
    Mark("HPND", ("permission to use copy modify and distribute this software and its documentation",)),
    Mark("LicenseRef-Proprietary", ("all rights reserved", "confidential")),
)
_PARTS: Final = {"PSF-2.0": {"CNRI-Python", "HPND", "ISC", "0BSD"}}
"""Licences whose text contains those of others: Python's contains its whole history."""
_HEADINGS: Final = {
    "mit license": "MIT",
    "apache license version 2.0": "Apache-2.0",
    "bsd 3 clause license": "BSD-3-Clause",
    "bsd 2 clause license": "BSD-2-Clause",
    "isc license": "ISC",
    "mozilla public license version 2.0": "MPL-2.0",
    "gnu general public license version 3": "GPL-3.0-only",
    "gnu general public license version 2": "GPL-2.0-only",
    "gnu lesser general public license version 3": "LGPL-3.0-only",
    "gnu affero general public license version 3": "AGPL-3.0-only",
}


def recognise(text: str) -> tuple[str, ...]:
    """The licences that *text* contains, 0 or more, in the order of a fixed list."""
    plain = squash(text)
    found = [
        mark.id
        for mark in _MARKS
        if all(words in plain for words in mark.has) and not any(words in plain for words in mark.lacks)
    ]
    parts = {part for name in found for part in _PARTS.get(name, ())}
    return tuple(name for name in found if name not in parts)


def heading(text: str) -> str | None:
    """The licence that the first lines of *text* name, or None."""
    start = squash(text[:400])
    return next((name for words, name in _HEADINGS.items() if start.removeprefix("the ").startswith(words)), None)


def squash(text: str) -> str:
    """Lower case, words only, one blank between them; dots stay inside version numbers."""
    return re.sub(r"(?<!\d)\.|\.(?!\d)", "", " ".join(re.findall(r"[a-z0-9.]+", text.lower())))
