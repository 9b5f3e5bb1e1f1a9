"""Migration of a thread to a changed graph, after a successful compatibility check (rule R14, decision 0022).

To fold entries means to apply them, one after another, to an engine, which calls the reducers of the fields again. The
stored entries are folded with the shape of the older graph: removed fields get stand-ins, renamed nodes an alias. Then
the values become those of the present graph, by the declared migration or by defaults.

A verdict (`compatibility_check`) says how the thread's graph and the present one relate: identical, compatible, or
joined by a declared `Migration`. Threads with any other verdict do not come here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from graphrt import events, reducers
from graphrt._arguments import is_mapping
from graphrt._cancellations import failures
from graphrt._engine.engine import Engine
from graphrt._engine.erased_values import erased_in
from graphrt._journal.changed_names import changed_joins, joins_as_data, renamed_nodes, under_older_names
from graphrt._journal.compatibility import Compatibility
from graphrt._journal.thread_fold import Fold
from graphrt._plan.fields import ABSENT, Field, own, read_marks
from graphrt._plan.quoting import quoted
from graphrt._plan.tables import Plan
from graphrt.errors import GraphrtError, describe_error
from graphrt.errors._codes.journal import (
    MIGRATION_FAILED,
)
from graphrt.migrations import Migration

if TYPE_CHECKING:
    from graphrt._codec import Codec


_CHANGED: Final = frozenset({"gone", "renamed", "joins", "plain"})
"""Keys of the meta about older graphs."""


def prepare(fold: Fold, verdict: Compatibility) -> None:
    """Prepare *fold* for parts of older graphs that the current one lacks, before anything is folded.

    The meta contains them: `gone` has removed fields with the names of their reducers; for `renamed` and `joins`, see
    `changed_names`; `plain` is true if classes changed so that values in the entries may no longer fit. The data covers
    all older graphs whose entries the thread may still have.
    """
    engine, meta = fold.engine, fold.meta
    # If classes changed, no entry was written with the current ones yet, so the migration gets all values as plain
    # data.
    if verdict.classes:
        fold.reader.codec = engine.plan.codec.forgiving(verdict.classes)
    else:
        fold.reader.codec = engine.plan.codec.forgiving() if meta.get("plain") else engine.plan.codec
    is_same = verdict.kind == "identical"
    if is_same and meta.keys().isdisjoint(_CHANGED):  # it was never driven by another graph
        return
    removed: dict[str, str] = dict(meta.get("gone") or {})
    if not is_same:
        older: Mapping[str, Any] = meta.get("topology") or {}
        before: Mapping[str, Any] = older.get("state") or {}
        removed |= {name: field["reducer"] for name, field in before.items() if name not in engine.plan.state.fields}
    renames: Mapping[str, str] = verdict.migration.nodes if verdict.migration is not None else {}
    renamed = renamed_nodes(meta, renames)
    joins = changed_joins(meta, renames, engine.plan, is_same=is_same)
    # Also kept in the meta, which the next commit stores, because later loads fold the same entries.
    additions: dict[str, Any] = {"gone": removed, "renamed": renamed, "joins": joins_as_data(joins)}
    additions["plain"] = bool(verdict.classes) or bool(meta.get("plain"))
    fold.meta = {**meta, **{key: data for key, data in additions.items() if data}}
    by_name = engine.plan.by_name
    engine.fold_older(
        {name: _stand_in(name, label) for name, label in removed.items()},
        {old: by_name[new].formerly(old) for old, new in renamed.items() if new in by_name},
        under_older_names(joins, renamed, engine.plan),
    )


def codec_to_show(plan: Plan, fingerprint: str, meta: Mapping[str, Any]) -> Codec:
    """Return the codec with which entries of a thread are shown, whether or not *plan* can continue it.

    Args:
        plan: The present graph.
        fingerprint: Its fingerprint.
        meta: The thread's meta. If an older graph wrote entries, values that do not fit their classes are plain data.
    """
    is_same = meta.get("fingerprint", fingerprint) == fingerprint and not meta.get("plain")
    return plan.codec if is_same else plan.codec.forgiving()


def _stand_in(name: str, label: str) -> Field:
    """Return a placeholder for a removed field.

    Args:
        name: Name of the field.
        label: Name of its reducer. A reducer that is not built in can no longer be called: the placeholder then keeps
            the last value written.
    """
    field = Field(name, Any)
    reducer = reducers.by_name(label)
    if reducer is not None:
        # Sets the reducer, as a declaration with `Annotated` does. A built-in one causes no problems to report in `[]`.
        read_marks(field, [reducer], [])
    # Allows several writers in one superstep (R6): whether that is an error was checked when the entries were written.
    field.aggregates = True
    return field


def adopt(fold: Fold, verdict: Compatibility) -> None:
    """Migrate the folded thread, and set `fold.migrated`, the event that the next commit of the thread journals.

    Raises:
        InputError: The migration raised, or did not return a valid state.
    """
    engine = fold.engine
    fields = engine.plan.state.fields
    values: dict[str, Any] | None = None
    if verdict.migration is not None and verdict.migration.values is not None:
        values = _migrated(engine, verdict.migration, dict(engine.values))
    elif engine.values.keys() - fields.keys() or fields.keys() - engine.values.keys():
        values = {name: value for name, value in engine.values.items() if name in fields}
        for name, field in fields.items():
            start = field.reset() if name not in values else ABSENT  # the default; ABSENT if there is none
            if start is not ABSENT:
                values[name] = start
    engine.adopt(values)  # None keeps the values and only drops the placeholders
    why = verdict.migration.name if verdict.migration is not None else f"compatible: {'; '.join(verdict.reasons)}"
    untracked = engine.plan.state.untracked
    # Untracked fields are in no entry (R16).
    tracked = None if values is None else {name: value for name, value in values.items() if name not in untracked}
    fold.fingerprint = verdict.target
    fold.migrated = events.ThreadMigrated(source=verdict.source, target=verdict.target, why=why, values=tracked)


def _migrated(engine: Engine, migration: Migration, values: dict[str, Any]) -> dict[str, Any]:
    """Call the migration with a copy of *values*, and return the validated result.

    Raises:
        InputError: The migration raised, or did not return a valid state.
    """
    assert migration.values is not None  # noqa: S101 - the caller checked
    where = f"{migration.name} of thread {engine.thread!r}"
    try:
        migrated = migration.values(own(values))
    except failures() as error:
        raise MIGRATION_FAILED(
            source=migration.source[:12], problem=f"raised {describe_error(error)}", where=where
        ) from error
    if not is_mapping(migrated):
        raise MIGRATION_FAILED(
            source=migration.source[:12],
            # `quoted` does not show values that may belong to an untracked field.
            problem=f"returned {quoted(migrated, engine.plan.state.untracked)}, which is not a mapping.",
            where=where,
        )
    if any(map(erased_in, migrated.values())):
        return engine.plan.state.unchecked(migrated)  # an erased value (`Erased`) fits no type, so nothing is validated
    try:
        return engine.plan.state.initial(dict(migrated), where=where)
    except GraphrtError as error:
        raise MIGRATION_FAILED(
            source=migration.source[:12], problem=f"returned what is not a valid state: {error.what}", where=where
        ) from error
