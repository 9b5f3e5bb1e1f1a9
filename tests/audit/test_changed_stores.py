"""Every change of rows of a store with a keyed log, by an attacker who can write to the store and has no key.

The rows of the attack on 2a786d5 that demonstrated undetected changes, each with the changes that test it. With a
key, a file of the log, or an anchor, every one is found by the runtime, or by the verifier in what is exported, or it
has no effect: all that is read is what was written.

| Row of the attack | What finds it |
|---|---|
| bits and values in records, seals, snapshots, staged bodies, the meta; numbers and counts | the runtime |
| the result of an effect, a staged row that is removed | the runtime; without effect where the task's own row has it |
| the last record removed, records exchanged, threads or names exchanged, the chain switched off | the runtime |
| the tail cut, and the head set back | the file beside the store stops a run, and an anchor shows it in an export |
| graph and times in the head | `verify` of the store |
| the epoch in the head; fingerprint and topology in the meta | no log has them, and no value is computed from them |
| a row that names a function or a module | the runtime: nothing is imported |

`tests/threads/test_forged_rows.py` lists which reader detects which change without a key. Bits of large values are in
`test_tampering.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.audit.support import KEY
from tests.threads.forging import execute, replace_in_body
from tests.threads.test_forged_rows import CHANGES, GRAPH, MID, READERS

from graphrt import Runtime
from graphrt.audit import AuditLog, export, verify
from graphrt.errors import GraphrtError
from graphrt.stores import SqliteStore

MORE = {
    "a row that names a function": lambda path: replace_in_body(
        path, "record", MID, b'"l', b'{"$t":"os:system","v":"l"} "'
    ),
    "a record of a thread without a chain": lambda path: execute(path, f"UPDATE record SET seal = x'' WHERE {MID}"),
}
ALL = CHANGES | MORE
WITHOUT_EFFECT = {
    "the fingerprint in the meta",
    "the topology in the meta",
    "the result of an effect, and what binds it made again",
    "an effect's row is removed",
    "the newest snapshot is removed",
    "the epoch in the head",
}
"""No reader detects these, and all read values equal the written ones."""
assert set(ALL) >= WITHOUT_EFFECT, WITHOUT_EFFECT - set(ALL)


def runtime_on(folder: Path) -> Any:
    audit = AuditLog(folder / "logs", key=KEY, anchor=folder / "heads")
    clocked: Any = {"clock": lambda: 1_700_000_000.0, "ids": lambda: "run"}
    return Runtime(GRAPH, store=f"sqlite:///{folder}/runs.db", audit=audit, **clocked)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, the files of its logs, and their anchors."""
    folder = tmp_path_factory.mktemp("changed")
    with runtime_on(folder) as runtime:
        assert runtime.run({"log": []}, thread="t").status == "interrupted"
        assert runtime.run({"log": ["other"]}, thread="u").status == "interrupted"
        runtime.copy_thread("t", "c")
    return folder


@pytest.fixture(scope="module")
def good(pristine: Path) -> dict[str, Any]:
    """The result of reading the unchanged store."""
    return read(pristine)


def exported(folder: Path) -> str:
    with SqliteStore(folder / "runs.db") as store:
        export(store, "t", folder / "out", key=KEY)
    return verify(folder / "out", key=KEY, anchor=folder / "heads").slug


def read(folder: Path) -> dict[str, Any]:
    """The results of each verb of a runtime with the key, and the verdict on the exported log; or the code of the
    error.
    """
    found: dict[str, Any] = {}
    for name in (*READERS, "export"):
        with tempfile.TemporaryDirectory() as place:
            copy = Path(shutil.copytree(folder, Path(place) / "copy"))
            try:
                if name == "export":
                    found[name] = exported(copy)
                else:
                    with runtime_on(copy) as runtime:
                        found[name] = READERS[name](runtime)
            except GraphrtError as error:
                found[name] = f"error: {error.code}"
    return found


def test_unchanged_store_has_no_findings(good: dict[str, Any]) -> None:
    assert good["export"] == "sound"
    assert not [one for one in good.values() if str(one).startswith("error:")]


@pytest.mark.slow
@pytest.mark.parametrize("change", ALL)
def test_change_is_detected_or_has_no_effect(pristine: Path, good: dict[str, Any], tmp_path: Path, change: str) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "changed"))
    ALL[change](folder / "runs.db")
    found = read(folder)

    detected = [name for name, one in found.items() if str(one).startswith("error:")]
    if verdict := found["export"] if found["export"] not in ("sound", "unanchored") else "":
        detected.append(verdict)
    if change in WITHOUT_EFFECT:
        assert found == good
    else:
        assert detected, found
