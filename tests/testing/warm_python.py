"""Python processes without the time of their first imports: a warmed-up one that forks for each command.

A forked process has the imports of the warmed-up one, and is otherwise like a new `python -m module`, `python -c code`
or `python file`: it has the given arguments, environment, working directory and streams, and exits like an interpreter.
Modules whose import is tested, and the seed of hashes, need a new interpreter. The warmed-up one runs nothing itself and
starts no worker thread. Each process of pytest has one for each list of modules; it reaps what it forks.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

USUAL: Final = (
    *("pytest", "_pytest.assertion.rewrite", "unittest", "xml.etree.ElementTree", "pdb", "asyncio", "sqlite3"),
    *("pydantic.root_model", "graphrt.graph", "graphrt.harness", "graphrt.runtime", "graphrt.testing"),
    *("graphrt.testing.route_coverage.collecting", "graphrt.stores.sqlite", "graphrt._codec.codec"),
    *("graphrt._runs.run_to_end", "graphrt._drivers.sync", "graphrt._drivers.aio"),
)
"""What most programs of tests import. No module compiles a graph: the observers of graphs start with the first one."""


def serve(number: int, *modules: str) -> None:
    """Import *modules*, then fork for each job that comes through the socket *number*, until it is closed."""
    for name in modules:
        with suppress(ImportError):  # of an extra that is not installed; a program that needs it says so itself
            import_module(name)
    base = sys.path[1:]  # without the entry for `python -c`
    ended, wake = socket.socketpair()
    for end in (ended, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()
    running: dict[int, socket.socket] = {}
    with socket.socket(fileno=number) as jobs:
        while True:
            ready, _, _ = select.select([jobs, ended], [], [])
            if ended in ready:
                ended.recv(4096)
                _report_ended(running)
            if jobs not in ready:
                continue
            _, given, _, _ = socket.recv_fds(jobs, 1, 4)
            if not given:
                return None
            assert threading.active_count() == 1, "a fork copies one thread only"
            job = socket.socket(fileno=given[0])
            pid = os.fork()
            if pid == 0:
                for other in (jobs, ended, wake, *running.values()):
                    other.close()
                return become(job, given[1:], base)  # the interpreter exits afterwards, like after any program
            running[pid] = job
            job.sendall(f"{pid}\n".encode())
            for stream in given[1:]:
                os.close(stream)


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as job:
            try:
                job.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            except BrokenPipeError:
                continue  # the test did not wait for it


def become(channel: socket.socket, streams: Sequence[int], base: Sequence[str]) -> None:
    """Become the process of the job that comes through *channel*, with *streams* as its standard streams."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with channel, channel.makefile() as file:
        job = json.loads(file.readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if job["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    # An interpreter reads this variable when it starts. With bytecode, a test that changes a file twice within a second
    # may run the older one, if both have the same size.
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    _open_streams()
    random.seed()  # otherwise all processes draw the same numbers
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    what, *rest = job["arguments"]
    if what == "-W":
        warnings.simplefilter(rest[0])
        what, *rest = rest[1:]
    if what == "-m":
        sys.path[:] = [job["cwd"], *paths, *base]
        sys.argv[:] = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.path[:] = ["", *paths, *base]
        sys.argv[:] = ["-c", *rest[1:]]
        main: dict[str, Any] = sys.modules["__main__"].__dict__
        exec(compile(rest[0], "<string>", "exec"), main)
    else:
        sys.path[:] = [str(Path(what).parent), *paths, *base]
        sys.argv[:] = [what, *rest]
        runpy.run_path(what, run_name="__main__")


def _open_streams() -> None:
    """Open the standard streams anew: how they are buffered and encoded depends on the job."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    buffered = not os.environ.get("PYTHONUNBUFFERED")
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        stream: Any = open(  # noqa: SIM115 - a descriptor, which stays open until the end
            number,
            mode,
            encoding=encoding or "utf-8",
            errors="backslashreplace" if name == "stderr" else errors or "strict",
            closefd=False,
        )
        if mode == "w":
            stream.reconfigure(line_buffering=name == "stderr" or stream.isatty(), write_through=not buffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class WarmProcess:
    """A forked process, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], channel: socket.socket, ours: Sequence[IO[str] | None]) -> None:
        self.args = list(arguments)
        self.stdin, self.stdout, self.stderr = ours
        self.returncode: int | None = None
        self._channel = channel
        self._reader = channel.makefile()
        line = self._reader.readline()
        assert line, "the warmed-up process died"
        self.pid = int(line)

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._channel], [], [], timeout)[0]:
            line = self._reader.readline()
            assert line, "the warmed-up process died"
            self.returncode = int(line)
            self._reader.close()
            self._channel.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write *input*, and read both outputs to their ends."""
        if self.stdin is not None and not self.stdin.closed:
            try:
                with self.stdin:
                    self.stdin.write(input)
            except BrokenPipeError:
                pass  # it has ended
        read = ["", ""]

        def drain(number: int, stream: IO[str]) -> None:
            with stream:
                read[number] = stream.read()

        readers = [
            threading.Thread(target=drain, args=(number, stream), daemon=True)
            for number, stream in enumerate((self.stdout, self.stderr))
            if stream is not None and not stream.closed
        ]
        for reader in readers:
            reader.start()
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        for reader in readers:
            reader.join(timeout)
        return read[0], read[1]


class WarmPython:
    """A warmed-up process, seen from the tests; it ends with them."""

    def __init__(self, *modules: str) -> None:
        root = Path(__file__).parents[2]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_"))}
        self._jobs, theirs = socket.socketpair()
        code = "import sys; from tests.testing.warm_python import serve; serve(int(sys.argv[1]), *sys.argv[2:])"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno()), *modules],
            stdin=subprocess.DEVNULL,
            env={**env, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self.close)

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        terminal: bool = False,
    ) -> WarmProcess:
        """Start `python *arguments`, like `subprocess.Popen` does; *arguments* begin with `-m` or `-c`, or name a file.

        Args:
            arguments: Before them there may be `-W` and an action for all warnings.
            cwd: The working directory; that of this process by default.
            env: The whole environment; that of this process by default.
            stdin: PIPE, DEVNULL, or a file, as for `subprocess`.
            stdout: As *stdin*.
            stderr: As *stdin*, or STDOUT.
            terminal: Whether its standard input becomes the terminal of a new session.
        """
        ours: list[IO[str] | None] = []
        theirs: list[int] = []
        for given, mode in ((stdin, "w"), (stdout, "r"), (stderr, "r")):
            if given == subprocess.PIPE:
                reads, writes = os.pipe()
                kept, passed = (writes, reads) if mode == "w" else (reads, writes)
                ours.append(os.fdopen(kept, mode, encoding="utf-8", errors="replace"))
                theirs.append(passed)
                continue
            ours.append(None)
            if given == subprocess.DEVNULL:
                theirs.append(os.open(os.devnull, os.O_RDWR))
            else:
                theirs.append(os.dup(theirs[1] if given == subprocess.STDOUT else _number(given)))
        channel, theirs_of_channel = socket.socketpair()
        with theirs_of_channel:
            socket.send_fds(self._jobs, [b"."], [theirs_of_channel.fileno(), *theirs])
        for number in theirs:
            os.close(number)
        job = {
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "terminal": terminal,
        }
        channel.sendall(json.dumps(job).encode() + b"\n")
        return WarmProcess(job["arguments"], channel, ours)

    def run(
        self, arguments: Sequence[str], *, cwd: Path | str | None = None, env: Mapping[str, str] | None = None,
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run `python *arguments`, like `subprocess.run` does; it may leave processes that hold its streams."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.start(arguments, cwd=cwd, env=env, stdout=out, stderr=err)
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.close()
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return subprocess.CompletedProcess(process.args, code, *texts)

    def close(self) -> None:
        """End it and its subprocesses."""
        self._jobs.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads the process group
        self._process.wait()


def _number(file: Any) -> int:
    return file if isinstance(file, int) else file.fileno()


@functools.cache
def _warm(*modules: str) -> WarmPython:
    return WarmPython(*modules)


def warm_python(*modules: str) -> WarmPython:
    """The process of these tests that has imported *modules*, or what is usual; it is started on first use."""
    return _warm(*(modules or USUAL))
