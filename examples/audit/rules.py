"""The licence by rules: from the expression, the field, the classifiers and the heading of the text to a Claim.

Only metadata without doubt is conclusive; the rest is left to the reader of the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from examples.audit import texts
from examples.audit.spdx import SpdxError, is_known, leaves, parse
from examples.audit.state import UNKNOWN, Claim, Facts, Opinion

_TRUSTED: Final = 0.6
"""Confidence from which an opinion counts."""

_CLASSIFIERS: Final = {
    "Academic Free License (AFL)": "AFL-3.0",
    "Apache Software License": "Apache-2.0",
    "Artistic License": "Artistic-2.0",
    "BSD License": "BSD-3-Clause BSD-2-Clause",
    "Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "Eclipse Public License 2.0 (EPL-2.0)": "EPL-2.0",
    "European Union Public Licence 1.2 (EUPL 1.2)": "EUPL-1.2",
    "GNU Affero General Public License v3": "AGPL-3.0-only",
    "GNU Affero General Public License v3 or later (AGPLv3+)": "AGPL-3.0-or-later",
    "GNU General Public License (GPL)": "GPL-2.0-only GPL-3.0-only",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only",
    "GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0-only",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.1-only",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.1-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-2.1-only LGPL-3.0-only",
    "Historical Permission Notice and Disclaimer (HPND)": "HPND",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "MIT No Attribution License (MIT-0)": "MIT-0",
    "Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Other/Proprietary License": "LicenseRef-Proprietary",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
    "Universal Permissive License (UPL)": "UPL-1.0",
    "Zope Public License": "ZPL-2.1",
    "zlib/libpng License": "Zlib",
}
_LONG_NAMES: Final = {
    "lesser general public": "lgpl",
    "affero general public": "agpl",
    "general public": "gpl",
    "mozilla public": "mpl",
    "python software foundation": "psf",
    "eclipse public": "epl",
}
_NOISE: Final = frozenset(
    {"the", "license", "licence", "licensed", "under", "version", "v", "gnu", "software", "open", "source", "clause"}
)
_NAMES: Final = {
    "0bsd": "0BSD",
    "agpl 3": "AGPL-3.0-only",
    "agpl 3 or later": "AGPL-3.0-or-later",
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "boost 1": "BSL-1.0",
    "bsd": "BSD-3-Clause BSD-2-Clause",
    "bsd 2": "BSD-2-Clause",
    "bsd 3": "BSD-3-Clause",
    "bsd new": "BSD-3-Clause",
    "bsd modified": "BSD-3-Clause",
    "bsd revised": "BSD-3-Clause",
    "bsd simplified": "BSD-2-Clause",
    "epl 2": "EPL-2.0",
    "gpl": "GPL-2.0-only GPL-3.0-only",
    "gpl 2": "GPL-2.0-only",
    "gpl 2 or later": "GPL-2.0-or-later",
    "gpl 3": "GPL-3.0-only",
    "gpl 3 or later": "GPL-3.0-or-later",
    "isc iscl": "ISC",
    "lgpl": "LGPL-2.1-only LGPL-3.0-only",
    "lgpl 2.1": "LGPL-2.1-only",
    "lgpl 3": "LGPL-3.0-only",
    "lgpl 3 or later": "LGPL-3.0-or-later",
    "mpl 2": "MPL-2.0",
    "psf": "PSF-2.0",
    "psfl": "PSF-2.0",
    "proprietary": "LicenseRef-Proprietary",
    "unlicense": "Unlicense",
}
_BY_WORDS: Final = {frozenset(name.split()): ids for name, ids in _NAMES.items()}


def claim(facts: Facts) -> Claim:
    """The licence according to the metadata, the strongest evidence first."""
    if facts.expression:
        return _from_expression(facts.expression)
    by_classifier = _from_classifiers(facts.classifiers)
    if len(facts.field) > 200 or facts.field.count("\n") > 2:  # a whole text instead of a name
        found = texts.recognise(facts.field)
        return _doubtful(found, "field", "the licence field holds a text instead of a name")
    by_field = named(facts.field)
    if len(by_field) == 1:
        if not by_classifier or _agree(by_field[0], by_classifier):
            return Claim(licence=by_field[0], candidates=by_field, source="field", sure=True, why="the licence field")
        why = f"the licence field says {by_field[0]}, the classifiers say {' and '.join(by_classifier)}"
        return _doubtful((*by_field, *by_classifier), "field", why)
    if by_field:
        return _doubtful(by_field, "field", f"the licence field, {facts.field!r}, may mean several licences")
    if by_classifier:
        why = "a classifier is the only evidence" if len(by_classifier) == 1 else "the classifiers leave a choice"
        return _doubtful(by_classifier, "classifier", why)
    title = texts.heading(facts.text)
    if title is not None:
        return _doubtful((title,), "text", "the metadata names no licence; a file is headed like one")
    said = f", which says {facts.field[:40]!r}" if facts.field else ""
    return Claim(why=f"no licence can be read from the metadata{said}")


def settle(claimed: Claim, opinion: Opinion | None) -> str:
    """The effective licence, from the claim and the opinion about the text.

    A text can select among the candidates and fill a gap. It never loosens a claim: if the two disagree, both apply.
    This also prevents a licence text from persuading a model of a better licence.
    """
    if claimed.sure or opinion is None or not trusted(opinion):
        return claimed.licence
    if not claimed.candidates:
        return opinion.licence
    kept = tuple(one for one in claimed.candidates if _agree(one, (opinion.licence,)))
    if kept:
        return opinion.licence if _agree(opinion.licence, kept) else _all_of((opinion.licence, *kept))
    return _all_of((*claimed.candidates, opinion.licence))


def contradicts(claimed: Claim, opinion: Opinion | None) -> bool:
    """Whether the text reads as a licence that the metadata does not claim."""
    if opinion is None or not trusted(opinion) or not claimed.candidates:
        return False
    return not any(_agree(one, (opinion.licence,)) for one in claimed.candidates)


def trusted(opinion: Opinion) -> bool:
    """Whether the opinion counts: it names a licence with enough confidence."""
    return opinion.licence != UNKNOWN and opinion.confidence >= _TRUSTED


def named(text: str) -> tuple[str, ...]:
    """The licences that a plain name may mean: 0 or more; alternatives ("A or B") are one expression."""
    text = text.strip()
    if is_known(text):
        return (str(parse(text)),)
    options = re.split(r"\s+or\s+(?!later)", text, flags=re.IGNORECASE)
    if len(options) > 1:
        parts = [named(option) for option in options]
        return (" OR ".join(part[0] for part in parts),) if all(len(part) == 1 for part in parts) else ()
    low = text.lower()
    for long, short in _LONG_NAMES.items():
        low = low.replace(long, short)
    low = re.sub(r"(\d)\+", r"\1 or later", re.sub(r"([a-z])v(?=\d)", r"\1 ", low))
    words = {re.sub(r"\.0$", "", word) for word in re.findall(r"[a-z]+|\d+(?:\.\d+)*", low)} - _NOISE
    ids = _BY_WORDS.get(frozenset(words))
    if ids is None and len(words) == 1:  # an id with "the", "License" and the like around it
        word = words.pop()
        ids = str(parse(word)) if is_known(word) else None
    return tuple(ids.split()) if ids else ()


def _from_expression(text: str) -> Claim:
    try:
        licence = str(parse(text))
    except SpdxError as error:
        why = f"License-Expression is {text[:60]!r}: {error}"
        return Claim(source="expression", why=why)
    if not is_known(licence):
        return Claim(
            licence=licence, candidates=(licence,), source="expression", why="License-Expression, an unknown id"
        )
    return Claim(licence=licence, candidates=(licence,), source="expression", sure=True, why="License-Expression")


def _from_classifiers(classifiers: Sequence[str]) -> tuple[str, ...]:
    found = (one for name in classifiers for one in _CLASSIFIERS.get(name, "").split())
    return tuple(dict.fromkeys(found))


def _doubtful(candidates: Sequence[str], source: str, why: str) -> Claim:
    unique = tuple(dict.fromkeys(candidates))
    return Claim.model_validate({"licence": _all_of(unique), "candidates": unique, "source": source, "why": why})


def _all_of(licences: Sequence[str]) -> str:
    if not licences:
        return UNKNOWN
    unique = tuple(dict.fromkeys(licences))
    return str(parse(" AND ".join(f"({licence})" for licence in unique)))


def _agree(licence: str, others: Sequence[str]) -> bool:
    """Whether every part of *licence* is named by the others, with -only and -or-later taken as one."""
    try:
        known = {_stem(leaf.id) for other in others for leaf in leaves(parse(other))}
        return all(_stem(leaf.id) in known for leaf in leaves(parse(licence)))
    except SpdxError:
        return False


def _stem(id: str) -> str:
    return id.removesuffix("-only").removesuffix("-or-later")
