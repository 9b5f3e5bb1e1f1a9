"""Facts about a SQLite file from the operating system: its identity, its folder, and its file system.

Nothing is changed here, and no SQLite connection is used.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import time_ns
from typing import Final, final

_MOUNTS: Final = "/proc/self/mountinfo"
"""Linux's table of mounted file systems, one line for each (proc(5))."""
_NETWORKS: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"}
    | {"smb3", "smbfs", "fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.mount-s3"}
    | {"fuse.rclone", "fuse.s3fs", "fuse.sshfs"}
    # Folders of the host in a virtual machine: bind mounts of containers on macOS and Windows, and Windows drives in WSL.
    | {
        "drvfs",
        "fakeowner",
        "fuse.grpcfuse",
        "fuse.osxfs",
        "fuse.vmhgfs-fuse",
        "prl_fs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    }
)
"""File systems that other machines can mount too. Processes there do not share the memory of a write-ahead log."""
_SETTLED_NS: Final = 50_000_000
"""Nanoseconds after which a second change surely gets another timestamp. Timestamps follow the kernel's tick, which is
10 ms at most."""
_SETTLED_COARSE_NS: Final = 3_000_000_000
"""The same for file systems with timestamps in whole seconds. FAT's have a resolution of 2 s."""
_SECOND_NS: Final = 1_000_000_000
_ESCAPES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
"""White space and backslashes of a mount point, which mountinfo writes as octal escapes. The backslash comes last."""


def identity(path: str) -> tuple[int, int] | None:
    """Return device and inode, by which a replaced file is recognised; None if there is no file.

    Stores call it when they open a file, and before commits: a commit to a file that was removed would be lost.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - called before every commit, and creating a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino


@final
class Folder:
    """The folder of a database, watched for files that are created, removed or renamed in it.

    Each of these changes the folder's timestamps. As long as they stay the same, so do the database, its `-wal` and its
    `-shm`. Before a commit, `Database` asks `unchanged`. If the answer is False, it checks the three files, and then
    calls `checked`.
    """

    def __init__(self, path: str) -> None:
        self._path = os.path.dirname(path)  # noqa: PTH120 - `os.stat` takes it as it is
        self._found: tuple[int, int, int, int] | None = None
        """Device, inode, mtime and ctime in ns at the last call of `unchanged`; None if they cannot be trusted yet."""
        self._checked: tuple[int, int, int, int] | None = None
        """`_found` as it was before the files were last checked: they are the same as long as the folder is."""

    def unchanged(self) -> bool:
        """Return whether no name in the folder has changed since `checked`; False also if that cannot be determined.

        One `stat` before every commit replaces one for each of three files, which took a tenth of a commit's time
        (decision 0063).
        """
        try:
            found = os.stat(self._path)  # noqa: PTH116 - as in `identity`
        except OSError:
            self._found = None
            return False
        # Both times: programs that restore a backup set mtime back, but not ctime (on Windows, the creation time).
        now = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        if now == self._checked:
            return True
        # A folder that changed just now is not trusted: a second change could leave the same timestamps behind.
        settled_ns = _SETTLED_NS if found.st_mtime_ns % _SECOND_NS else _SETTLED_COARSE_NS
        self._found = now if time_ns() - max(now[2:]) > settled_ns else None
        return False

    def checked(self) -> None:
        """Record that the files were checked, and found in order, after the last call of `unchanged`."""
        self._checked = self._found


def network(path: str) -> str | None:
    """Return the type of the network file system that holds *path*; None if it is local or cannot be determined.

    `_journal_modes` asks, because a write-ahead log does not work on such file systems.
    """
    try:
        mounts = Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return None
    found, best = "", -1
    for line in mounts:
        # Fields before " - ": id, parent, device, root, mount point, and more. After it: type, source, options.
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = fields[4]
        for escape, meant in _ESCAPES:
            point = point.replace(escape, meant)
        # The longest mount point counts; of two mounts at one point, the later one hides the earlier one.
        if len(point) >= best and Path(path).is_relative_to(point):
            found, best = after.split(" ", 1)[0], len(point)
    return found if found in _NETWORKS else None
