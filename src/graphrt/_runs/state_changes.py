"""`changes`: the changes to a thread's state, entry by entry, as operations on its values.

The journal is folded once, from its oldest entry, as for `steps_of`. A record of `steps_of` has the whole state. A
`StateChange` has only the difference, so its cost depends on the written values: appending items to a list is an
`append` of these items, however long the list is.

`StateChanges` behaves like a growing file: reading again after its end returns the changes stored since then. So a
reader that watches a thread folds each entry only once. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, final

from graphrt import events
from graphrt._engine.fold import Prefix, Undo
from graphrt._journal.thread_fold import Fold
from graphrt._plan.copying import SCALARS, own
from graphrt._plan.fields import ABSENT
from graphrt._plan.state import EXTRA, Values
from graphrt._runs.deep_equal import alike
from graphrt._runs.loading import check_named, from_the_first, the_store
from graphrt._runs.run_config import RunConfig
from graphrt.events import Entry
from graphrt.stores.ids import check_id

Path: TypeAlias = tuple[str | int, ...]
"""Location of a value: the name of a field, then keys, attribute names and list positions."""
Operation: TypeAlias = (
    tuple[Literal["set"], Path, Any]
    | tuple[Literal["remove"], Path]
    | tuple[Literal["append"], Path, list[Any]]
    | tuple[Literal["splice"], Path, int, int, list[Any]]
)
"""A change to a value: `set` it; `remove` a field or a key; `append` items to a list; or `splice` a list, with the
position, the number of items removed, and the items inserted."""
ChangeKind: TypeAlias = Literal["task", "input", "edit", "stopped", "fork", "migration", "pruned"]
"""The source of a change: a task, the input of a run, `update()`, a reply that was stopped, the beginning of a fork,
a migration, or the entries that were pruned."""

_FROM_OUTSIDE: Final[Mapping[type[Any], ChangeKind]] = {
    events.RunStarted: "input",
    events.ThreadUpdated: "edit",
    events.SuperstepAbandoned: "stopped",
    events.ThreadForked: "fork",
    events.ThreadMigrated: "migration",
}
_DEEP: Final = 16
"""Number of levels that are compared; below that, a different object is set as a whole."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The changes to the state by one task, or by one entry from outside; see `Runtime.changes`."""

    seq: int
    """Number of the entry that changed the state; for a task, the commit of its superstep."""
    kind: ChangeKind
    task_id: str = ""
    """Id of the task; empty if no task changed it."""
    wrote: tuple[str, ...]
    """Names of the fields that were written or reset, in order, even if the value stayed the same."""
    operations: tuple[Operation, ...]
    """The changes, in order. Their values are copies."""


@final
class StateChanges(Iterator[StateChange]):
    """The changes of a thread, oldest first. `Runtime.changes` makes it.

    It ends with the last stored entry. Unlike other iterators, it can be read again later to get the changes stored
    since then. It supports one reader at a time.
    """

    def __init__(self, config: RunConfig, thread: str) -> None:
        check_id(thread)
        self._config = config
        self._thread = thread
        self._fold = from_the_first(config, thread)
        self._fold.engine.watch(commits=True, undo=True)
        self._rest: Iterator[StateChange] = self._pruned()

    def __next__(self) -> StateChange:
        """Return the next change.

        Raises:
            StopIteration: There are no more stored changes now.
            StoreError: An entry is missing or damaged.
        """
        change = next(self._rest, None)
        if change is None:
            self._rest = self._read()
            change = next(self._rest)
        return change

    def _pruned(self) -> Iterator[StateChange]:
        """Yield the state that a prune kept, as the first change."""
        fold = self._fold
        if fold.seq:
            yield _change(fold.seq, "pruned", {}, fold.engine.values)

    def _read(self) -> Iterator[StateChange]:
        """Fold the entries stored since then, and yield the changes of each."""
        fold, began = self._fold, self._fold.seq
        for record in the_store(self._config).records(self._thread, after=fold.seq):
            batch = fold.read(record)
            for entry, logged in zip(batch.entries(record.seq - record.count + 1), batch.logged, strict=True):
                kind = None if entry.path else _FROM_OUTSIDE.get(type(entry.event))
                # Only now, since a reference to the values would prevent lists from growing in place (R15).
                before = dict(fold.engine.values) if kind is not None else {}
                fold.fold([logged], entry.seq, batch.run)
                if kind is not None:
                    yield _change(entry.seq, kind, before, fold.engine.values)
                elif not entry.path:
                    yield from _of_tasks(fold, entry)
        if fold.seq > began:
            check_named(self._config, fold, fold.seq)


