"""Run the Python blocks of README.md and docs/ as tests; docs/README.md explains the format to writers.

Settings of the test suite itself are in tests/conftest.py.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import CodeBlockParser, SkipParser

if TYPE_CHECKING:
    from sybil import Example

SHOWN = re.compile(r"^[ \t]*#> ?(.*)$", re.MULTILINE)
WRONG = re.compile(r"^# wrong(?:: ([a-z-]+))?\s*$", re.MULTILINE)
execute = PythonEvaluator()

# Under pytest states are compared by default. Tests, and programs of the documentation, run like users' programs.
os.environ.setdefault("GRAPHRT_CHECK_STATE", "0")


def evaluate(example: Example) -> None:
    """Run one block; see docs/README.md for `#>` lines and `# wrong` blocks."""
    source = str(example.parsed)
    printed = io.StringIO()
    wrong = WRONG.match(source)
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as environment:
        # Like in a user's program: the pytest plugin forbids real requests, and then litellm's tables are not read
        # either.
        environment.setenv("GRAPHRT_ALLOW_MODEL_REQUESTS", "1")
        if wrong:
            expect_error(example, wrong[1] or heading_above(example))
        else:
            execute(example)
    shown = SHOWN.findall(source)
    if shown and shown != printed.getvalue().splitlines():
        raise AssertionError(f"the block shows {shown} and prints {printed.getvalue().splitlines()}")


def expect_error(example: Example, code: str) -> None:
    """Run a block that should fail, and check that it fails with *code*."""
    from graphrt.errors import GraphrtError

    try:
        execute(example)
    except GraphrtError as error:
        codes = {error.code, *(problem.code for problem in getattr(error, "problems", ()))}
        if code not in codes:
            raise AssertionError(f"expected {code!r}, got {sorted(codes)}") from error
    else:
        raise AssertionError(f"expected {code!r}, and nothing was raised")
    finally:
        example.namespace.pop("__builtins__", None)


def heading_above(example: Example) -> str:
    """The last `## heading` before the block: in docs/errors.md, the code of its section."""
    headings = re.findall(r"^## (\S+)\s*$", example.document.text[: example.start], re.MULTILINE)
    return headings[-1] if headings else ""


def enter(namespace: dict[str, Any]) -> None:
    """Give a document a scratch directory, and the module name of a script."""
    scratch = tempfile.TemporaryDirectory(prefix="docs-")
    namespace.update(__name__="__main__", _scratch=scratch, _home=os.getcwd())  # noqa: PTH109 - chdir's twin
    namespace["_loggers"] = [(logger, logger.level, logger.propagate, logger.handlers[:]) for logger in own_loggers()]
    os.chdir(scratch.name)


def leave(namespace: dict[str, Any]) -> None:
    """Leave the scratch directory and remove it."""
    os.chdir(namespace["_home"])
    namespace["_scratch"].cleanup()
    before = {logger: rest for logger, *rest in namespace["_loggers"]}
    for logger in own_loggers():  # a page that configures logging must not affect later tests
        level, propagate, handlers = before.get(logger, (logging.NOTSET, True, []))
        logger.setLevel(level)
        logger.propagate, logger.handlers[:] = propagate, handlers


def own_loggers() -> list[logging.Logger]:
    """The existing loggers of graphrt's tree."""
    made = logging.root.manager.loggerDict
    return [one for name, one in list(made.items()) if isinstance(one, logging.Logger) and name.startswith("graphrt")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Two processes more than processors, at most 6: some of them run tests that wait (tests/scheduling.py).

    On two processors, three left a tenth of the processor time unused, and four use 97 % of it. Each imports all tests:
    more processes would cost more than they gain. PYTEST_XDIST_AUTO_NUM_WORKERS names another number.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist reads it
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors + 2, 6)


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="python", evaluator=evaluate), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    setup=enter,
    teardown=leave,
).pytest()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give pytest-xdist whole files: the blocks of a document share names, and the tests of a file fixtures."""
    from tests.scheduling import FileByFile

    config.option.loadscopereorder = False  # otherwise the files with the most tests would start
    return FileByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the blocks of a document in order, regardless of pytest-randomly, and start with slow tests.

    Otherwise the last process of pytest-xdist would run one of them while the others are idle.
    """
    blocks = [item for item in items if isinstance(item, SybilItem)]
    blocks.sort(key=lambda item: (str(item.path), item.example.line))
    rest = [item for item in items if not isinstance(item, SybilItem)]
    rest.sort(key=lambda item: item.get_closest_marker("slow") is None)
    items[:] = rest + blocks
