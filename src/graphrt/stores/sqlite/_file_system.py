"""What the operating system knows of a SQLite file: its identity, its file system, and whether it is open elsewhere.

Nothing is changed here, and no SQLite connection is used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import time_ns
from typing import Final, final

_MOUNTS: Final = "/proc/self/mountinfo"
_NETWORKS: Final = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "ocfs2",
        "virtiofs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
    | {"fuse.ceph", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs", "fuse.rclone", "fuse.s3fs"}
    | {"fuse.grpcfuse", "fuse.mount-s3", "fuse.sshfs"}
)
"""File systems that other machines can mount too; their processes share no memory with ours."""
_SETTLED_NS: Final = 50_000_000
"""More than a kernel's tick, by which file systems with fine timestamps tell the time: 10 ms at most."""
_SETTLED_COARSE_NS: Final = 3_000_000_000
"""The same where timestamps are whole seconds, of which FAT counts only the even ones."""
_SECOND_NS: Final = 1_000_000_000
_ESCAPES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def identity(path: str) -> tuple[int, int] | None:
    """What tells the file from another one that takes its place, None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every commit, and a Path costs more than the question
    except OSError:
        return None
    return found.st_dev, found.st_ino


@final
class Folder:
    """The folder of a file, watched for files that are made, removed or renamed in it."""

    def __init__(self, path: str) -> None:
        self._path = os.path.dirname(path)  # noqa: PTH120 - `os.stat` takes it as it is
        self._found: tuple[int, int, int, int] | None = None
        """How the folder stood when it was last asked; None if a change soon after might not be noticed."""
        self._checked: tuple[int, int, int, int] | None = None
        """How it stood before the files in it were last checked."""

    def unchanged(self) -> bool:
        """Whether no name in it has changed since `checked`; False also where nobody can tell.

        One `stat` before every commit takes the place of one for each file: three of them are a tenth of a commit.
        A folder that changed just now is not trusted, since a second change would leave the same time behind. Both times are compared: programs that restore a backup set the time of modification back, but not the
        other, which is the time of creation on Windows.
        """
        try:
            found = os.stat(self._path)  # noqa: PTH116 - as in `identity`
        except OSError:
            self._found = None
            return False
        now = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
        if now == self._checked:
            return True
        settled_ns = _SETTLED_NS if found.st_mtime_ns % _SECOND_NS else _SETTLED_COARSE_NS
        self._found = now if time_ns() - max(now[2:]) > settled_ns else None
        return False

    def checked(self) -> None:
        """Note that the files were found in order after the last call of `unchanged`."""
        self._checked = self._found


def network(path: str) -> str | None:
    """The kind of the network file system that *path* lies on; None if it lies on none, or nobody can tell."""
    try:
        mounts = Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return None
    found, best = "", -1
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = fields[4]
        for escape, meant in _ESCAPES:
            point = point.replace(escape, meant)
        if len(point) >= best and Path(path).is_relative_to(point):  # of two at one place the later one is seen
            found, best = after.split(" ", 1)[0], len(point)
    return found if found in _NETWORKS else None


def nobody_has(path: str) -> bool:
    """Whether no process has the file open; False where nobody can tell.

    Linux gives a lease for writing only to whoever is alone (`fcntl(2)`, F_SETLEASE). The file is opened and closed for
    that, which ends the locks that SQLite holds on it in this process: not to be asked of a file that this process has
    or had open.
    """
    if not sys.platform.startswith("linux"):
        return False
    import fcntl
    import signal

    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Whoever opens the file in between makes the kernel send a signal; the usual one would end this process.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:  # somebody has it; or it belongs to another user, or the file system gives no leases
        return False
    finally:
        os.close(handle)
    return True
