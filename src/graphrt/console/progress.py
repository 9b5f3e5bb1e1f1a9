"""Progress of a run: read from the items of `Runtime.stream`, and formatted as lines. No terminal, and no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from graphrt._display import cost_text, unreported_text
from graphrt.console.amounts import counted, duration
from graphrt.console.screen import Line, Segment, cells, fit
from graphrt.events import (
    Entry,
    InterruptRaised,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunResumed,
    SuperstepCommitted,
    TasksRouted,
)
from graphrt.graph import CompiledGraph
from graphrt.harness import Budget, TokenTracker
from graphrt.limits import Limits
from graphrt.runtime import Live

MODES: Final = ("events", "live", "result")
"""Modes of the stream that `RunProgress.take` reads."""
_BAR: Final = 16
_MARKS: Final = {"idle": ("○", "faint"), "running": ("●", "accent"), "done": ("✓", "good"), "failed": ("✗", "bad"),
                 "waiting": ("?", "warn")}  # fmt: skip


class NodeProgress:
    """Progress of one node of the graph."""

    __slots__ = ("ended", "failed", "inner", "note", "runs", "started", "total", "waiting")

    def __init__(self) -> None:
        self.total: int = 0
        """Tasks of the node in the current superstep, running or due."""
        self.started: int = 0
        self.ended: int = 0
        self.failed: int = 0
        self.waiting: int = 0
        self.runs: int = 0
        """Tasks that ended in earlier supersteps."""
        self.inner: str = ""
        """The node of a nested graph that is running."""
        self.note: str = ""

    @property
    def status(self) -> str:
        """`idle`, `running`, `done`, `failed` or `waiting`."""
        if self.waiting:
            return "waiting"
        if self.failed:
            return "failed"
        if self.total and self.ended < self.total:
            return "running"
        return "done" if self.runs or self.ended else "idle"


class RunProgress:
    """Progress of a run. Give it the items of a stream with `modes=MODES`.

    Args:
        graph: The graph of the run.
        limits: Its limits: those of the runtime.
        budget: Its budget, or None.
    """

    def __init__(self, graph: CompiledGraph[Any, Any, Any], limits: Limits, budget: Budget | None = None) -> None:
        self.graph = graph
        self.limits = limits
        self.budget = budget
        self.superstep: int = 0
        self.steps: int = 0
        """Supersteps committed since this object was created."""
        self.thread: str | None = None
        self.status: str = "running"
        self.nodes: dict[str, NodeProgress] = {name: NodeProgress() for name in graph.nodes}
        self.tracker: TokenTracker = TokenTracker()

    def take(self, mode: str, item: Any) -> None:
        """Process one item of the stream."""
        if mode == "live":
            self._live(item)
        elif mode == "events":
            self._entry(item)
        elif mode == "result":
            self.status, self.thread = item.status, item.thread

    def _live(self, item: Live) -> None:
        if item.path:  # of a nested graph: shown at the node that runs it
            outer = item.path.split("/")[0].partition(":")[2]
            if outer in self.nodes and item.what == "started":
                self.nodes[outer].inner = item.node
            return
        node = self.nodes[item.node]
        if item.what == "started":
            if item.value == 1:
                node.started += 1
            node.total = max(node.total, node.started)
        elif item.what == "retrying":
            node.note = f"retry {item.value['attempt']}: {item.value['error']}"
        elif item.what == "ended":
            node.ended += 1
            node.failed += item.value == "error"
            node.inner = ""
            if item.value == "success":
                node.note = ""

    def _entry(self, entry: Entry) -> None:
        self.tracker(entry)
        self.thread = entry.thread
        if entry.path:
            return
        match entry.event:
            case SuperstepCommitted(superstep=superstep, next=due):
                self.superstep = superstep
                self.steps += 1
                self._due(due)
            case TasksRouted(next=due):
                self._due(due)
            case InterruptRaised(node=name):
                self.nodes[name].waiting += 1
            case RunResumed():
                for node in self.nodes.values():
                    node.waiting = 0
                self.status = "running"
            case RunCompleted():
                self.status = "completed"
            case RunInterrupted():
                self.status = "interrupted"
            case RunFailed(node=name, error=error):
                self.status = "failed"
                if name in self.nodes:
                    self.nodes[name].failed = max(self.nodes[name].failed, 1)
                    self.nodes[name].note = error
            case RunCancelled():
                self.status = "cancelled"
            case _:
                pass

    def _due(self, due: Sequence[str]) -> None:
        counts = Counter(due)
        for name, node in self.nodes.items():
            node.runs += node.ended
            node.total, node.started, node.ended, node.waiting, node.failed = counts[name], 0, 0, 0, 0
            node.inner = ""

    # -- as lines ------------------------------------------------------------------------------------------------

    def lines(self, width: int, elapsed_s: float) -> list[Line]:
        """Return its lines after *elapsed_s* seconds: one per node, then the usage and what remains of the limits."""
        thread = f"  thread {self.thread}" if self.thread else ""
        head = f"{duration(elapsed_s)}, superstep {self.superstep}"
        room = width - len(head) - 2
        title = (fit(f"{self.graph.name}{thread}", room if room >= 8 else width), "title")
        lines: list[Line] = [[title, "  ", head]] if room >= 8 else [[title], [fit(head, width)]]
        longest = max(map(cells, self.nodes), default=0)
        lines += [self._node(name, node, min(longest, width // 2), width) for name, node in self.nodes.items()]
        return [*lines, *self._used(width), *self._left(width, elapsed_s)]

    def _node(self, name: str, node: NodeProgress, room: int, width: int) -> Line:
        mark, style = _MARKS[node.status]
        line: Line = [(mark, style), " ", (fit(name, room), "name" if node.status == "running" else "")]
        segments: list[Segment] = []
        if node.total > 1:
            full = round(_BAR * node.ended / node.total)
            bar = ("█" * full, "accent"), ("░" * (_BAR - full), "faint")
            segments = (
                [*bar, f" {node.ended:,}/{node.total:,}"]
                if width - room > _BAR + 16
                else [f"{node.ended}/{node.total}"]
            )
        elif node.runs > 1:
            segments = [(f"{node.runs + node.ended} times", "faint")]
        notes = [note for note in (node.inner and f"> {node.inner}", node.note) if note]
        if notes:
            taken = 4 + room + sum(cells(segment if isinstance(segment, str) else segment[0]) for segment in segments)
            style = "bad" if node.failed else "faint"
            segments.append((f"  {fit('  '.join(notes), max(width - taken - 4, 0)).rstrip()}", style))
        return [*line, "  ", *segments] if segments else line

    def _used(self, width: int) -> list[Line]:
        total = self.tracker.total
        if not total.calls:
            return []
        cost = "" if total.cost_usd is None else f"  {cost_text(total)}"
        text = f"{counted(total.calls, 'call')}{unreported_text(total)}  {total.input_tokens:,} tokens in  {total.output_tokens:,} out{cost}"
        return [[(fit(text, width).rstrip(), "accent")]]

    def _left(self, width: int, elapsed_s: float) -> list[Line]:
        """Return what remains of the limits that were set, as far as a run can approach them."""
        remaining = [f"{self.limits.max_steps - self.steps:,} supersteps"]
        if self.limits.deadline_s is not None:
            remaining.append(duration(max(self.limits.deadline_s - elapsed_s, 0)))
        if self.budget is not None:
            total, budget = self.tracker.total, self.budget
            if budget.seconds is not None:
                remaining.append(f"{duration(max(budget.seconds - elapsed_s, 0))} of the budget")
            if budget.tokens is not None:
                remaining.append(f"{max(budget.tokens - total.total_tokens - total.reserved_tokens, 0):,} tokens")
            if budget.calls is not None:
                remaining.append(f"{max(budget.calls - total.calls, 0):,} calls")
            if budget.usd is not None:
                used_usd = (total.cost_usd or 0.0) + total.reserved_microusd / 1_000_000
                remaining.append(f"${max(budget.usd - used_usd, 0.0):.2f}")
        return [[(fit(f"left: {', '.join(remaining)}", width).rstrip(), "faint")]]
