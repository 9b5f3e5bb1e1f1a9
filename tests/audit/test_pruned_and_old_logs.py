"""Logs that begin after a prune, and logs that graphrt 0.1 began."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from tests.audit.exporting import canonical, exported, heads_of
from tests.audit.honest_logs import KEY, pruned
from tests.audit.matrix import is_record
from tests.audit.small_logs import found, joined

from graphrt._journal.chain import Chain
from graphrt.audit import offline
from graphrt.stores import open_store

CORPUS = Path(__file__).parents[1] / "corpus" / "v0_1" / "chained.db.gz"


def test_pruned_log_is_verified_from_what_the_snapshot_kept() -> None:
    lines = pruned()
    report = found(lines, key=KEY, anchor=joined(heads_of(lines)))

    assert lines[1].startswith(b'{"begin"')
    assert report.verdict in ("sound", "open-run")
    assert report.authenticated_seq == report.anchored_seq == report.proved_seq


def test_what_a_pruned_log_begins_with_is_checked() -> None:
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


def test_beginning_that_was_cut_is_told_from_a_prune() -> None:
    """Whoever has the log can compute what a snapshot would keep; a prune leaves a record that says so."""
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

    assert (report.verdict, report.first_bad, report.proved_records) == ("missing", 1, 0)


def test_logs_of_0_1_are_verified(tmp_path: Path) -> None:
    """Seals of version 1, and bodies of version 1."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(CORPUS.read_bytes()))
    with open_store(f"sqlite:///{path}") as store:
        logs = {one.thread: list(exported(store, one.thread, every=3)) for one in store.heads()}
    versions = set()
    for lines in logs.values():
        report = found(lines, anchor=joined(heads_of(lines)))
        versions |= {base64.b64decode(json.loads(line)["seal"])[0] for line in lines if is_record(line)}
        pruned_by_0_1 = lines[1].startswith(b'{"begin"')  # its snapshots keep no tree

        assert report.exit_code in ((3,) if pruned_by_0_1 else (0, 3)), report
        assert report.proved_records == report.records > 0
        for at, line in enumerate(lines):
            if is_record(line):
                assert found([*lines[:at], line.replace(b'",', b'" ,', 1), *lines[at + 1 :]]).exit_code == 1
                changed = line.replace(b"[1,", b"[1,0", 1)
                assert found([*lines[:at], changed, *lines[at + 1 :]]).exit_code == 1
    assert len(logs) > 10
    assert versions == {1}
