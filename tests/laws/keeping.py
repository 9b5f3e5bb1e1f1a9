"""The laws about stored data, as plain functions of an example: *fold* and *restart*.

They raise AssertionError if a journal disagrees with the run. They do not use Hypothesis.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from unittest import mock

from graphrt._codec import Codec
from graphrt._engine.engine import Engine
from graphrt._engine.snapshot_data import saved
from graphrt._engine.steps import goto_names
from graphrt._journal import writer
from graphrt._journal.thread_fold import Fold
from graphrt._runs import loading
from graphrt._runs.active_run import ActiveRun
from graphrt.stores.protocol import Store
from graphrt.stores.values import Commit, StoredSnapshot, StoredThread

from .build import to_plain
from .description import Graph, State
from .dying import Mortal, PowerCutError, StoreKind, make, opened_again
from .voyages import THREAD, Voyage, by_hand, go_on, in_any_order, journal, status_of, voyage

# fold ------------------------------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """The commits that a store received while a thread was driven, and the engine's values at each."""

    store: Store
    values: dict[int, State]
    """Number of the last entry of a commit -> the values after it, without untracked ones."""


def drive(voyage: Voyage, store: Store, chance: random.Random, **options: Any) -> Kept:
    """Drive the thread to its end, and record the engine's values at each commit; snapshots are taken whenever allowed."""
    kept = Kept(store, {})
    watched = Mortal(store)
    runs: list[ActiveRun] = []
    untracked = voyage.compiled.__graphrt_plan__.state.untracked

    def note(commit: Commit) -> None:
        if commit.records:
            values = runs[-1].engine.values
            kept.values[commit.records[-1].seq] = {n: copy.deepcopy(v) for n, v in values.items() if n not in untracked}

    def opened(run: ActiveRun, *args: Any, **more: Any) -> None:
        runs.append(run)
        begin(run, *args, **more)

    watched.seen = note
    begin = ActiveRun.__init__
    with mock.patch.object(ActiveRun, "__init__", opened), eager_snapshots(), by_hand(in_any_order(chance)):
        go_on(voyage, voyage.runtime(watched, **options))
    return kept


def eager_snapshots() -> Any:
    """A context in which the journal takes every snapshot that it may."""
    snapshot, step = writer.Journal._snapshot, writer.Journal.step

    def always(journal: Any, *args: Any) -> Any:
        journal._tail = 1 << 40
        return snapshot(journal, *args)

    def at_once(journal: Any, *args: Any) -> Any:
        journal._tail = 1 << 40
        return step(journal, *args)

    return mock.patch.multiple(writer.Journal, _snapshot=always, step=at_once)


def fold(graph: Graph, kind: StoreKind, folder: Path, chance: random.Random, **options: Any) -> None:
    """The state is the fold of the journal, from the first entry or from any snapshot, at every entry."""
    trip = voyage(graph)
    store = make(kind, folder)
    try:
        kept = drive(trip, store, chance, **options)
        check_fold(trip, kept)
    finally:
        store.close()


def check_fold(voyage: Voyage, kept: Kept) -> None:
    """See `fold`."""
    runtime, store = voyage.runtime(kept.store), kept.store
    whole = store.load(THREAD)
    records, snapshots = list(store.records(THREAD)), snapshots_of(store, whole)
    for at in range(1, whole.head.seq + 1):
        upto = [record for record in records if record.seq - record.count < at]
        start = whole._replace(snapshot=None, records=upto, staged=())
        plain = loading.folded(runtime._config, start, upto=at)
        expected = standing(plain)
        for snapshot in snapshots:
            if snapshot.seq <= at:
                rest = [record for record in upto if record.seq > snapshot.seq]
                again = loading.folded(runtime._config, start._replace(snapshot=snapshot, records=rest), upto=at)
                same(standing(again), expected, f"standing after entry {at}, from the snapshot of {snapshot.seq}")
        shown = runtime.state(THREAD, at=at)
        assert shown.seq == at
        untracked = voyage.compiled.__graphrt_plan__.state.untracked
        tracked = {n: v for n, v in plain.engine.values.items() if n not in untracked}
        if at in kept.values:
            same(tracked, kept.values[at], f"values after entry {at}")
        if at < whole.head.seq:
            same(to_plain(voyage.graph, shown.values), visible(voyage, plain), f"state(at={at})")
    last = runtime.replay(THREAD)
    same(to_plain(voyage.graph, last.values), voyage.state_of(runtime), "the replayed state")


def visible(voyage: Voyage, fold: Fold) -> State:
    return to_plain(voyage.graph, fold.engine.make_view(fold.engine.values))


def snapshots_of(store: Store, whole: StoredThread) -> list[StoredSnapshot]:
    """All snapshots of the store."""
    found: list[StoredSnapshot] = []
    upto = whole.head.seq
    while upto > 0 and (snapshot := store.load(THREAD, upto=upto).snapshot) is not None:
        found.append(snapshot)
        upto = snapshot.seq - 1
    return found


