"""`AuditLogger(log_dir, hmac_secret)`: promises of Lár's documents about its log that its code breaks, each kept here.

The docstrings quote the promises; their numbers are those of the other promises.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from graphrt.audit import generate_key, reexecute, report, restore, verify
from graphrt.compat.lar import AddValueNode, AuditLogger, GraphExecutor, ToolNode, WeakSecretWarning
from graphrt.errors import InputError
from graphrt.stores import MemoryStore

from .support import asking, broken, model, three_steps

SECRET = generate_key().hex()


def logged(folder: Path, start: Any, state: dict[str, Any], **options: Any) -> tuple[Path, GraphExecutor]:
    """The audit log of a run."""
    executor = GraphExecutor(log_dir=folder, hmac_secret=SECRET, models={"m": model()}, **options)
    executor.run(start, state)
    assert executor.result is not None
    assert executor.logger.audit is not None
    path = executor.logger.audit.path(executor.result.run_id)
    assert path is not None
    return path, executor


def test_d01_and_d05_fifteen_steps_with_100_kilobytes_of_state_are_little_more_than_the_changes(
    tmp_path: Path,
) -> None:
    """ "does not log the entire state at every step"; "small, efficient JSON object" (Lár: 3.25 MB)"""
    node: Any = None
    changed = 100_000
    for number in range(15):
        node = AddValueNode(f"key{number}", f"{number}" * 4_000, node)
        changed += 4_000 * len(str(number))
    path, _ = logged(tmp_path, node, {"document": "".join(chr(97 + at % 26) for at in range(100_000))})

    assert path.stat().st_size < 1.3 * changed + 10_000


def test_d02_logged_entries_cannot_be_changed_without_the_secret(tmp_path: Path) -> None:
    """ "Immutability: every step is a discrete event" """
    path, _ = logged(tmp_path, three_steps(), {"a": 0})
    data = path.read_bytes()
    records = [line for line in data.splitlines(keepends=True) if b'"seal"' in line]

    assert verify(data, key=SECRET.encode()).slug == "unanchored"
    assert verify(data.replace(b"[1,2]", b"[1,3]"), key=SECRET.encode()).slug == "altered"
    assert verify(data.replace(records[1], b""), key=SECRET.encode()).exit_code == 1
    assert verify(data, key=b"x" * 64).slug == "wrong-key"


def test_d03_every_step_names_its_node_run_time_and_cause(tmp_path: Path) -> None:
    """ "Causality: the exact state change that caused the new reality" """
    path, executor = logged(tmp_path, three_steps(), {"a": 0}, user_id="customer-123")
    rows = json.loads(report(path, "json", key=SECRET.encode()))["rows"]
    assert executor.result is not None

    tasks = [row for row in rows if row["kind"] == "task"]
    assert len({row["node"] for row in tasks}) == 3
    assert all(row["at"] and row["run"] and row["task"] for row in tasks)
    assert rows[0]["user"] == "customer-123"


def test_d04_replaying_the_log_gives_the_same_outcome(tmp_path: Path) -> None:
    """ "Reproducibility: replaying these events with the same seed guarantees the same outcome" """
    start = asking("Say {a}.", "said", AddValueNode("b", 2))
    path, executor = logged(tmp_path, start, {"a": 0})
    found = reexecute(path, executor.to_graph(start), key=SECRET.encode())
    other = reexecute(path, executor.to_graph(asking("Shout {a}.", "said", AddValueNode("b", 2))), key=SECRET.encode())

    assert found.same, found.sentence
    assert not other.same
    assert other.unanswered[0].kind == "model"
    with MemoryStore() as store:
        assert (
            restore(path, store, key=SECRET.encode()).proved_records == 3
        )  # the beginning, the model's node, and the last node with the end


@pytest.mark.slow
def test_d10_and_d11_killed_run_leaves_every_visible_step(tmp_path: Path) -> None:
    """ "GxP-compliant JSON persistence"; "perfect record when your agent fails" """
    script = tmp_path / "drive.py"
    script.write_text(
        textwrap.dedent(
            f"""
            from tests.compat.lar.support import three_steps
            from graphrt.compat.lar import GraphExecutor
            executor = GraphExecutor(log_dir={str(tmp_path / "logs")!r}, hmac_secret={SECRET!r})
            for record in executor.run_step_by_step(three_steps(), {{"odd": 1}}):
                print(record["step"], flush=True)
            """
        )
    )
    root = str(Path(__file__).parents[3])
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    [path] = [one for one in (tmp_path / "logs").glob("*.jsonl") if not one.name.startswith("run_")]
    rows = json.loads(report(path, "json", key=SECRET.encode()))["rows"]

    assert verify(path, key=SECRET.encode()).exit_code in (0, 3)
    assert sum(row["kind"] == "task" for row in rows) >= 2


def test_d11_inner_failure_is_in_the_log(tmp_path: Path) -> None:
    """ "perfect record when your agent fails" """
    path, _ = logged(tmp_path, AddValueNode("a", 1, ToolNode(broken, [], "x", None)), {})
    rows = json.loads(report(path, "json", key=SECRET.encode()))["rows"]

    assert [row["text"] for row in rows if row["kind"] in ("failure", "failed")]
    assert "no route to host" in json.dumps(rows)


def test_d12_log_is_cryptographic_and_has_a_verifier(tmp_path: Path) -> None:
    """ "writes to the cryptographic AuditLogger" """
    path, executor = logged(tmp_path, three_steps(), {})
    [run] = tmp_path.glob("run_*.jsonl")

    assert json.loads(run.read_text().splitlines()[0])["signed"] is True
    assert verify(path, key=SECRET.encode()).authenticated_seq == verify(path, key=SECRET.encode()).proved_seq > 0
    assert SECRET not in run.read_text() + path.read_text() + repr(executor.logger) + repr(executor.logger.audit)


def test_d13_secret_next_to_a_logger_is_used_and_unusual_values_are_logged(tmp_path: Path) -> None:
    """ "hmac_secret: Automatically hashes the final audit log if provided" (Lár: ignored, and a set loses the file)"""
    executor = GraphExecutor(logger=AuditLogger(tmp_path), hmac_secret=SECRET)
    outcome = executor.run(three_steps(), {"odd": {1, 2}})
    assert executor.logger.audit is not None
    path = executor.logger.audit.path(outcome.run_id)
    assert path is not None

    assert outcome.outcome == "success"
    assert verify(path, key=SECRET.encode()).authenticated_seq > 0


def signature(document: dict[str, Any], secret: str) -> str:
    """The signature, as Lár's documents verify it."""
    clean = {key: value for key, value in document.items() if key != "signature"}
    payload = json.dumps(clean, sort_keys=True, separators=(",", ":"))
    return hmac.new(secret.encode(), payload.encode(), hashlib.sha256).hexdigest()


