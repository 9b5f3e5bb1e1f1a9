"""A PostgreSQL server for the workloads that need one: from an environment variable, else a temporary one, else none.

It has its default settings: every commit waits for the disk.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

VARIABLE = "GRAPHRT_TEST_POSTGRES"


def url() -> str | None:
    """The address of a server; None if there is none on this machine."""
    return os.environ.get(VARIABLE) or _started()


def _tools() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


def _started() -> str | None:
    tools = _tools()
    if tools is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="bench-pg-"))
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = None if os.geteuid() else "postgres" if "postgres" in names else "nobody"  # it refuses to run as root
    if user:
        shutil.chown(folder, user)

    def tool(name: str, *arguments: str) -> None:
        with (folder / "said").open("ab") as said:
            command = [str(tools / name), "-D", str(folder / "data"), *arguments]
            subprocess.run(command, stdout=said, stderr=said, user=user, cwd=folder, check=True, timeout=120)

    def stop() -> None:
        subprocess.run([str(tools / "pg_ctl"), "-D", str(folder / "data"), "-m", "fast", "stop"], user=user,
                       cwd=folder, capture_output=True, check=False)  # fmt: skip
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # stops it then as well
    try:
        tool("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\n")
        tool("pg_ctl", "-w", "-l", str(folder / "log"), "start")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"postgresql://postgres@/postgres?host={folder}"
