"""Logs that start after a prune."""

from __future__ import annotations

import base64
import json

from tests.audit.exporting import canonical, heads_of
from tests.audit.honest_logs import KEY, pruned
from tests.audit.matrix import is_record
from tests.audit.small_logs import found, joined

from graphrt._journal.chain import Chain
from graphrt.audit import offline


def test_pruned_log_is_verified_from_its_snapshot() -> None:
    lines = pruned()
    report = found(lines, key=KEY, anchor=joined(heads_of(lines)))

    assert lines[1].startswith(b'{"begin"')
    assert report.slug in ("sound", "open-run")
    assert report.authenticated_seq == report.anchored_seq == report.proved_seq


def test_start_of_a_pruned_log_is_checked() -> None:
    lines = pruned()
    begin = json.loads(lines[1])["begin"]
    for name, value in begin["digests"].items():
        changed = value[:-1] + ("0" if value[-1] != "0" else "1")
        new = canonical({"begin": {**begin, "digests": {**begin["digests"], name: changed}}})
        assert found([lines[0], new, *lines[2:]], key=KEY).exit_code == 1, name
    assert (
        found([lines[0], canonical({"begin": {**begin, "seq": begin["seq"] + 1}}), *lines[2:]], key=KEY).exit_code == 1
    )
    assert found([lines[0], *lines[2:]], key=KEY).exit_code == 1


def test_truncated_start_is_distinguished_from_a_prune() -> None:
    """The contents of a snapshot can be computed from the log; a prune leaves a record of itself."""
    lines = list(pruned())
    begin = json.loads(lines[1])["begin"]
    chain = Chain("voyage", begin["digests"])
    at = next(at for at, line in enumerate(lines) if is_record(line))
    first = json.loads(lines[at])
    structure = json.loads(first["lines"][0])
    written = [(json.loads(lines[2])["names"][name], line) for name, line in offline.Sealed(first).written()]
    chain.check(
        first["seq"],
        first["count"],
        structure[1],
        [line.encode() for line in first["lines"]],
        written,
        base64.b64decode(first["seal"]),
    )
    later = canonical({"begin": {"digests": chain.saved(), "seq": first["seq"]}})
    report = found([lines[0], later, lines[2], *lines[at + 1 :]], key=KEY, anchor=joined(heads_of(lines)))

    assert (report.slug, report.first_bad, report.proved_records) == ("missing", 1, 0)
