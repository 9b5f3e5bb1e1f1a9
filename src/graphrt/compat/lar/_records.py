"""Records: a step of a run as the dictionary that Lár documents.

```text
   Step of the runtime, or TaskSucceeded of a journal ──> Outcome ──> record ──> `inner`: records of what ran inside
```

For each value that a step read, its record names the step that wrote it: `reads` maps a key to the number of that
step's record, to None for the initial state, or, for inner runs, to a path of numbers such as `[4, 0]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from graphrt.compat.lar._inside import Outcome, outcome_of_entry
from graphrt.compat.lar._lowering import Lowering
from graphrt.compat.lar._nodes import BatchNode, LLMNode, error_text
from graphrt.compat.lar._state import BUDGET, compute_state_diff, copied, folded, is_items
from graphrt.errors import GraphrtError, NodeError, NodeFatigueError, StepLimitError
from graphrt.events import Entry, RunInterrupted, RunStarted, Usage
from graphrt.reducers import spend
from graphrt.runtime import Step

ERROR, MAX_STEPS, SUCCESS = "error", "max_steps_reached", "success"
INTERRUPTED, CANCELLED = "interrupted", "cancelled"
_OF_METADATA: Final = ("model", "reasoning_content", "finish_reason")
"""Keys of a note that go to `run_metadata`."""
_BRANCH: Final = re.compile(r"branch (\d+)")
_NUMBER: Final = re.compile(r"_\d+\Z")
_STRUCTURE: Final = frozenset({"settle", "design", "failed"})
"""Nodes of the graphs of batches and designs that are not node objects."""


@final
@dataclass(slots=True, kw_only=True)
class Recorder:
    """Makes the records of one run, and tracks which step wrote each value."""

    lowering: Lowering
    made: dict[str, Any] = field(default_factory=dict[str, Any])
    """Maps keys to their entry in `reads`; keys of the initial state are missing."""

    def of_step(self, step: Step[Any], number: int) -> dict[str, Any]:
        """Return the record of a finished step, with the given number in the run."""
        noted = self.lowering.inside.noted(step.task_id)
        ended = Outcome(
            node=step.node,
            task=step.task_id,
            updates=(step.update or {},) if noted is None or step.error is None else noted.updates,
            error=step.error,
            usage=step.usage,
        )
        before, after = copied(visible(step.before)), copied(visible(step.after))
        record = self._record(ended, [number], before, after, self.made)
        self.lowering.inside.forget(step.task_id)
        return {**record, "outcome": step.outcome} if step.outcome == INTERRUPTED else record

    def of_limit(self, error: GraphrtError, number: int, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record of a run that a limit, or a failure outside any node, ended.

        Args:
            error: The error that ended the run.
            number: The number of the step that was not made.
            state: The state at the end.
        """
        due = error.node or next(iter(error.nodes or ()), None)
        ended = copied(dict(state))
        record = _bare(number, due or "", self._kind(due or ""), ended, copied(ended), {}, outcome_of(error))
        text = error_text(error)
        record["error"] = f"FATIGUE: {text}" if isinstance(error, NodeFatigueError) else text
        record["error_type"] = type(error).__name__
        return record

    def of_journal(self, entries: Iterable[Entry]) -> tuple[dict[str, Any], list[dict[str, Any]], int]:
        """Return the initial state of a run, the records of its steps so far, and the number of pauses.

        A pause has no record here, because its question is in the snapshot of the thread.
        """
        initial: dict[str, Any] = {}
        state: dict[str, Any] = {}
        records: list[dict[str, Any]] = []
        pauses = 0
        for entry in entries:
            self.lowering.inside(entry)
            event = entry.event
            if entry.path:
                continue
            if isinstance(event, RunStarted):
                initial = state = copied(visible(event.input))
            elif isinstance(event, RunInterrupted):
                pauses += 1
            ended = outcome_of_entry(entry)
            if ended is not None:
                before, state = copied(state), _after(state, ended)
                records.append(self._record(ended, [len(records) + pauses], before, copied(state), self.made))
                self.lowering.inside.forget(ended.task)
        return initial, records, pauses

    # -- one record ----------------------------------------------------------------------------------------------

    def _kind(self, name: str) -> str:
        """Return the class of a node object by the name of its node."""
        known = self.lowering.objects.get(name)
        return _NUMBER.sub("", name) if known is None else type(known).__name__

    def _record(
        self,
        ended: Outcome,
        numbers: list[int],
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        makers: dict[str, Any],
    ) -> dict[str, Any]:
        """Return a record, and enter the keys that the task wrote in *makers*.

        Args:
            ended: The task.
            numbers: Its number, preceded by those of the enclosing records.
            before: The state before it, as the program sees it. The record keeps it, and the inner records share its
                values, so a batch of many branches has one copy of a state.
            after: The state after it, which the record also keeps.
            makers: As `Recorder.made`, for the graph that the task belongs to.
        """
        note: dict[str, Any] = {}
        for update in ended.updates:
            note |= update.get("note") or {}
        error, kind = note.pop("error", None), note.pop("error_type", None)
        if ended.error is not None:
            error, kind = error_text(ended.error), type(_innermost(ended.error)).__name__
        elif ended.message:
            error, kind = ended.message, kind or "NodeError"
        node = self.lowering.objects.get(ended.node)
        metadata = _metadata(ended.usage, note, failed=error is not None)
        if ended.usage is not None and isinstance(node, LLMNode):
            metadata.setdefault("model", node.model_name)
        keys: list[str] = note.pop("reads", [])
        reads = {key: makers.get(key) for key in keys if key in before}
        inner = self._inner(ended.task, ended.node, numbers, before, makers)
        for inner_record in inner:
            for key, maker in inner_record["reads"].items():
                if not is_items(maker) or len(maker) <= len(numbers):  # written outside this record
                    reads.setdefault(key, maker)
        outcome = SUCCESS if error is None else ERROR
        record = _bare(numbers[-1], ended.node, self._kind(ended.node), before, after, metadata, outcome)
        record["reads"] = reads
        if len(numbers) == 1:  # its parts are separate copies, because a reader may change one
            record["state_diff"] = copied(record["state_diff"])
        if error is not None:
            record |= {"error": error, "error_type": kind}
        if inner or isinstance(node, BatchNode):
            record["inner"] = inner
        for key in (*record["state_diff"]["added"], *record["state_diff"]["updated"]):
            makers[key] = numbers[0] if len(numbers) == 1 else list(numbers)
        return {**record, **note}

    def _inner(
        self, path: str, batch: str, numbers: list[int], before: Mapping[str, Any], makers: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the inner records of a task: 0..n, branch after branch. The arguments are as above."""
        records: list[dict[str, Any]] = []
        for part in self.lowering.inside.at(path):
            branch = _BRANCH.fullmatch(part.node)
            if part.node in _STRUCTURE:
                continue
            # A branch, or the graph of a design: its tasks see the state at the start of the step.
            state, known = dict(before), dict(makers)
            if branch is not None and BUDGET in state:
                state[BUDGET] = state[BUDGET] // self.lowering.shares.get(batch, 1)
            for ended in self.lowering.inside.at(part.task):
                after = _after(state, ended)
                record = self._record(ended, [*numbers, len(records)], state, after, known)
                records.append({**record, "branch": int(branch[1])} if branch is not None else record)
                state = after
        return records


def visible(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a graph as the program's keys and values."""
    budget = state.get(BUDGET)
    return dict(state["values"]) if budget is None else {**state["values"], BUDGET: budget}


def outcome_of(error: GraphrtError) -> str:
    """Return the outcome of a run that *error* ended."""
    return MAX_STEPS if isinstance(error, StepLimitError) else ERROR


def _after(state: Mapping[str, Any], ended: Outcome) -> dict[str, Any]:
    """Return the program's state after a task."""
    budget = state.get(BUDGET)
    values = {key: value for key, value in state.items() if key != BUDGET}
    for update in ended.updates:
        if "values" in update:
            values = folded(values, copied(update["values"]))
        if BUDGET in update:
            budget = spend(budget, update[BUDGET])
    return values if budget is None else {**values, BUDGET: budget}


def _bare(
    number: int,
    name: str,
    kind: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    metadata: dict[str, Any],
    outcome: str,
) -> dict[str, Any]:
    return {
        "step": number,
        "node": kind or name,
        "node_id": name,
        "state_before": dict(before),
        "state_diff": compute_state_diff(before, after),
        "state_after": dict(after),
        "outcome": outcome,
        "run_metadata": metadata,
    }


def _metadata(usage: Usage | None, note: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """Move the metadata of a step out of *note*, and return it. A failure without usage has none."""
    if failed and usage is None:
        return {}
    used = Usage() if usage is None else usage
    metadata: dict[str, Any] = {
        "prompt_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
    }
    if used.cost_usd is not None:
        metadata["cost_usd"] = used.cost_usd
    return metadata | {key: note.pop(key) for key in _OF_METADATA if key in note}


def _innermost(error: BaseException) -> BaseException:
    while type(error) is NodeError and error.__cause__ is not None:
        error = error.__cause__
    return error