def _of_tasks(fold: Fold, entry: Entry) -> Iterator[StateChange]:
    """Yield the changes of the tasks that *entry* committed, in task order."""
    value = fold.engine.take_committed()
    if value is None:
        return
    # From the last task to the first: a task's result is the final value without the changes of later tasks.
    latest = _Latest(fold.engine.values)
    changes: list[StateChange] = []
    for task, undo in zip(reversed(value.tasks), reversed(value.undo), strict=True):
        operations = tuple(
            operation for name, before in undo.items() if name != EXTRA for operation in latest.undo(name, before)
        )
        changes.append(
            StateChange(seq=entry.seq, kind="task", task_id=task.id, wrote=_names(undo), operations=operations)
        )
    yield from reversed(changes)


def _names(undo: Undo) -> tuple[str, ...]:
    return tuple(name for name in undo if name != EXTRA)


class _Latest:
    """The values after a commit, from which the changes of its tasks are undone one by one."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._older: dict[str, tuple[Any, int | None]] = {}
        """Maps a field to its value before the undone tasks, and to the number of items that count; None for all."""

    def undo(self, name: str, before: Any) -> list[Operation]:
        """Return the operation that turned *before* into the value, and continue with *before*."""
        value, end = self._older.get(name, (self._values.get(name, ABSENT), None))
        if before.__class__ is Prefix:
            self._older[name] = value, before.length
            items = own(value[before.length : end])
            return [("append", (name,), items)] if items else []
        self._older[name] = before, None
        return _differences(before, value if end is None else value[:end], (name,))


def _change(seq: int, kind: ChangeKind, before: Values, after: Values) -> StateChange:
    """Return the change between two states."""
    names = [name for name in {**before, **after} if name != EXTRA]
    operations = {
        name: _differences(before.get(name, ABSENT), after.get(name, ABSENT), (name,))
        for name in names
        if before.get(name, ABSENT) is not after.get(name, ABSENT)
    }
    flat = tuple(operation for field_operations in operations.values() for operation in field_operations)
    return StateChange(seq=seq, kind=kind, wrote=tuple(operations), operations=flat)


def _differences(before: Any, after: Any, path: Path) -> list[Operation]:
    """Return the changes that turn *before* into *after*; nothing if they are the same."""
    if after is ABSENT:
        return [] if before is ABSENT else [("remove", path)]
    if before is after or (after.__class__ in SCALARS and _equal(before, after)):
        return []
    if len(path) < _DEEP and before.__class__ is after.__class__:
        kind: Any = after.__class__
        if kind is list:
            return _of_lists(before, after, path)
        parts = _parts(before), _parts(after)
        if parts[0] is not None and parts[1] is not None:
            return _of_mappings(parts[0], parts[1], path)
    return [("set", path, own(after))]


def _equal(before: Any, after: Any) -> bool:
    """Return whether two values are equal and displayed alike; True differs from 1."""
    return before is after or (before.__class__ is after.__class__ and alike(before, after))


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Return the parts of a model, a dataclass, or a dict with str keys; None for anything else."""
    kind: Any = value.__class__
    if kind is dict:
        mapping = cast("dict[Any, Any]", value)
        return mapping if all(key.__class__ is str for key in mapping) else None
    names: Any = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", None)
    return {name: getattr(value, name, ABSENT) for name in names} if names else None


def _of_mappings(before: Mapping[str, Any], after: Mapping[str, Any], path: Path) -> list[Operation]:
    operations: list[Operation] = [("remove", (*path, name)) for name in before if name not in after]
    for name, value in after.items():
        operations += _differences(before.get(name, ABSENT), value, (*path, name))
    return operations


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: Path) -> list[Operation]:
    """Return the single operation that turns one list into another, keeping their common ends."""
    shared = min(len(before), len(after))
    begin = 0
    while begin < shared and _equal(before[begin], after[begin]):
        begin += 1
    if begin == len(before):
        return [("append", path, own(list(after[begin:])))] if len(after) > begin else []
    end = 0
    while end < shared - begin and _equal(before[-1 - end], after[-1 - end]):
        end += 1
    if len(before) == len(after) == begin + end + 1:  # one item differs: perhaps only in a part
        return _differences(before[begin], after[begin], (*path, begin))
    return [("splice", path, begin, len(before) - begin - end, own(list(after[begin : len(after) - end])))]
