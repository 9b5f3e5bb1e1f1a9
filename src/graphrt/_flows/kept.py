"""What a fork kept for tasks that are still to open: effects, questions and answers of the same tasks in its source.

`fork(keep_effects=True)` makes a new thread from an earlier entry of another one. The superstep that follows there runs
again in the fork. Its tasks get what they had recorded in the source, so that no model is called and no person is asked
twice. These events are staged. Their key is the task's id with `#kept`. Keys of effects end with a number, so none of
them is the same.

Tasks at the top take them when the thread is restored (`restore`). A nested graph may not have begun by then: its
engine has them in `kept` until a superstep with these tasks opens, which is what `take_kept` is for. For the terms, see
docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from graphrt._engine.emit_events import Logged
from graphrt._engine.engine import Engine
from graphrt._engine.evolve import evolve_all

KEPT: Final = "#kept"
"""End of the key of what was kept for a task."""


def kept_in(staged: Mapping[str, Sequence[Logged]]) -> dict[str, Sequence[Logged]]:
    """Return what was kept for tasks of nested graphs: events by task id.

    A task id with a slash belongs to a nested graph: `3.0:sub/1.0:ask` is in the graph that the task `3.0:sub` runs.

    Args:
        staged: Staged events of the thread by key.
    """
    return {key.removesuffix(KEPT): logged for key, logged in staged.items() if key.endswith(KEPT) and "/" in key}


def take_kept(engine: Engine) -> None:
    """Let the tasks of the open superstep take what was kept for them; the run loop calls it when one has opened.

    At the top `engine.kept` is empty. A task that runs a nested graph hands it on to that graph.
    """
    if not engine.kept:
        return
    for task in engine.tasks:
        logged = engine.kept.pop(task.id, None)  # removed: a task takes it once
        if logged is not None:
            # `journalled=False`: the fork's journal does not have the questions among them, so that they are still to be
            # logged.
            evolve_all(engine, logged, journalled=False)
        if task.node.child is not None:
            task.more().kept = engine.kept  # the same dict, so that it is empty once all was taken
