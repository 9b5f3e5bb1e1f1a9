"""Ed25519 signatures of heads: created and verified outside the verifier, which reports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.audit.support import KEY, talk

from graphrt.audit import AuditLog, TreeHead, heads_in, verify
from graphrt.audit.signing import SignatureCheck, generate_signing_key, public_key, sign
from graphrt.errors import InputError

pytest.importorskip("cryptography")
PRIVATE = bytes(range(32))


@pytest.fixture
def log(tmp_path: Path) -> tuple[Path, Path]:
    """A log, and a file of its heads, each of which was signed before it was stored."""
    anchor = tmp_path / "heads"

    def keep(head: TreeHead) -> None:
        with anchor.open("a") as file:
            file.write(
                json.dumps({"head": sign(head, PRIVATE).to_dict()}, sort_keys=True, separators=(",", ":")) + "\n"
            )

    talk(2).run({"notes": []}, audit=AuditLog(tmp_path / "logs", key=KEY, anchor=keep))
    [path] = (tmp_path / "logs").iterdir()
    return path, anchor


def told(report: Any) -> str:
    return " ".join(one.message for one in report.findings)


def test_signature_is_reported_and_can_be_verified_with_the_public_key(log: tuple[Path, Path]) -> None:
    path, anchor = log
    unchecked = verify(path, key=KEY, anchor=anchor)
    checked = verify(path, key=KEY, anchor=anchor, check_signature=SignatureCheck([public_key(PRIVATE)]))
    other = verify(path, anchor=anchor, check_signature=SignatureCheck([public_key(generate_signing_key())]))

    assert unchecked.verdict == checked.verdict == "sound"
    assert "is there, and was not checked" in told(unchecked)
    assert "fits" in told(checked)
    assert "not trusted" in told(other)
    assert heads_in(anchor)[0].signer == public_key(PRIVATE)


def test_changed_signature_is_detected(log: tuple[Path, Path]) -> None:
    path, anchor = log
    head = json.loads(anchor.read_bytes())["head"]
    forged = TreeHead.from_dict({**head, "root": head["root"]})._replace(signature=bytes(64))
    line = json.dumps({"head": forged.to_dict()}, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    report = verify(path, key=KEY, anchor=line, check_signature=SignatureCheck([public_key(PRIVATE)]))

    assert report.slug == "altered"
    assert "signature" in told(report)


def test_invalid_key_is_refused() -> None:
    with pytest.raises(InputError, match="32 bytes"):
        public_key(b"short")
    with pytest.raises(InputError, match="32 bytes"):
        SignatureCheck(["text"])  # type: ignore[list-item]