def test_secret_alone_writes_a_signed_log_to_the_default_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "hmac_secret: automatically hashes the final audit log if provided"; "inside the audit log root dict" """
    monkeypatch.chdir(tmp_path)
    executor = GraphExecutor(hmac_secret=SECRET, user_id="customer-123")
    outcome = executor.run(three_steps(), {"odd": [1.5, "é", {"a": None}]})

    folder = tmp_path / "lar_logs"
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    document = json.loads(newest.read_bytes())
    assert newest.name == f"run_{outcome.run_id}.json"
    assert document["signature"] == signature(document, SECRET)
    assert (document["run_id"], document["user_id"]) == (outcome.run_id, "customer-123")
    assert [step["state_after"]["a"] for step in document["steps"]] == [1, 1, 2]
    assert document["summary"]["total_steps"] == 3
    assert verify(folder / f"{outcome.run_id}.jsonl", key=SECRET.encode()).authenticated_seq > 0


@pytest.mark.parametrize(
    ("secret", "document", "written"),
    [(SECRET, False, 0), (None, True, 1), (None, None, 0)],
    ids=["secret-only", "asked-for", "neither"],
)
def test_document_is_written_on_request(
    tmp_path: Path, secret: str | None, document: bool | None, written: int
) -> None:
    GraphExecutor(tmp_path, hmac_secret=secret, document=document).run(three_steps(), {})

    files = list(tmp_path.glob("run_*.json"))
    assert len(files) == written
    assert all("signature" not in json.loads(file.read_bytes()) for file in files)


def test_logger_can_be_used_alone(tmp_path: Path) -> None:
    logger = AuditLogger(tmp_path, SECRET)
    logger.log_step({"step": 0, "node": "Own", "outcome": "success"})
    logger.log_step({"step": 1, "node": "Own", "outcome": "success", "state_diff": {"added": {"a": 1}}})

    document = json.loads(logger.save_to_file("r", summary={"total_steps": 2}).read_bytes())
    assert document["steps"][1]["state_after"] == {"a": 1}
    assert document["signature"] == signature(document, SECRET)
    assert [record["node"] for record in logger.history] == ["Own", "Own"]
    logger.clear_history()
    assert logger.get_history() == []


def test_guessable_secret_is_accepted_with_a_warning_and_reported_by_the_verifier(tmp_path: Path) -> None:
    with pytest.warns(WeakSecretWarning, match="too short"):
        executor = GraphExecutor(log_dir=tmp_path, hmac_secret="super-secret")
    outcome = executor.run(three_steps(), {})
    assert executor.logger.audit is not None
    path = executor.logger.audit.path(outcome.run_id)
    assert path is not None

    assert verify(path, key=b"super-secret").slug == "weak-key"
    with pytest.raises(InputError, match="empty"):
        AuditLogger(tmp_path, "")
