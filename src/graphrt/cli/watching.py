"""Output of the `worker` command while it works: log lines for people, and a file with its health for probes."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphrt._overwriting import check_overwritable
from graphrt.errors._codes.stores import CANNOT_WRITE_FILE

if TYPE_CHECKING:
    from graphrt.workers import WorkerHealth

HEALTH_EVERY_S: Final = 2.0
"""Seconds between two reports in the health file."""
_BEGINS: Final = rb'\{"ok": (true|false), "written_at": '
"""The beginning of every report."""

log: Final = logging.getLogger("graphrt.workers")


@contextmanager
def logged() -> Generator[None]:
    """Write the log `graphrt` to standard error, with time and level, unless the target's module configured logging."""
    logger = logging.getLogger("graphrt")
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    if before == logging.NOTSET:
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def health_file(path: str | None, health: Callable[[], WorkerHealth]) -> Generator[None]:
    """Write a worker's health to a file every few seconds, and once more at the end.

    Args:
        path: The file; None writes nothing.
        health: Returns the content to write.

    Raises:
        InputError: The file cannot be written now, or there is a file that is not such a report (`path-exists`). A
            later failure to write is logged, and the next report tries again.
    """
    if path is None:
        yield
        return
    try:
        check_overwritable(path, kind="the health of a worker", begins=_BEGINS)
        _write(path, health())
    except OSError as error:
        raise CANNOT_WRITE_FILE(file=path, reason=error.strerror or str(error)) from error
    ended = threading.Event()

    def work() -> None:
        failed = False
        while not ended.wait(HEALTH_EVERY_S):
            failed = _tried(path, health(), failed_before=failed)

    writer = threading.Thread(target=work, name="graphrt-health", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        _tried(path, health(), failed_before=False)


def _tried(path: str, report: WorkerHealth, *, failed_before: bool) -> bool:
    """Write the report; return whether that failed. Of consecutive failures, only the first is logged."""
    try:
        _write(path, report)
    except OSError as error:
        if not failed_before:
            log.warning("The health file %s cannot be written: %s", path, error.strerror or error)
        return True
    return False


def _write(path: str, report: WorkerHealth) -> None:
    """Replace the file atomically, so that a probe never reads half of it."""
    new = Path(f"{path}.{os.getpid()}.new")
    document = {"ok": report.ok, "written_at": time.time(), **asdict(report)}
    try:
        new.write_text(f"{json.dumps(document)}\n", encoding="utf-8")
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
