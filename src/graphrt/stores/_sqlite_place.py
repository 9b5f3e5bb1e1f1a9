"""What the operating system knows of a SQLite file: its identity, its file system, and whether it is open elsewhere.

Nothing is changed here, and no SQLite connection is used.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

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
_ESCAPES: Final = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


def identity(path: str) -> tuple[int, int] | None:
    """What tells the file from another one that takes its place, None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every commit, and a Path costs more than the question
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
