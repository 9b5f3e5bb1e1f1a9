"""Facts about a file from the operating system: whether names in its folder changed, and its file system."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphrt.errors import StoreError
from graphrt.stores import SqliteStore
from graphrt.stores.sqlite import _files as files
from graphrt.stores.sqlite import _journal_modes as modes
from graphrt.stores.values import Commit


def test_missing_file_has_no_identity(tmp_path: Path) -> None:
    assert files.identity(str(tmp_path / "none")) is None


def quiet(folder: files.Folder) -> None:
    """Wait until *folder* has been unchanged for longer than the resolution of its timestamps."""
    while not folder.unchanged():
        folder.checked()


def renamed(file: Path) -> None:
    file.rename(f"{file}-away")


def remade(file: Path) -> None:
    """Like a program that restores a backup, and resets the time of the folder."""
    was = file.parent.stat()
    file.unlink()
    file.write_bytes(b"x")
    os.utime(file.parent, ns=(was.st_atime_ns, was.st_mtime_ns))


def moved(file: Path) -> None:
    """A different folder, which has not changed for long."""
    file.parent.rename(f"{file.parent}-away")
    file.parent.mkdir()


def gone(file: Path) -> None:
    file.parent.rename(f"{file.parent}-away")


@pytest.mark.parametrize("change", [renamed, remade, moved, gone, Path.unlink])
def test_folder_with_a_changed_name_is_detected(tmp_path: Path, change: Callable[[Path], object]) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_bytes(b"x")
    folder = files.Folder(str(file))
    quiet(folder)
    file.write_bytes(b"xy")
    assert folder.unchanged()
    change(file)

    assert not folder.unchanged()
    assert not folder.unchanged()


@pytest.mark.parametrize("coarse", [False, True])
def test_folder_that_has_just_changed_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coarse: bool
) -> None:
    """The timestamps of a file system in whole seconds may be late by two seconds, and those in ticks by milliseconds."""
    second = time.time_ns() // 10**9 * 10**9
    was_ns = second - 2 * 10**9 if coarse else second + 1
    monkeypatch.setattr(files, "time_ns", lambda: was_ns + (2_900_000_000 if coarse else 40_000_000))
    stat = SimpleNamespace(st_dev=1, st_ino=2, st_mtime_ns=was_ns, st_ctime_ns=was_ns)
    monkeypatch.setattr(files.os, "stat", lambda path: stat)
    folder = files.Folder(str(tmp_path / "file"))
    for _ in range(3):
        assert not folder.unchanged()
        folder.checked()


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_file_that_was_removed_from_a_quiet_folder_is_detected(tmp_path: Path, part: str) -> None:
    with SqliteStore(tmp_path / "runs.db") as store:
        claim = store.claim("t", create=True, lease_s=60, at=0.0)
        store.commit(claim, Commit(0, 0.0))
        quiet(store._file._folder)
        (tmp_path / f"runs.db{part}").rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(StoreError, match="removed or replaced"):
                store.release(claim)
            quiet(files.Folder(str(tmp_path / "away")))
        (tmp_path / "away").rename(tmp_path / f"runs.db{part}")
        store.release(claim)


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /mnt/team rw - nfs4 server:/export rw
31 30 0:26 / /mnt/team/local rw - xfs /dev/sdb1 rw
32 22 0:27 / /mnt/with\\040space rw - cifs //server/share rw
33 22 0:28 / /mnt/twice rw - ext4 /dev/sdc rw
34 33 0:29 / /mnt/twice rw - fuse.sshfs host: rw
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/runs.db", None),
        ("/mnt/team/runs.db", "nfs4"),
        ("/mnt/team/local/runs.db", None),
        ("/mnt/teammate/runs.db", None),
        ("/mnt/with space/runs.db", "cifs"),
        ("/mnt/twice/runs.db", "fuse.sshfs"),
    ],
)
def test_network_file_systems_are_known(path: str, kind: str | None, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    monkeypatch.setattr(modes, "_MOUNTS", str(tmp_path / "mounts"))

    assert modes.network_of(path) == kind


def test_mounts_are_unknown_on_other_systems(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(modes, "_MOUNTS", str(tmp_path / "none"))

    assert modes.network_of(str(Path.cwd())) is None
