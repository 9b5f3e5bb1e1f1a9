"""State kept from run to run for graphs that a node calls and that were compiled with `checkpointer=True`.

The called graph runs on LangGraph's engine, with an in-memory saver that lasts as long as the task. The saver's content
at the end of the task becomes an update of the field `CALLED`, and the next task that calls the graph begins with it.
So this state is part of the thread's commits. A task that pauses or fails leaves the field as it was, and the graph
begins from there again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._read import Node

CALLED: Final = "__called__"
"""Field with the last checkpoint of each such graph, by its namespace."""


def keeps_called(node: Node) -> bool:
    """Return whether *node* calls a graph that keeps its state, judged by the names that its function uses."""
    if node.function is None:
        return False
    objects: Any = lg.names_around(node.function)
    return any(lg.is_a(value, CompiledStateGraph) and value.checkpointer is True for value in objects)


@final
class CalledGraphs:
    """The saver of one task, which begins with the checkpoints of earlier tasks.

    Args:
        thread: Id of the thread, for LangGraph.
        kept: Value of the field `CALLED`.
    """

    __slots__ = ("_kept", "_thread", "saver")

    def __init__(self, thread: str, saved: Mapping[str, Any]) -> None:
        self._thread = thread
        self._kept = saved
        self.saver: Any = InMemorySaver()
        for namespace, stored in saved.items():
            checkpoint, metadata = self.saver.serde.loads_typed((stored[0], stored[1]))
            self.saver.put(self._config(namespace), checkpoint, metadata, checkpoint["channel_versions"])

    def update(self) -> dict[str, Any]:
        """Return the changes, as a value of the field `CALLED`."""
        changed: dict[str, Any] = {}
        for namespace in self.saver.storage.get(self._thread, {}):
            if ":" in namespace:  # the graph has no separate state: its namespace has the task's id
                continue
            last = self.saver.get_tuple(self._config(namespace))
            stored = [*self.saver.serde.dumps_typed((last.checkpoint, last.metadata))]
            if stored != self._kept.get(namespace):
                changed[namespace] = stored
        return changed

    def _config(self, namespace: str) -> dict[str, Any]:
        return {"configurable": {"thread_id": self._thread, "checkpoint_ns": namespace}}


def kept_in(current: Any, incoming: Any) -> Any:
    """Merge the checkpoints that a task left; the reducer of `CALLED`."""
    held: dict[str, Any] = current or {}
    return {**held, **incoming}
