"""`TokenTracker`, which sums usage by run, node, model and tool from journal entries, live or afterwards.

A call is counted once, however often its thread is resumed or its journal read. Entries that were seen before are
recognised by their `seq`. If a run fails, the entries of its failed tasks are written, and they are written again when
the run continues and commits. Such entries are recognised by task, key and number of failed attempts. A call that is
made again after a failed attempt has a higher number, and is counted.

A run that continues a thread has an id of its own. Threads of several stores may have the same id, so of the runs of
such threads it continues the one whose last entry is the nearest before its own first entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, final

import typing_extensions as te

from graphrt._forks import FreshLock
from graphrt._usage.usage import UNREPORTED, summed
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.events import (
    Entry,
    ModelReplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHandedOver,
    RunInterrupted,
    RunResumed,
    RunStarted,
    SuperstepAbandoned,
    SuperstepCommitted,
    Usage,
    UsageRecorded,
)

__all__ = ["TokenTracker"]

_NONE: Final = Usage()
_ENDS: Final = (RunCompleted, RunInterrupted, RunFailed, RunCancelled, RunHandedOver)


@final
class TokenTracker:
    """Sum of the usage of model calls. Pass it to runtimes as a sink, or read a journal with it.

    One tracker may serve several runtimes, in several tasks and worker threads at once. A run never resets it:

        tracker = TokenTracker()
        Runtime(graph, store=..., sinks=[tracker])
        tracker.summary()["total_tokens"]

        TokenTracker().read(runtime.entries("thread-1")).summary()

    Entries that it has seen before add nothing, so it may read a journal that it was a sink of, or read one twice. It
    keeps sums, the last `seq` of each run of a thread, and the counted calls of open supersteps: its memory does not
    grow with the length of a run.
    """

    def __init__(self) -> None:
        self._lock = FreshLock()
        self._total = _NONE
        self._by: dict[str, dict[str, Usage]] = {"run": {}, "node": {}, "model": {}, "tool": {}}
        self._running: set[str] = set()
        """Ids of the unfinished runs."""
        self._known: dict[str, int] = {}
        """`seq` of the last entry seen of each run, by run id. Run ids are unique across journals."""
        self._seen: dict[str, dict[str, set[tuple[str, int, str, int]]]] = {}
        """Calls of the open superstep that were counted, by run and by path of the graph: (task, failed attempts, key,
        number of the usage or 0 for a reply)."""
        self._open: dict[str | None, set[str]] = {}
        """Runs in `_seen`, by thread."""

    def __call__(self, entry: Entry) -> None:
        """Count the model call that *entry* records, if it records one."""
        event = entry.event
        kind = event.__class__
        if isinstance(event, (ModelReplied, UsageRecorded)):
            self._count(entry, event)
        elif kind is SuperstepCommitted or kind is SuperstepAbandoned:
            self._closed(entry)
        elif kind is RunStarted or kind is RunResumed:
            with self._lock:
                self._is_known(entry)
        elif kind in _ENDS and not entry.path:
            with self._lock:
                self._is_known(entry)
                self._running.discard(entry.run)
                if entry.thread is None:  # the run cannot be continued
                    self._forget(entry)
                    self._known.pop(entry.run, None)

    def read(self, entries: Iterable[Entry]) -> te.Self:
        """Count the model calls in *entries*, those of a thread from its beginning, and return the tracker.

        Raises:
            InputError: An item is not an Entry.
        """
        for entry in entries:
            value: Any = entry
            if not isinstance(value, Entry):
                raise INVALID_ARGUMENT(
                    argument="What a TokenTracker reads",
                    value=value,
                    wanted="entries of a journal: runtime.entries(thread)",
                )
            self(entry)
        return self

    def _closed(self, entry: Entry) -> None:
        """Forget the counted calls of a superstep that ended, and of graphs nested in it: they are not repeated."""
        with self._lock:
            if self._is_known(entry):
                return
            seen = self._seen.get(entry.run, {})
            for path in [path for path in seen if path.startswith(entry.path)]:
                del seen[path]
            if not seen:
                self._forget(entry)

    def _is_known(self, entry: Entry) -> bool:
        """Return whether the entry was seen before, and note it as seen. The caller holds the lock."""
        known = self._known.get(entry.run)
        if known is None:
            self._running.add(entry.run)
            self._continue(entry)
        self._known[entry.run] = max(known or 0, entry.seq)
        return known is not None and entry.seq <= known

    def _continue(self, entry: Entry) -> None:
        """Take over the counted calls of the run before, if the run that begins with *entry* continues one."""
        runs = self._open.get(entry.thread, set()) if entry.thread is not None else set[str]()
        earlier = [run for run in runs if self._known[run] < entry.seq]
        if earlier:
            run = max(earlier, key=lambda run: (self._known[run], run not in self._running))
            runs.remove(run)
            runs.add(entry.run)
            self._seen[entry.run] = self._seen.pop(run)

    def _forget(self, entry: Entry) -> None:
        """Forget the counted calls of the run of *entry*."""
        self._seen.pop(entry.run, None)
        runs = self._open.get(entry.thread, set())
        runs.discard(entry.run)
        if not runs:
            self._open.pop(entry.thread, None)

    def _count(self, entry: Entry, event: ModelReplied | UsageRecorded) -> None:
        usage = UNREPORTED if event.usage is None else event.usage
        nth = event.nth if isinstance(event, UsageRecorded) else 0
        call = (event.task, event.failed_attempts, event.key, nth)
        node = event.task[len(entry.path) :].partition(":")[2] or event.task
        parts = event.key.split("/")
        tools = [name for previous, name in pairwise(parts) if previous == "tool"]
        with self._lock:
            if self._is_known(entry):
                return
            self._open.setdefault(entry.thread, set()).add(entry.run)
            seen = self._seen.setdefault(entry.run, {}).setdefault(entry.path, set())
            if call in seen:
                return
            seen.add(call)
            self._total = self._total + usage
            places = [("run", entry.run), ("node", node), ("model", event.model or "unknown")]
            if tools:
                places.append(("tool", tools[-1]))
            for dimension, name in places:
                totals = self._by[dimension]
                totals[name] = totals.get(name, _NONE) + usage

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def total(self) -> Usage:
        """Usage of all calls."""
        return self._total

    def by_run(self) -> dict[str, Usage]:
        """Return the usage by run id: the run whose entries record the call."""
        return self._of("run")

    def by_node(self) -> dict[str, Usage]:
        """Return the usage by node name."""
        return self._of("node")

    def by_model(self) -> dict[str, Usage]:
        """Return the usage by model name, as the provider reports it, or "unknown"."""
        return self._of("model")

    def by_tool(self) -> dict[str, Usage]:
        """Return the usage of tools that are agents themselves, by tool name."""
        return self._of("tool")

    def _of(self, dimension: str) -> dict[str, Usage]:
        with self._lock:
            return dict(self._by[dimension])

    def summary(self) -> dict[str, Any]:
        """Return the sums as plain data: tokens in total, in and out, by model and by node, calls, and cost.

        The keys are `total_tokens`, `prompt_tokens`, `completion_tokens`, `cached_tokens`, `reasoning_tokens`, `calls`,
        `unreported_calls`, `unpriced_calls`, `cost_usd` (None if no cost is known), `tokens_by_model` and
        `tokens_by_node`.
        """
        with self._lock:
            return {
                **summed(self._total),
                "tokens_by_model": {name: usage.total_tokens for name, usage in self._by["model"].items()},
                "tokens_by_node": {name: usage.total_tokens for name, usage in self._by["node"].items()},
            }

    def __repr__(self) -> str:
        return f"TokenTracker({self._total.total_tokens} tokens, {self._total.calls} calls)"
