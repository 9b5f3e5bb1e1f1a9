"""A process that preloads the imports of pytest and the tests, and forks a run of pytest for each mutant.

Starting an interpreter and importing pytest, its plugins and graphrt takes seconds, and the few tests of one mutant
take milliseconds. The server imports modules of the standard library, of graphrt and of installed packages that the
first run had loaded, never modules of the project: those compile the graphs, which the mutant replaces.

It refuses to serve if a fork would not be equivalent to a new process: if an import started a worker thread, compiled a
graph, or loaded a module of the project. Then each mutant gets a new interpreter.

The server reads commands as lines of JSON from standard input. For each it writes the pid of the child, which leads a
separate process group, and at the child's end its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

import graphrt
from graphrt.graph import observe

CAN_FORK: Final = hasattr(os, "fork") and sys.platform != "darwin"
"""Whether this platform forks safely; system libraries of macOS may not survive a fork."""
_NEVER: Final = ("__main__", "graphrt.testing.mutate._plugin")
"""Modules that each run has to import itself."""
_READY: Final = "ready"


def preloadable() -> list[str]:
    """Return the modules of this process that a server may import, in import order."""
    return [name for name, module in list(sys.modules.items()) if name not in _NEVER and _is_foreign(module)]


def _is_foreign(module: Any) -> bool:
    """Return whether *module* belongs to an installed package, the standard library or graphrt, not to a project."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    return any(Path(file).is_relative_to(folder) for folder in _FOLDERS)


_FOLDERS: Final = tuple(
    dict.fromkeys(
        [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        + [Path(graphrt.__file__).parent, Path(graphrt.__file__).parent.parent / "pytest_graphrt"]
    )
)
"""Folders of modules that do not belong to the project."""


class _Graphs:
    """An observer that counts the graphs which imports compile."""

    count = 0

    def compiled(self, graph: Any, /) -> None:  # noqa: ARG002 - the signature of an observer
        """Count *graph*."""
        self.count += 1

    def routed(self, graph: Any, source: str, branch: int, value: Any, /) -> None:
        """Do nothing."""

    def sink(self, graph: Any, /) -> None:
        """Return no sink."""


def _preload(names: Iterable[str]) -> str:
    """Import the modules; return the reason why this process cannot be forked afterwards, or an empty text."""
    graphs = _Graphs()
    stop = observe(graphs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            with contextlib.suppress(Exception):  # a module that cannot be imported on its own is left to the runs
                import_module(name)
    stop()
    if threading.active_count() > 1:
        return "an import started a worker thread"
    if graphs.count:
        return "an import compiled a graph"
    strange = [
        name for name, module in sys.modules.items() if getattr(module, "__file__", None) and not _is_foreign(module)
    ]
    return f"{strange[0]} belongs to the project" if strange else ""


def serve() -> dict[str, Any] | None:
    """Serve until standard input ends; in the child of a fork, return its command at once."""
    refusal = _preload(json.loads(sys.stdin.readline()))
    _tell(refusal or _READY)
    if refusal:
        return None
    gc.collect()
    gc.freeze()  # so that garbage collection in the children does not touch and copy the pages of imported modules
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            _tell(os.getpid())
            return dict(json.loads(line))
        _tell(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return None


def _tell(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


def _become(command: Mapping[str, Any]) -> None:
    """Act as `python -m pytest` with the arguments, environment and output of *command*."""
    import runpy

    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, command["output"], os.O_WRONLY)):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.clear()
    os.environ.update(command["env"])
    sys.argv[:] = ["pytest", *command["arguments"]]
    # pytest warns about plugins imported before it could rewrite their assertions, which is intended here.
    from _pytest.assertion.rewrite import AssertionRewritingHook

    hook: Any = AssertionRewritingHook
    hook._warn_already_imported = _ignore
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


def _ignore(_hook: Any, _name: str) -> None:
    """Do not warn."""


@final
class ForkServer:
    """A server, as used by the process that tests mutants. It runs one mutant at a time.

    Args:
        modules: The modules to import, from `preloadable` of the first run.
        env: Its environment.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graphrt.testing.mutate.fork_server"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(env), text=True,
            start_new_session=True,
        )  # fmt: skip
        self.usable: bool = self._ask(list(modules)) == _READY
        """False if a fork would not be equivalent to a new process."""

    def start(self, arguments: Sequence[str], env: Mapping[str, str], output: Path) -> int:
        """Start pytest with *arguments*, and return the id of its process, which leads its group.

        Raises:
            OSError: The server has died.
        """
        answer = self._ask({"arguments": list(arguments), "env": dict(env), "output": str(output)})
        if not answer.isdigit():
            raise ChildProcessError("the fork server has died")
        return int(answer)

    def wait(self) -> int:
        """Wait for the end of the run; return its exit code, negative for a signal.

        Raises:
            OSError: The server has died.
        """
        answer = self._line()
        if not answer:
            raise ChildProcessError("the fork server has died")
        return int(answer)

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, command: Any) -> str:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        return self._process.stdout.readline().rstrip("\n")


if __name__ == "__main__":
    _command = serve()
    if _command is not None:
        _become(_command)
