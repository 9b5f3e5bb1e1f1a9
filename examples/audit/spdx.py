"""SPDX licence expressions: parsed, written canonically, and sorted into families. No package and no policy here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Family: TypeAlias = Literal[
    "public-domain", "permissive", "weak-copyleft", "strong-copyleft", "network-copyleft", "proprietary", "unknown"
]
FAMILIES: Final[tuple[Family, ...]] = (
    "public-domain",
    "permissive",
    "weak-copyleft",
    "strong-copyleft",
    "network-copyleft",
    "proprietary",
    "unknown",
)
"""From the freest to the least free; unknown licences may be anything."""

_MEMBERS: Final[dict[Family, str]] = {
    "public-domain": "CC0-1.0 Unlicense",
    "permissive": "0BSD AFL-3.0 Apache-1.1 Apache-2.0 Artistic-2.0 BlueOak-1.0.0 BSD-1-Clause BSD-2-Clause "
    "BSD-2-Clause-Patent BSD-3-Clause BSD-3-Clause-Clear BSD-4-Clause BSL-1.0 CC-BY-3.0 CC-BY-4.0 CNRI-Python curl "
    "ECL-2.0 HPND ICU ISC Libpng MIT MIT-0 MIT-CMU MulanPSL-2.0 NCSA NTP OFL-1.1 OpenSSL PostgreSQL PSF-2.0 "
    "Python-2.0 Python-2.0.1 TCL Unicode-3.0 Unicode-DFS-2016 UPL-1.0 W3C WTFPL X11 Zlib ZPL-2.1",
    "weak-copyleft": "CDDL-1.0 CDDL-1.1 CECILL-C CPL-1.0 EPL-1.0 EPL-2.0 LGPL-2.0-only LGPL-2.0-or-later "
    "LGPL-2.1-only LGPL-2.1-or-later LGPL-3.0-only LGPL-3.0-or-later MPL-1.1 MPL-2.0 MS-RL",
    "strong-copyleft": "CC-BY-SA-4.0 CECILL-2.1 EUPL-1.1 EUPL-1.2 GPL-1.0-only GPL-1.0-or-later GPL-2.0-only "
    "GPL-2.0-or-later GPL-3.0-only GPL-3.0-or-later",
    "network-copyleft": "AGPL-3.0-only AGPL-3.0-or-later OSL-3.0 SSPL-1.0",
    "proprietary": "BUSL-1.1 CC-BY-NC-4.0 CC-BY-NC-SA-4.0 Elastic-2.0 LicenseRef-Proprietary "
    "PolyForm-Noncommercial-1.0.0",
}
FAMILY_OF: Final[dict[str, Family]] = {name: family for family, names in _MEMBERS.items() for name in names.split()}
"""Known ids and their families."""
_CANONICAL: Final = {name.lower(): name for name in FAMILY_OF}
_TOKEN: Final = re.compile(r"\s*(\(|\)|[A-Za-z0-9.:+-]+)")


class SpdxError(ValueError):
    """The text is not an SPDX expression."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One licence, perhaps with an exception."""

    id: str
    exception: str = ""

    def __str__(self) -> str:
        return f"{self.id} WITH {self.exception}" if self.exception else self.id

    @property
    def family(self) -> Family:
        """The family; an exception to a strong copyleft weakens it."""
        family = FAMILY_OF.get(self.id, "proprietary" if "proprietary" in self.id.lower() else "unknown")
        return "weak-copyleft" if self.exception and family == "strong-copyleft" else family


@dataclass(frozen=True, slots=True)
class Group:
    """Several licences: one of an OR may be chosen, all of an AND apply."""

    op: Literal["OR", "AND"]
    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        inner = (f"({part})" if isinstance(part, Group) and part.op != self.op else str(part) for part in self.parts)
        return f" {self.op} ".join(inner)


Expression: TypeAlias = Leaf | Group


def parse(text: str) -> Expression:
    """Parse an SPDX expression; ids are written canonically, deprecated ones in their new form.

    Raises:
        SpdxError: The text is not an expression.
    """
    tokens: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise SpdxError(f"unexpected {text[at]!r}")
        tokens.append(found[1])
        at = found.end()
    parser = _Parser(tokens)
    expression = parser.alternatives()
    if parser.tokens:
        raise SpdxError(f"unexpected {parser.tokens[0]!r}")
    return expression


class _Parser:
    """Recursive descent; OR binds more loosely than AND, and AND than WITH."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens

    def alternatives(self) -> Expression:
        return self._group("OR", lambda: self._group("AND", self._licence))

    def _group(self, op: Literal["OR", "AND"], part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self._next_is(op):
            parts.append(part())
        unique = tuple(dict.fromkeys(parts))
        return unique[0] if len(unique) == 1 else Group(op, unique)

    def _licence(self) -> Expression:
        if self._next_is("("):
            inner = self.alternatives()
            if not self._next_is(")"):
                raise SpdxError("a parenthesis is not closed")
            return inner
        licence = self._take("a licence")
        exception = self._take("an exception") if self._next_is("WITH") else ""
        return Leaf(canonical(licence), exception)

    def _next_is(self, word: str) -> bool:
        if self.tokens and self.tokens[0].upper() == word:
            self.tokens.pop(0)
            return True
        return False

    def _take(self, what: str) -> str:
        if not self.tokens or self.tokens[0].upper() in ("OR", "AND", "WITH", "(", ")"):
            raise SpdxError(f"{what} is missing")
        return self.tokens.pop(0)


def canonical(id: str) -> str:
    """The id as SPDX writes it, where it is known; `GPL-3.0` and `GPL-3.0+` in their new form."""
    low = id.lower()
    for form in (low, f"{low.removesuffix('+')}-{'or-later' if low.endswith('+') else 'only'}", low.removesuffix("+")):
        if form in _CANONICAL:
            return _CANONICAL[form]
    return id


def is_known(text: str) -> bool:
    """Whether *text* is an expression of known licences only."""
    try:
        return all(leaf.family != "unknown" for leaf in leaves(parse(text)))
    except SpdxError:
        return False


def leaves(expression: Expression) -> list[Leaf]:
    """The licences in it, 1 or more, in order."""
    if isinstance(expression, Leaf):
        return [expression]
    return [leaf for part in expression.parts for leaf in leaves(part)]


def family(text: str) -> Family:
    """The family of an expression: the freest choice of an OR, the least free part of an AND."""
    try:
        return _family(parse(text))
    except SpdxError:
        return "unknown"


def _family(expression: Expression) -> Family:
    if isinstance(expression, Leaf):
        return expression.family
    ranks = [FAMILIES.index(_family(part)) for part in expression.parts]
    return FAMILIES[min(ranks) if expression.op == "OR" else max(ranks)]
