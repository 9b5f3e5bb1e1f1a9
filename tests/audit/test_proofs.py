"""A proof suffices to verify a record, and so does a proof for two heads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.audit.exporting import canonical, heads_of
from tests.audit.honest_logs import KEY, OTHER, log, pruned
from tests.audit.matrix import is_record
from tests.audit.small_logs import with_gone

from graphrt.audit import offline
from graphrt.audit.offline import check_consistency, check_inclusion
from graphrt.audit.proofs import consistency_proof, inclusion_proof
from graphrt.errors import InputError

LOG = log()
DATA = b"".join(LOG)
ANCHOR = b"".join(heads_of(LOG))
HEADS = [json.loads(line)["head"] for line in heads_of(LOG)]
RECORDS = [json.loads(line) for line in LOG if is_record(line)]


def test_every_record_is_proved_against_the_head_after_it() -> None:
    for number, record in enumerate(RECORDS):
        proof = inclusion_proof(DATA, record["seq"])
        by_key, by_anchor = check_inclusion(proof, key=KEY), check_inclusion(proof, anchor=ANCHOR)

        assert by_key.slug == by_anchor.slug == "sound"
        assert by_key.proved_seq == record["seq"]
        assert f"number {number + 1} of" in by_key.proved
        assert json.loads(proof)["record"] == record
        assert len(proof) < len(canonical(record)) + 1_200


def test_entry_in_the_middle_of_a_record_is_proved_by_its_record() -> None:
    record = next(one for one in RECORDS if one["count"] > 2)

    assert inclusion_proof(DATA, record["seq"] - 1) == inclusion_proof(DATA, record["seq"])


def test_proof_contains_no_value_of_another_record() -> None:
    proof = inclusion_proof(DATA, RECORDS[0]["seq"])
    others = [
        line
        for record in RECORDS[1:]
        for line in record["lines"][1:]
        if len(line) > 12 and line not in RECORDS[0]["lines"]
    ]

    assert len(others) > 20
    assert not [line for line in others if json.dumps(line, ensure_ascii=False).encode() in proof]


def test_unauthenticated_head_proves_nothing_yet() -> None:
    for proof, check in (
        (inclusion_proof(DATA, 7), check_inclusion),
        (consistency_proof(DATA, HEADS[1]), check_consistency),
    ):
        assert check(proof).slug == "unanchored"
        assert check(proof, key=OTHER).slug == "wrong-key"
        assert check(proof, anchor=b"").slug == "unanchored"


@pytest.mark.parametrize("seq", [1, 90, 180])
def test_changed_proof_of_inclusion_is_refused(seq: int) -> None:
    proof = inclusion_proof(DATA, seq)
    for at in range(0, len(proof) - 1, 3):
        changed = proof[:at] + bytes([proof[at] ^ 1 << at % 7]) + proof[at + 1 :]

        assert check_inclusion(changed, key=KEY).exit_code in (1, 2), (at, changed[at - 20 : at + 20])
        report = check_inclusion(changed, anchor=ANCHOR)
        assert report.exit_code != 0 or is_of_a_mac(proof, at), (at, proof[at - 20 : at + 20])


def is_of_a_mac(proof: bytes, at: int) -> bool:
    """Whether a byte is in a MAC of the record, which cannot be checked without the key and is not covered by the leaf."""
    record = json.loads(proof)["record"]
    begin = proof.index(record["seal"].encode())
    return begin + 4 * 74 // 3 - 4 <= at <= begin + 4 * 106 // 3 + 4


def test_proof_of_the_wrong_size_is_refused() -> None:
    proof: Any = json.loads(inclusion_proof(DATA, 90))
    for path in (proof["path"][:-1], [*proof["path"], "00" * 32], [], proof["path"][::-1]):
        assert check_inclusion(canonical({**proof, "path": path}), key=KEY).exit_code == 1
    for index in (proof["index"] + 1, proof["index"] - 1, 10**9, -1):
        assert check_inclusion(canonical({**proof, "index": index}), key=KEY).exit_code in (1, 2)
    proof = json.loads(consistency_proof(DATA, HEADS[1], HEADS[4]))
    for path in (proof["path"][:-1], [*proof["path"], "00" * 32], []):
        assert check_consistency(canonical({**proof, "path": path}), key=KEY).exit_code == 1


def test_record_under_another_head_is_refused() -> None:
    first, last = (json.loads(inclusion_proof(DATA, seq)) for seq in (1, 180))

    assert check_inclusion(canonical({**first, "head": last["head"]}), key=KEY).slug == "altered"
    assert check_inclusion(canonical({**first, "record": last["record"]}), key=KEY).slug == "altered"


def test_newer_head_is_shown_to_extend_every_older_one() -> None:
    for number, old in enumerate(HEADS):
        for new in HEADS[number:]:
            proof = consistency_proof(DATA, old, new)
            assert check_consistency(proof, key=KEY).slug == check_consistency(proof, anchor=ANCHOR).slug == "sound"
            assert len(proof) < 1_800
            if old != new:
                turned = {**json.loads(proof), "old": new, "new": old}
                assert check_consistency(canonical(turned), key=KEY).exit_code == 1


def test_changed_proof_of_consistency_is_refused() -> None:
    proof = consistency_proof(DATA, HEADS[2])
    for at in range(len(proof) - 1):
        changed = proof[:at] + bytes([proof[at] ^ 1 << at % 7]) + proof[at + 1 :]
        assert check_consistency(changed, key=KEY).exit_code in (1, 2), (at, changed[at - 20 : at + 20])
        assert check_consistency(changed, anchor=ANCHOR).exit_code in (1, 2, 3)


def test_heads_of_two_histories_are_not_consistent() -> None:
    other = [json.loads(line)["head"] for line in heads_of(log(records=40))]
    proof = json.loads(consistency_proof(DATA, HEADS[4]))
    report = check_consistency(canonical({**proof, "old": other[-1]}), key=KEY)

    assert other[-1]["size"] == HEADS[4]["size"]
    assert report.slug == "forked"
    assert check_consistency(canonical(proof), anchor=canonical({"head": other[-1]})).exit_code == 1


def test_withheld_lines_are_not_in_the_proof() -> None:
    at = next(at for at, line in enumerate(LOG) if is_record(line) and len(json.loads(line)["lines"]) > 2)
    lines = with_gone(LOG, at, [1])
    report = check_inclusion(inclusion_proof(b"".join(lines), json.loads(LOG[at])["seq"]), key=KEY)

    assert (report.slug, report.exit_code) == ("withheld", 3)
    assert report.proved_records == 1


def test_proofs_can_be_taken_from_a_log_that_starts_after_a_prune() -> None:
    lines = pruned()
    data, heads = b"".join(lines), [json.loads(line)["head"] for line in heads_of(lines)]
    for line in lines:
        if is_record(line):
            assert check_inclusion(inclusion_proof(data, json.loads(line)["seq"]), key=KEY).slug == "sound"
    for number, old in enumerate(heads):
        for new in heads[number:]:
            assert check_consistency(consistency_proof(data, old, new), key=KEY).slug == "sound"
    with pytest.raises(InputError):
        inclusion_proof(data, 1)


def test_unprovable_statement_is_refused() -> None:
    for seq in (0, -1, 215, 10**9):
        with pytest.raises(InputError):
            inclusion_proof(DATA, seq)
    headless = b"".join(line for line in LOG if not line.startswith(b'{"head"'))
    with pytest.raises(InputError):
        inclusion_proof(headless, 1)
    with pytest.raises(InputError):
        consistency_proof(headless, HEADS[0])
    with pytest.raises(InputError):
        consistency_proof(b"".join(LOG[:40]), HEADS[0], HEADS[-1])
    with pytest.raises(InputError, match="head"):
        consistency_proof(DATA, {"size": 1})


def test_newer_or_other_kind_of_proof_is_refused(tmp_path: Any) -> None:
    proof = inclusion_proof(DATA, 7)

    assert check_inclusion(proof.replace(b"inclusion/1", b"inclusion/2"), key=KEY).slug == "newer-form"
    assert check_consistency(proof, key=KEY).slug == "unreadable"
    assert check_inclusion(consistency_proof(DATA, HEADS[0]), key=KEY).slug == "unreadable"


def test_script_also_verifies_proofs(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name, proof in (("a", inclusion_proof(DATA, 7)), ("b", consistency_proof(DATA, HEADS[0]))):
        (tmp_path / name).write_bytes(proof)
    (tmp_path / "anchor").write_bytes(ANCHOR)

    assert offline.main([str(tmp_path / "a"), "--anchor", str(tmp_path / "anchor")]) == 0
    assert "number 3 of 8" in capsys.readouterr().out
    assert offline.main([str(tmp_path / "b"), "--anchor", str(tmp_path / "anchor")]) == 0
    assert offline.main([str(tmp_path / "b")]) == 3


def test_head_of_another_time_covers_the_same_records() -> None:
    proof = inclusion_proof(DATA, 7)
    head = json.loads(proof)["head"]

    other = canonical({"head": {**head, "at": 1}})
    assert check_inclusion(proof, key=KEY, anchor=other).slug == "sound"
    assert check_inclusion(proof, anchor=other).slug == "unanchored", "its time may be a lie"
    assert check_inclusion(proof, anchor=canonical({"head": {**head, "root": "00" * 32}})).slug == "forked"
    assert check_inclusion(proof, key=OTHER, older=[KEY]).slug == "sound"
