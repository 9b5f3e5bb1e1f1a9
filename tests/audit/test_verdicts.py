"""Each verdict has its case: keys, anchors, versions, logs that start late, logs without a key."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.audit.exporting import canonical, head, heads_of, record
from tests.audit.honest_logs import KEY, OLD, OTHER, log, pruned
from tests.audit.matrix import is_record, with_value
from tests.audit.small_logs import found, joined, made, with_gone

from graphrt._journal.chain import Chain
from graphrt._journal.log_keys import KeyRing
from graphrt._journal.merkle import Tree
from graphrt.audit import offline
from graphrt.audit.offline import Verdict, verify

LOG = log()
ANCHOR = b"".join(heads_of(LOG))


@pytest.mark.parametrize(
    ("slugs", "verdict", "exit_code"),
    [
        ("sound redacted", "sound", 0),
        ("tail-unanchored unanchored", "unanchored", 3),
        ("open-run weak-key torn", "incomplete", 3),
        ("withheld", "withheld", 3),
        ("key-missing wrong-key", "wrong-key", 2),
        ("newer-form unreadable", "unreadable", 2),
        ("truncated missing", "missing", 1),
        ("unkeyed another-log misnamed forked reordered duplicated altered", "altered", 1),
    ],
)
def test_each_slug_has_one_verdict_which_has_one_exit_code(slugs: str, verdict: str, exit_code: int) -> None:
    assert [slug for slug, one in offline.VERDICTS.items() if one == verdict] == slugs.split()
    assert Verdict(verdict).exit_code == exit_code


def test_sentence_names_verdict_and_slug() -> None:
    assert found(LOG, key=KEY, anchor=ANCHOR).sentence.startswith("sound: Everything fits.")
    assert found(LOG).sentence.startswith("wrong-key (key-missing): ")


def test_different_root_key_is_distinguished_from_a_missing_one() -> None:
    assert found(LOG, key=OTHER, anchor=ANCHOR).slug == "wrong-key"
    assert found(LOG, anchor=ANCHOR).slug == "key-missing"
    assert found(LOG).exit_code == 2
    assert found(LOG).first == offline.Finding(
        verdict=Verdict.WRONG_KEY,
        slug="key-missing",
        message=f"Records from 1 on are authenticated with the key {offline.kid_of(KEY).hex()}, which was not given.",
        line=3,
        record=1,
        seq=1,
    )


def test_key_that_is_not_bytes_is_refused() -> None:
    wrong: Any = "not bytes, but long enough to be a key"
    report = verify(b"".join(LOG), key=wrong)

    assert report.slug == "key-missing"
    assert "not bytes" in report.sentence
    assert report.proved_records == report.records


def test_missing_key_of_later_records_is_named_with_their_first() -> None:
    lines = made(KeyRing(OLD), KeyRing(OLD), KeyRing(KEY, (OLD,)), head_key=KEY)

    assert found(lines, key=KEY, older=[OLD]).slug == "unanchored"
    assert found(lines, key=KEY, older=[OLD], anchor=lines[-1]).slug == "sound"
    assert found(lines, key=KEY).slug == "key-missing"
    report = found(lines, key=OLD)
    assert (report.slug, report.first and report.first.record) == ("key-missing", 3)


def test_key_may_be_added_later_but_not_removed() -> None:
    lines = made(None, KeyRing(KEY), KeyRing(KEY), head_key=KEY)
    shed = [*lines[:3], *made(None, None, None)[3:]]

    assert found(lines, key=KEY, anchor=lines[-1]).slug == "sound"
    assert found(shed, key=KEY).exit_code == 1
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    body = [b'[4,1.0,"r",0,[],[[20,0]]]']
    first = chain.seal(1, 1, 1.0, body, (), 7)
    saved = chain.saved()
    bare = Chain("t", {name: value for name, value in saved.items() if name != "\x00kid"})
    second = bare.seal(2, 1, 2.0, body, (), 7)
    report = found(
        [*lines[:2], record(1, 1, body, first), record(2, 1, [body[0].replace(b"1.0", b"2.0")], second)], key=KEY
    )
    assert report.slug == "altered"
    assert report.first_bad == 2


def test_log_without_macs_is_refused_if_a_key_is_given() -> None:
    lines = log(key=None)

    assert found(lines, key=KEY, anchor=joined(heads_of(lines))).slug == "unkeyed"
    assert found(lines, anchor=joined(heads_of(lines))).slug == "sound"
    assert found(lines).slug == "unanchored"


def test_log_rewritten_with_another_key_is_not_valid() -> None:
    forged = log(key=OTHER)

    assert found(forged, key=KEY).slug == "wrong-key"
    assert found(forged, key=KEY, anchor=ANCHOR).exit_code == 1
    assert found(forged, key=OTHER, anchor=ANCHOR).exit_code == 1


def test_log_under_the_name_of_another_one_is_detected_by_its_macs() -> None:
    lines = list(pruned())
    renamed = [line.replace(b'"log":"voyage"', b'"log":"voyagf"') for line in lines if not line.startswith(b'{"head"')]

    assert found(renamed, key=KEY).slug == "another-log"
    assert found(renamed, key=KEY).first_bad == 1


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"change-me-in-prod",
        b"x" * 40,
        b"ab" * 20,
        b"secret12" * 4,
        b"a-string-secret-at-least-256-bits-long",
    ],
)
def test_log_with_a_weak_key_is_verified_and_reported_as_weak(key: bytes) -> None:
    lines = made(KeyRing(key), KeyRing(key), head_key=key)
    report = verify(joined(lines), key=key, anchor=lines[-1])

    assert report.slug == "weak-key"
    assert report.exit_code == 3
    assert report.authenticated_seq == 2
    assert verify(joined(lines).replace(b"2.0,", b"3.0,"), key=key).slug == "altered"


def test_ordinary_keys_are_not_weak() -> None:
    import hashlib

    keys = [hashlib.sha256(b"%d" % number).digest() for number in range(500)]

    assert not [key for key in keys if offline.weakness(key) or offline.weakness(key.hex().encode())]


def test_anchor_distinguishes_two_histories_of_a_log() -> None:
    """Both are genuine: a backup was restored, and another run continued from it."""
    one = made(KeyRing(KEY), KeyRing(KEY), KeyRing(KEY), head_key=KEY)
    other = made(KeyRing(KEY), KeyRing(KEY), head_key=KEY)
    longer = made(KeyRing(KEY), KeyRing(KEY), KeyRing(KEY), KeyRing(KEY), head_key=KEY)
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    body = [b'[4,1.0,"s",0,[],[[20,0]]]']
    tree = Tree()
    seal = chain.seal(1, 1, 1.0, body, (), 7)
    tree.add(chain.leaf)
    fork = [*one[:2], record(1, 1, body, seal), canonical({"head": head("t", "t", 1, 1, tree, KEY)})]

    assert found(fork, key=KEY, anchor=fork[-1]).slug == "sound"
    assert found(one, key=KEY, anchor=other[-1]).slug == "tail-unanchored"
    assert found(one, key=KEY, anchor=longer[-1]).slug == "truncated"
    report = found(one, key=KEY, anchor=fork[-1])
    assert (report.slug, report.proved_records, report.first_bad) == ("forked", 0, 1)
    assert found(made(None, None), anchor=canonical({"head": head("t", "t", 1, 1, tree, None)})).slug == "altered"


def test_anchor_of_other_logs_has_no_effect() -> None:
    other = joined(heads_of(log("other")))
    report = found(LOG, key=KEY, anchor=other)

    assert report.slug == "unanchored"
    assert "other" in report.sentence
    assert found(LOG, key=KEY, anchor=other + ANCHOR).slug == "sound"


def test_changed_head_in_the_anchor_is_detected() -> None:
    for at in range(0, len(ANCHOR), 41):
        changed = ANCHOR[:at] + bytes([ANCHOR[at] ^ 1]) + ANCHOR[at + 1 :]
        report = verify(joined(LOG), key=KEY, anchor=changed)

        assert report.slug != "sound" or b'"head"' not in changed[at - 5 : at + 5], (at, report)
        assert report.slug in ("unreadable", "altered") or changed.count(b'"voyage"') != ANCHOR.count(b'"voyage"')


def test_torn_line_of_the_anchor_is_ignored() -> None:
    assert found(LOG, key=KEY, anchor=ANCHOR + b'{"head":{"at":17').slug == "sound"


def test_first_record_in_doubt_and_proved_records_are_reported() -> None:
    at = [at for at, line in enumerate(LOG) if is_record(line)][29]
    changed = [*LOG[:at], LOG[at].replace(b"run-", b"ran-", 1), *LOG[at + 1 :]]
    report = found(changed, key=KEY, anchor=ANCHOR)

    assert (report.slug, report.first_bad, report.proved_records) == ("altered", 30, 29)
    assert report.first is not None
    assert (report.first.line, report.first.seq) == (at + 1, report.proved_seq + 1)
    assert report.proved in report.sentence
    assert report.records == 64
    assert [one for one in report.findings if one.verdict.exit_code == 1] == [report.first]
    told = json.loads(report.as_json())
    assert (told["slug"], told["exit_code"], told["proved_records"]) == ("altered", 1, 29)


def test_several_changes_are_all_found() -> None:
    records = [at for at, line in enumerate(LOG) if is_record(line)]
    lines = list(LOG)
    for number in (10, 20, 30):
        lines[records[number]] = lines[records[number]].replace(b"run-", b"ran-", 1)
    del lines[records[40]]
    report = found(lines, key=KEY, anchor=ANCHOR)

    assert [one.record for one in report.findings if one.verdict.exit_code == 1] == [11, 21, 31, 41]
    assert report.findings[-1].slug == "missing"


@pytest.mark.parametrize(
    ("form", "verdict"),
    [
        ("graphrt-audit/3", "newer-form"),
        ("graphrt-audit/1", "unreadable"),
        ("graphrt-audit/10", "newer-form"),
        ("graphrt-audit/0", "unreadable"),
        ("graphrt-audit/", "unreadable"),
        ("other/1", "unreadable"),
    ],
)
def test_newer_form_is_distinguished_from_other_files(form: str, verdict: str) -> None:
    report = found([canonical({"form": form, "log": "t", "thread": "t"}), *LOG[1:]], key=KEY)

    assert (report.slug, report.exit_code, report.proved_records) == (verdict, 2, 0)


def test_genuine_record_of_a_newer_form_is_distinguished_from_a_changed_one() -> None:
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    body = [b'[5,1.0,"r",0,[],[["new"]]]']
    lines = [*made()[:2], record(1, 1, body, chain.seal(1, 1, 1.0, body, (), 7))]
    changed = [
        *lines[:2],
        record(1, 1, [body[0].replace(b"1.0", b"2.0")], base64.b64decode(json.loads(lines[2])["seal"])),
    ]

    assert found(lines, key=KEY).slug == "newer-form"
    assert found(changed, key=KEY).slug == "altered"


def test_version_byte_of_a_seal_is_protected_although_no_hash_covers_it() -> None:
    at = 2
    seal = base64.b64decode(json.loads(LOG[at])["seal"])
    for version in range(256):
        changed = base64.b64encode(bytes([version]) + seal[1:]).decode()
        report = found(with_value(LOG, at, seal=changed), key=KEY, anchor=ANCHOR)

        assert report.slug == ("sound" if version == 2 else "altered"), version


def test_names_cannot_be_changed_by_withholding_their_authentication() -> None:
    value = json.loads(LOG[2])
    lines = with_gone(LOG, 2, [len(value["lines"]) - 1])
    names = json.loads(lines[1])["names"]
    renamed = [lines[0], canonical({"names": [name.replace("gate", "gates") for name in names]}), *lines[2:]]

    assert "gate" in names
    assert found(renamed, key=KEY, anchor=ANCHOR).exit_code == 1
    assert found(lines, key=KEY, anchor=ANCHOR).slug == "altered"


def test_many_harmless_findings_hide_no_other_finding() -> None:
    lines = made(*[KeyRing(KEY)] * 130, head_key=KEY)
    tree, heads = Tree(), []
    for number, line in enumerate(one for one in lines if is_record(one)):
        tree.add(base64.b64decode(json.loads(line)["seal"])[42:74])
        heads.append(canonical({"head": head("t", "t", number + 1, 1, tree, KEY)}))
    log = [*lines[:-1], heads[-1]]
    report = found(log, key=KEY, anchor=joined(heads[:-1]))

    assert report.slug == "tail-unanchored"
    assert report.more_findings > 20


def test_log_under_the_name_of_another_thread_contradicts_the_anchor() -> None:
    """The anchor has heads of that thread, under its original log."""
    other = [canonical({"head": {**json.loads(line)["head"], "log": "o", "thread": "o"}}) for line in heads_of(LOG)]
    bare = [line for line in LOG if not line.startswith(b'{"head"')]
    renamed = [canonical({**json.loads(bare[0]), "thread": "o"}), *bare[1:]]
    report = found(renamed, key=KEY, anchor=joined(other))

    assert (report.slug, report.exit_code, report.first_bad) == ("another-log", 1, 1)


def test_withheld_lines_leave_the_log_provable() -> None:
    places = [at for at, line in enumerate(LOG) if is_record(line) and len(json.loads(line)["lines"]) > 1]
    lines: Any = LOG
    for at in places:
        # The last line of the first record authenticates it
        values = range(1, len(json.loads(LOG[at])["lines"]) - (at == 2))
        lines = with_gone(lines, at, list(values))
    report = found([line for line in lines if not line.startswith(b'{"blob"')], key=KEY, anchor=ANCHOR)

    assert (report.verdict, report.slug, report.exit_code) == ("withheld", "withheld", 3)
    assert report.erased_lines == report.withheld_lines > 60
    assert report.authenticated_seq == report.proved_seq


def test_replacement_of_a_withheld_line_is_detected() -> None:
    at = next(at for at, line in enumerate(LOG) if is_record(line) and len(json.loads(line)["lines"]) > 1)
    lines = with_gone(LOG, at, [1])
    value = json.loads(lines[at])
    for line in ('"forged"', '{"$t":"erased","v":0}', ""):
        changed = with_value(lines, at, lines=[value["lines"][0], line, *value["lines"][2:]])
        report = found(changed, key=KEY, anchor=ANCHOR)
        assert (report.slug, report.first_bad) == ("altered", 1)


def test_signed_heads_are_read() -> None:
    lines = list(made(KeyRing(KEY), head_key=KEY))
    signed = {**json.loads(lines[-1])["head"], "signature": base64.b64encode(bytes(64)).decode(), "signer": "ab" * 32}

    assert found([*lines[:-1], canonical({"head": signed})], key=KEY, anchor=lines[-1]).slug == "sound"
    assert found([*lines[:-1], canonical({"head": {**signed, "more": 1}})], key=KEY, anchor=lines[-1]).slug == "altered"


def test_script_needs_only_its_file(tmp_path: Path) -> None:
    script = tmp_path / "offline.py"
    script.write_bytes(Path(offline.__file__).read_bytes())
    (tmp_path / "log").write_bytes(joined(LOG))
    (tmp_path / "key").write_bytes(KEY + b"\n")
    (tmp_path / "other").write_bytes(OTHER)
    (tmp_path / "anchor").write_bytes(ANCHOR)
    (tmp_path / "cut").write_bytes(joined(LOG[:40]))

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "offline.py", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout or done.stderr

    assert run("log", "--key-file", "key", "--anchor", "anchor") == (
        0,
        "sound: Everything fits. Entries up to 214 (64 records) are as they were written.\n",
    )
    assert run("log", "--key-file", "key")[0] == 3
    (tmp_path / "hex").write_text(KEY.hex())
    assert run("log", "--key-file", "hex", "--anchor", "anchor")[0] == 2
    assert run("log", "--key-file", "other", "--older-key-file", "key", "--anchor", "anchor")[0] == 0
    assert run("log")[0] == run("log", "--key-file", "nowhere")[0] == run("nowhere")[0] == 2
    code, text = run("cut", "--key-file", "key", "--anchor", "anchor", "--json")
    assert (code, json.loads(text)["slug"]) == (1, "truncated")
