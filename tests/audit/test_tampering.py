"""Every change of a log of 64 records is detected, with the right verdict, and both verifiers agree on it.

`GRAPHRT_FULL=1` flips every bit, and lets both verifiers read the whole file each time; otherwise one bit of every third
byte is flipped, the verifier goes on from the line before, and the slower checks are samples.
"""

from __future__ import annotations

import ast
import base64
import functools
import hmac
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest
from tests.audit import documented, matrix
from tests.audit.exporting import canonical, heads_of, key_of, kid_of
from tests.audit.honest_logs import KEY, RECORDS, log
from tests.audit.honest_logs import OTHER as OTHER_KEY
from tests.audit.matrix import Change

from graphrt.audit.offline import verify

FULL = bool(os.environ.get("GRAPHRT_FULL"))


@functools.cache
def anchor() -> bytes:
    """The heads of the log. Logs are made by the first test that needs them: every process collects all tests."""
    return b"".join(heads_of(log()))


@functools.cache
def places() -> list[int]:
    return matrix.places(log())


MATRIX: dict[str, Callable[[], Iterable[Change]]] = {
    "deletions": lambda: matrix.deletions(log()),
    "duplications": lambda: sample(list(matrix.duplications(log())), 40),
    "swaps": lambda: sample(list(matrix.swaps(log())), 40),
    "splices": lambda: sample(list(matrix.splices(log(), log("other"))), 40),
    "truncations": lambda: matrix.truncations(log()),
    "cut lines": lambda: matrix.cut_lines(log(), 1 if FULL else 397),
    "rewritings": lambda: sample(list(matrix.rewritings(log())), 40),
}


def sample(changes: Sequence[Change], number: int) -> Sequence[Change]:
    return changes if FULL else random.Random(7).sample(changes, number)


def test_log_has_every_kind_of_line() -> None:
    kinds = [line[:7] for line in log()]

    assert sum(map(matrix.is_record, log())) == RECORDS
    assert {b'{"form"', b'{"names', b'{"blob"', b'{"count', b'{"head"'} == set(kinds)
    assert verify(b"".join(log()), key=KEY, anchor=anchor()).slug == "sound"
    assert verify(b"".join(log()), key=KEY).slug == "unanchored"


@pytest.mark.parametrize("kind", MATRIX)
def test_change_is_detected(kind: str) -> None:
    wrong = []
    changes = list(MATRIX[kind]())
    for change in changes:
        data = b"".join(change.lines)
        report = verify(data, key=KEY, anchor=anchor())
        fits = report.slug in change.verdicts and (not change.first_bad or report.first_bad in change.first_bad)
        if not fits or not documented.agree(report, data, [KEY], anchor()):
            wrong.append(
                (change.what, report.sentence, report.first_bad, documented.second_opinion(data, [KEY], anchor()))
            )

    assert len(changes) >= 40
    assert wrong == []


def test_other_version_or_key_of_a_record_is_detected() -> None:
    """Every other version of a seal, no key, another key, and the MAC of another key instead of the right one."""
    wrong, tried = [], 0
    for at, record in list(enumerate(log()))[:: 1 if FULL else 27]:
        if not matrix.is_record(record):
            continue
        tried += 1
        value = json.loads(record)
        seal = base64.b64decode(value["seal"])
        mac = hmac.digest(key_of(OTHER_KEY, "voyage"), seal[42:74], "sha256")
        seals = [bytes([version, *seal[1:]]) for version in range(256) if version != seal[0]]
        seals += [
            seal[:1] + b"\0" + bytes(8) + seal[10:74] + seal[106:],
            seal[:2] + kid_of(OTHER_KEY) + seal[10:],
            seal[:2] + kid_of(OTHER_KEY) + seal[10:74] + mac + seal[106:],
            seal[:74] + mac + seal[106:],
        ]
        for changed in seals:
            line = canonical({**value, "seal": base64.b64encode(changed).decode()})
            data = b"".join([*log()[:at], line, *log()[at + 1 :]])
            report = verify(data, key=KEY, older=[OTHER_KEY], anchor=anchor())
            if report.exit_code == 0 or report.slug in ("unanchored", "tail-unanchored", "open-run"):
                wrong.append((at, changed[:10], report.sentence))

    assert tried >= 2
    assert wrong == []


