"""Data that a fork keeps for future tasks: effects, questions and answers of the same tasks in its source.

`fork(keep_effects=True)` creates a new thread from an earlier entry of another thread. The superstep that follows there
runs again in the fork. Its tasks get their records from the source, so that no model is called and no person is asked
twice. These events are staged under the task's id with `#kept`, which cannot collide with keys of effects, because
those end with a number.

Tasks at the top take them when the thread is restored (`restore`). A nested graph may not have begun by then: its
engine keeps them in `kept` until a superstep with these tasks opens (`take_kept`). For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve_all

KEPT: Final = "#kept"
"""Suffix of the key of the data kept for a task."""


def kept_in(staged: Mapping[str, Sequence[Logged]]) -> dict[str, Sequence[Logged]]:
    """Return the data kept for tasks of nested graphs: events by task id.

    A task id with a slash belongs to a nested graph: `3.0:sub/1.0:ask` is in the graph that the task `3.0:sub` runs.

    Args:
        staged: Staged events of the thread by key.
    """
    return {key.removesuffix(KEPT): logged for key, logged in staged.items() if key.endswith(KEPT) and "/" in key}


def take_kept(engine: Engine) -> None:
    """Apply the kept data to the tasks of the open superstep; called by the run loop after a superstep has opened.

    In the outermost graph `engine.kept` is empty, except in a second execution from a log. A task that runs a nested graph passes it on to that graph.
    """
    if not engine.kept:
        return
    for task in engine.tasks:
        logged = engine.kept.pop(task.id, None)  # removed, because a task uses it only once
        if logged is not None:
            # `journalled=False`: the fork's journal does not contain these questions, so they still have to be logged.
            evolve_all(engine, logged, journalled=False)
        if task.node.child is not None:
            task.more().kept = engine.kept  # the same dict, so that it is empty once everything was used
