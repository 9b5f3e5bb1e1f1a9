"""Python processes without the time of their first imports: a warmed-up one that forks for each command.

A forked process has what the warmed-up one imported, and is otherwise as new as `python -m module` or `python file`: it
has the given arguments, environment and working directory, and ends as an interpreter does. Only modules whose import is
not what a test is about may be imported before. The warmed-up one runs nothing itself and starts no worker thread.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import random
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


def serve(*modules: str) -> None:
    """Import *modules*, then read commands from standard input and fork for each; the exit codes go to standard output."""
    for name in modules:
        import_module(name)
    base = sys.path[1:]  # without the entry for `python -c`
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        assert threading.active_count() == 1, "a fork copies one thread only"
        pid = os.fork()
        if pid == 0:
            return become(json.loads(line), base)  # the interpreter ends after it, as after any program
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return None


def become(job: dict[str, Any], base: list[str]) -> None:
    """Be the process of *job*."""
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, job["out"], os.O_WRONLY),
        (2, job["err"], os.O_WRONLY),
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    random.seed()  # else all processes draw the same numbers
    what, *rest = job["arguments"]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if what == "-m":
        sys.path[:] = [job["cwd"], *paths, *base]
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[:] = [str(Path(what).parent), *paths, *base]
        sys.argv[:] = [what, *rest]
        runpy.run_path(what, run_name="__main__")


class WarmPython:
    """A warmed-up process, seen from the tests; it ends with them."""

    def __init__(self, *modules: str) -> None:
        root = Path(__file__).parents[2]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from tests.testing.warm_python import serve; serve(*sys.argv[1:])", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**env, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])},
            start_new_session=True,
        )  # fmt: skip
        atexit.register(self.close)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `python *arguments`, as `subprocess.run` does; *arguments* begin with `-m` or name a file."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            job = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "out": out.name, "err": err.name}
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], timeout_s)[0]:
                self.close()
                raise subprocess.TimeoutExpired(list(arguments), timeout_s)
            code = self._process.stdout.readline()
            assert code, "the warmed-up process died"
            said, errors = (file.read().decode(errors="replace") for file in (out, err))
        return subprocess.CompletedProcess(list(arguments), int(code), said, errors)

    def close(self) -> None:
        """End it, and what it runs."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads the group
        self._process.communicate()


@functools.cache
def warm_python(*modules: str) -> WarmPython:
    """The process of these tests that has imported *modules*; it is started when it is first asked for."""
    return WarmPython(*modules)