def test_removed_head_is_detected_with_the_anchor() -> None:
    for change in matrix.deletions(log()):
        if "head" in change.what:
            report = verify(b"".join(change.lines), key=KEY, anchor=anchor())
            assert [one.message for one in report.findings if "The anchor has a head" in one.message]


@pytest.mark.parametrize("kind", ["truncations", "cut lines"])
def test_truncated_log_is_not_reported_as_valid_without_an_anchor(kind: str) -> None:
    for change in MATRIX[kind]():
        report = verify(b"".join(change.lines), key=KEY)

        whole = kind == "truncations" and not change.lines[-1].startswith(b'{"blob"')
        assert report.slug in (("unanchored",) if whole else ("torn", "unreadable")), change.what


def test_truncation_after_an_older_anchor_is_not_reported_as_valid() -> None:
    """Entries after the last anchored head are not proved to be complete."""
    old = b"".join(heads_of(log())[:3])
    reports = [verify(b"".join(log()[:at]), key=KEY, anchor=old) for at in range(40, len(log()))]

    assert {report.slug for report in reports} == {"tail-unanchored"}
    assert {report.anchored_seq for report in reports} == {json.loads(heads_of(log())[2])["head"]["seq"]}


def test_flip_of_each_byte_is_detected_at_its_record() -> None:
    prefixes = matrix.Prefixes(log(), KEY, anchor())
    wrong, tried = [], 0
    for at, byte, changed in matrix.flips(log(), bits=8 if FULL else 1, step=1 if FULL else 3):
        tried += 1
        found = prefixes.first_found(at, changed)
        verdicts, records = matrix.allowed_after_flip(at, byte, log(), places())
        if found is None or found.slug not in verdicts or found.record not in records:
            wrong.append((at, byte, found))

    assert tried > (200_000 if FULL else 8_000)
    assert wrong == []


def test_flips_are_detected_by_both_verifiers_in_the_whole_file() -> None:
    wrong, tried = [], 0
    for at, byte, changed in flips_of_the_whole_file():
        tried += 1
        data = b"".join([*log()[:at], changed, *log()[at + 1 :]])
        report = verify(data, key=KEY, anchor=anchor())
        verdicts, records = matrix.allowed_after_flip(at, byte, log(), places())
        fits = report.slug in verdicts and report.first_bad in records
        if not fits or not documented.agree(report, data, [KEY], anchor()):
            wrong.append((at, byte, report.sentence))

    assert tried > 100
    assert wrong == []


def flips_of_the_whole_file() -> Iterator[tuple[int, int, bytes]]:
    return matrix.flips(log(), bits=8) if FULL else matrix.flips(log(), bits=1, step=211)


def test_example_of_the_page_gets_its_four_documented_verdicts() -> None:
    page = documented.PAGE.read_text(encoding="utf-8").partition("## An example")[2]
    example: dict[str, bytes] = {}
    exec(page.partition("```python\n")[2].partition("```")[0], example)
    log, key, anchor = example["EXAMPLE"], example["KEY"], example["ANCHOR"]

    assert documented.second_opinion(log, [key], anchor) == (0, None)
    assert documented.second_opinion(log, [key], None) == (3, None)
    assert documented.second_opinion(log, [], anchor) == (2, None)
    assert documented.second_opinion(log.replace(b"scatters", b"shatters"), [key], None) == (1, 2)


def test_documented_verifier_is_short_and_does_not_import_graphrt() -> None:
    lines = documented.source().splitlines()
    tree = ast.parse(documented.source())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}

    assert len(lines) <= 205
    assert max(map(len, lines)) <= 120
    assert imported == {"base64", "functools", "hashlib", "hmac", "json", "re", "struct"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