def standing(fold: Fold) -> dict[str, Any]:
    """All results of the fold of a journal."""
    engine, codec = fold.engine, fold.engine.plan.codec
    state = saved(engine)
    found = {each.name: getattr(state, each.name) for each in fields(state)}
    found["errors"] = {at: codec.dump_error(error) for at, error in state.errors.items()}
    found["tasks"] = [task_of(engine, codec, task) for task in engine.tasks]
    found["waiting"] = [(item.node.name, item.arg, item.is_send) for item in engine.waiting]
    for name in ("status", "run", "seed", "cause", "fingerprint", "seq"):
        found[f"fold {name}"] = getattr(fold, name)
    asked = engine.questions.values()
    found["questions"] = {one.id: (one.state, one.reason, one.nth, one.answer, one.by, one.stale) for one in asked}
    found["digests"] = fold.chain.saved() if fold.chain is not None else None
    return found


def task_of(engine: Engine, codec: Codec, task: Any) -> dict[str, Any]:
    """All known facts about a task of the open superstep."""
    extra = task.more()
    failure = None if extra.failure is None else codec.dump_error(extra.failure)
    asked = [(q.id, q.key, q.node, q.payload, q.static, q.answer_type, q.answered, q.answer) for q in extra.interrupts]
    return {
        "id": task.id,
        "status": task.status,
        "updates": [dict(update) for update in task.updates],
        "goto": goto_names(task),
        "arg": task.arg,
        "attempt": task.attempt,
        "asked": asked,
        "effects": {key: effect.result for key, effect in extra.effects.items()},
        "intents": list(extra.intents),
        "models": list(extra.models.general(task.id)) if extra.models is not None else [],
        "failure": failure,
    }


def same(seen: object, expected: object, what: str) -> None:
    assert seen == expected, f"{what}: {seen} instead of {expected}"


# restart ----------------------------------------------------------------------------------------------------------------


@dataclass
class End:
    """The end of a thread."""

    status: str
    state: State
    journal: list[dict[str, Any]]
    asked: bool
    """Whether a person had to decide about an effect with an unknown outcome."""

    @classmethod
    def of(cls, voyage: Voyage, store: Store) -> End:
        runtime, told = voyage.runtime(store), journal(store, voyage)
        asked = any("problem" in (entry.get("payload") or ()) for entry in told)
        return cls(status_of(runtime), voyage.state_of(runtime), told, asked)


def undisturbed(graph: Graph, kind: StoreKind, folder: Path, **options: Any) -> tuple[End, int]:
    """The end of an uninterrupted thread, and its number of commits."""
    trip = voyage(graph)
    store = make(kind, folder)
    watched = Mortal(store)
    try:
        with by_hand():
            go_on(trip, trip.runtime(watched, **options))
        return End.of(trip, store), len(watched.commits)
    finally:
        store.close()


def restart(
    graph: Graph, kind: StoreKind, folder: Path, chance: random.Random, *, cuts: int = 3, **options: Any
) -> list[int]:
    """A run that is interrupted after any of its commits and continues ends like an uninterrupted one, with the same
    entries.

    Returns:
        After how many commits it was interrupted.
    """
    expected, count = undisturbed(graph, kind, folder, **options)
    points = sorted(chance.sample(range(count), min(cuts, count)))
    for after in points:
        seen = cut_once(graph, kind, folder, after, chance, **options)
        same(seen.status, expected.status, f"status, cut after {after} commits")
        same(seen.state, expected.state, f"state, cut after {after} commits")
        if not seen.asked:
            same_journal(seen.journal, expected.journal, f"journal, cut after {after} commits")
    return points


def cut_once(graph: Graph, kind: StoreKind, folder: Path, after: int, chance: random.Random, **options: Any) -> End:
    """The end of the thread if it is interrupted there, and perhaps once more afterwards."""
    trip = voyage(graph)
    store = make(kind, folder)
    for cut in (after, *([chance.randrange(6)] if chance.random() < 0.5 else ())):
        dying = Mortal(store, after=cut, landed=chance.random() < 0.5)
        try:
            with by_hand(in_any_order(chance)):
                go_on(trip, trip.runtime(dying, **options))
        except PowerCutError:
            store = opened_again(store)
    try:
        with by_hand(in_any_order(chance)):
            go_on(trip, trip.runtime(store, **options))
        return End.of(trip, store)
    finally:
        store.close()


def same_journal(seen: list[dict[str, Any]], expected: list[dict[str, Any]], what: str) -> None:
    for at, (new, old) in enumerate(zip(seen, expected, strict=False)):
        assert new == old, f"{what}: line {at} is {new} instead of {old}"
    same([entry["event"] for entry in seen], [entry["event"] for entry in expected], what)
