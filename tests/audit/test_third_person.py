"""What a third party can verify with only a proof and a head, without the log, its values or graphrt."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.runbook.graph import Site
from examples.runbook.graph import graph as runbook
from examples.runbook.offline import offline
from tests.audit.support import KEY, talk

from graphrt import Runtime
from graphrt.audit import AuditLog, consistency_proof, heads_in, inclusion_proof
from graphrt.audit import offline as verifier

WEEK_S = 7 * 24 * 3_600.0


def checked(folder: Path, proof: bytes, anchor: Path) -> dict[str, Any]:
    """The output of `offline.py` for a proof, alone in an empty folder and without site packages."""
    folder.mkdir()
    shutil.copy(str(verifier.__file__), folder / "offline.py")
    (folder / "proof.json").write_bytes(proof)
    shutil.copy(anchor, folder / "heads")
    command = [sys.executable, "-I", "-S", "offline.py", "proof.json", "--anchor", "heads", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_one_record_of_the_runbook_is_verified_with_only_its_proof_and_a_head(tmp_path: Path) -> None:
    answer = {"choice": "approve", "by": "Ann", "role": "operator", "rationale": "it is the release"}
    audit = AuditLog(tmp_path / "logs", key=KEY, anchor=tmp_path / "heads")
    with Runtime(runbook, store="memory:", deps=Site(), models=offline(), audit=audit) as runtime:
        runtime.run({"alert": "checkout fails", "service": "checkout"}, thread="incident")
        runtime.resume("incident", answer=answer)
        asked = next(one.seq for one in runtime.entries("incident") if type(one.event).__name__ == "InterruptAnswered")
    log = tmp_path / "logs" / "incident.jsonl"
    proof = inclusion_proof(log, asked)
    told = checked(tmp_path / "third", proof, tmp_path / "heads")
    forged = checked(tmp_path / "forged", proof.replace(b"approve", b"decline"), tmp_path / "heads")

    assert told["slug"] == "sound", told
    assert "number" in told["sentence"]
    assert b"it is the release" in proof
    assert b"pool_size" not in proof  # it contains no other record
    assert len(proof) < 0.1 * log.stat().st_size
    assert forged["exit_code"] == 1


def test_two_heads_a_week_apart_are_consistent(tmp_path: Path) -> None:
    now = [1_750_000_000.0]
    audit = AuditLog(tmp_path / "logs", key=KEY, anchor=tmp_path / "heads")
    with Runtime(talk(3), store="memory:", audit=audit, clock=lambda: now[0]) as runtime:
        runtime.run({"notes": ["first"]}, thread="t")
        now[0] += WEEK_S
        for _ in range(4):
            runtime.run({"notes": ["later"]}, thread="t")
    heads = heads_in(tmp_path / "heads")
    assert heads[-1].at - heads[0].at == round(WEEK_S * 1e6)
    proof = consistency_proof(tmp_path / "logs" / "t.jsonl", heads[0].to_dict(), heads[-1].to_dict())
    told = checked(tmp_path / "third", proof, tmp_path / "heads")

    assert told["slug"] == "sound", told
    assert b"later" not in proof
