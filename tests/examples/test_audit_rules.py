"""Licences: expressions, plain names, claims, texts, and the verdicts of a policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples.audit import rules, spdx, texts
from examples.audit.policy import PRESETS, Policy, PolicyError, load
from examples.audit.state import UNKNOWN, Claim, Facts, Opinion


def facts(**fields: Any) -> Facts:
    return Facts.model_validate({"key": "k", "name": "n", "version": "1", **fields})


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("mit", "MIT"),
        ("MIT or apache-2.0", "MIT OR Apache-2.0"),
        ("MIT AND (GPL-3.0+ OR ISC)", "MIT AND (GPL-3.0-or-later OR ISC)"),
        ("((MIT))", "MIT"),
        ("GPL-2.0 WITH Classpath-exception-2.0", "GPL-2.0-only WITH Classpath-exception-2.0"),
        ("MIT AND MIT", "MIT"),
        ("LicenseRef-Own", "LicenseRef-Own"),
    ],
)
def test_expressions_are_written_canonically(text: str, written: str) -> None:
    assert str(spdx.parse(text)) == written


@pytest.mark.parametrize("text", ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "A | B", "MIT WITH", "漢字"])
def test_invalid_expression_is_refused(text: str) -> None:
    with pytest.raises(spdx.SpdxError):
        spdx.parse(text)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("MIT", "permissive"),
        ("MIT OR GPL-3.0-only", "permissive"),
        ("MIT AND GPL-3.0-only", "strong-copyleft"),
        ("GPL-2.0-only WITH Classpath-exception-2.0", "weak-copyleft"),
        ("Nobody-1.0", "unknown"),
        ("not ( valid", "unknown"),
    ],
)
def test_families_of_licences(text: str, family: str) -> None:
    assert spdx.family(text) == family


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("Apache Software License", "Apache-2.0"),
        ("The MIT License (MIT)", "MIT"),
        ("BSD 3-Clause", "BSD-3-Clause"),
        ("3-clause BSD License", "BSD-3-Clause"),
        ("GPLv3+", "GPL-3.0-or-later"),
        ("GNU General Public License v3 or later (GPLv3+)", "GPL-3.0-or-later"),
        ("GNU Lesser General Public License v3", "LGPL-3.0-only"),
        ("MIT OR Apache 2.0", "MIT OR Apache-2.0"),
        ("BSD", "BSD-3-Clause BSD-2-Clause"),
        ("Dual License", ""),
        ("see the file", ""),
    ],
)
def test_plain_names_are_recognized(text: str, ids: str) -> None:
    expected = (ids,) if " OR " in ids else tuple(ids.split())

    assert rules.named(text) == expected


def test_expression_is_conclusive() -> None:
    claim = rules.claim(facts(expression="MIT", classifiers=("BSD License",)))

    assert (claim.licence, claim.sure, claim.source) == ("MIT", True, "expression")


@pytest.mark.parametrize(
    ("fields", "licence", "source"),
    [
        ({"expression": "MIT OR"}, UNKNOWN, "expression"),
        ({"expression": "Nobody-1.0"}, "Nobody-1.0", "expression"),
        ({"field": "MIT", "classifiers": ("BSD License",)}, "MIT AND BSD-3-Clause AND BSD-2-Clause", "field"),
        ({"field": "BSD"}, "BSD-3-Clause AND BSD-2-Clause", "field"),
        ({"classifiers": ("MIT License",)}, "MIT", "classifier"),
        ({"field": "Dual", "classifiers": ("MIT License",)}, "MIT", "classifier"),
        ({"text": "The MIT License\n\nblah"}, "MIT", "text"),
        ({"field": "see the file"}, UNKNOWN, "none"),
        ({}, UNKNOWN, "none"),
    ],
)
def test_weak_evidence_stays_doubtful(fields: dict[str, Any], licence: str, source: str) -> None:
    claim = rules.claim(facts(**fields))

    assert (claim.licence, claim.source, claim.sure) == (licence, source, False)
    assert claim.why


def test_field_confirmed_by_its_classifier_is_certain() -> None:
    assert rules.claim(facts(field="BSD-3-Clause", classifiers=("BSD License",))).sure


DOUBT = Claim(licence="MIT", candidates=("MIT",))
BSD = Claim(licence="BSD-3-Clause AND BSD-2-Clause", candidates=("BSD-3-Clause", "BSD-2-Clause"))


@pytest.mark.parametrize(
    ("claim", "read", "confidence", "licence"),
    [
        (DOUBT, "MIT", 0.9, "MIT"),
        (DOUBT, "GPL-3.0-only", 0.9, "MIT AND GPL-3.0-only"),
        (DOUBT, "GPL-3.0-only", 0.3, "MIT"),
        (BSD, "BSD-2-Clause", 0.9, "BSD-2-Clause"),
        (BSD, "Unlicense", 1.0, "BSD-3-Clause AND BSD-2-Clause AND Unlicense"),
        (Claim(), "ISC", 0.9, "ISC"),
        (Claim(), UNKNOWN, 0.9, UNKNOWN),
        (Claim(licence="GPL-3.0-only", sure=True), "MIT", 1.0, "GPL-3.0-only"),
    ],
)
def test_text_never_loosens_a_claim(claim: Claim, read: str, confidence: float, licence: str) -> None:
    assert rules.settle(claim, Opinion(licence=read, confidence=confidence)) == licence


def test_missing_opinion_keeps_the_claim() -> None:
    assert rules.settle(BSD, None) == BSD.licence
    assert not rules.contradicts(BSD, None)


def test_texts_that_quote_other_licences_are_not_mistaken_for_them() -> None:
    mpl = "Mozilla Public License Version 2.0 ... the GNU General Public License, Version 2.0, the GNU Lesser ..."
    python = "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2 ... CNRI LICENSE AGREEMENT ..."

    assert texts.recognise(mpl) == ("MPL-2.0",)
    assert texts.recognise(python) == ("PSF-2.0",)
    assert texts.recognise("all is forbidden") == ()


@pytest.mark.parametrize(
    ("policy", "licence", "objection"),
    [
        (PRESETS["permissive"], "MIT", None),
        (PRESETS["permissive"], "MIT OR GPL-3.0-only", None),
        (PRESETS["permissive"], "MIT AND MPL-2.0", "MPL-2.0 (weak-copyleft) is not allowed"),
        (PRESETS["permissive"], UNKNOWN, "unknown (unknown) is not allowed"),
        (PRESETS["permissive"], "( broken", "'( broken' is no SPDX expression: a parenthesis is not closed"),
        (PRESETS["copyleft-ok"], "GPL-3.0-or-later", None),
        (PRESETS["copyleft-ok"], "AGPL-3.0-only", "AGPL-3.0-only (network-copyleft) is not allowed"),
        (Policy(allow=("permissive",), deny=("BSD-*",)), "BSD-3-Clause", "BSD-3-Clause is denied"),
        (Policy(allow=("copyleft",), deny=("GPL-3.0",)), "GPL-3.0-or-later", "GPL-3.0-or-later is denied"),
    ],
)
def test_policies_decide_about_licences(policy: Policy, licence: str, objection: str | None) -> None:
    assert policy.objection(licence) == objection


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_policy_files_are_parsed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"ours{suffix}"
    data = {"allow": ["MIT"], "max_size_mb": 5, "accept": {"pack": "bought"}}
    toml = 'allow = ["MIT"]\nmax_size_mb = 5\n[accept]\npack = "bought"\n'
    path.write_text(json.dumps(data) if suffix == ".json" else toml, encoding="utf-8")

    policy = load(str(path))

    assert (policy.name, policy.allow, policy.accept) == ("ours", ("MIT",), {"pack": "bought"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"alow": []}', "there is no setting 'alow'; known: name, allow"),
        ('{"allow": ["MTI"]}', "'MTI' names no licence; did you mean 'MIT'?"),
        ('{"max_age_days": 0}', "max_age_days: "),
        ("[]", "must hold a table"),
        ("{", "cannot be read"),
    ],
)
def test_invalid_policy_files_are_explained(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(PolicyError) as error:
        load(str(path))

    assert says in str(error.value)
