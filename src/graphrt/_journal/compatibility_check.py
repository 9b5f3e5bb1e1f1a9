"""The check whether a thread may continue with the current graph (rule R14, decision 0022).

Rule R14: a thread stores the fingerprint of its graph (a digest of names, edges, policies and schema, without code). It
continues with a changed graph if the two are compatible or a migration is declared, and is refused otherwise.

The check compares the topology in the thread's meta with that of the graph. A topology is the graph as plain data:
`name`, `nodes`, `edges`, `state` with type and reducer of each field, and `classes` with the classes that the types
lead to; `changed_types` compares types and classes. The check also looks at what the stored entries still need: the
pending nodes, and the reducers of the fields that they write. Nothing is changed here; `migrate_thread` does that.

Entries with a path belong to nested graphs and are skipped, because their writes count when they reach the top. The
classes of a nested graph count while its node is pending.

The `loaded` data of a thread: its head (id, status, last entry), the newest snapshot, the records after it (the entries
of one commit each), and the bodies that are staged for tasks of the open superstep, by key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol

from graphrt import events
from graphrt._engine.emit_events import Logged
from graphrt._journal.changed_names import name_in_last_graph
from graphrt._journal.changed_types import Change, changed_classes, classes_with, type_change, without_classes
from graphrt._journal.compatibility import Compatibility
from graphrt._journal.reader import Reader
from graphrt._plan.render import topology
from graphrt._plan.tables import Plan
from graphrt.errors import InputError, StoreError, names
from graphrt.errors._codes.journal import GRAPH_CHANGED, OLDER_BUILD, OLDER_BUILD_CANNOT_READ, OTHER_GRAPH
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.migrations import Migration
from graphrt.stores.values import StoredThread


class GraphLike(Protocol):
    """The properties of a compiled graph that a journal and a run need; its class is in a higher layer."""

    __graphrt_plan__: Plan
    """The checked graph: its nodes, edges and fields."""

    @property
    def fingerprint(self) -> str:
        """Digest of the graph."""
        ...


def judge(
    graph: GraphLike,
    meta: Mapping[str, Any],
    reader: Reader,
    loaded: StoredThread,
    migrations: Sequence[Migration] = (),
) -> Compatibility:
    """Return the verdict on the thread that was *loaded*. Called before a thread is folded, and for reports.

    Args:
        graph: The present graph.
        meta: The thread's meta, as `read_meta` returns it.
        reader: Decodes the thread's records. For a changed graph it gets a codec that reads values that no longer fit
            their class as plain data.
        migrations: Declared migrations; the first one for the thread's fingerprint counts.

    Raises:
        StoreError: The thread's meta or an entry is damaged.
    """
    try:
        return _judged(graph, meta, reader, loaded, migrations)
    except (LookupError, ValueError, TypeError, AttributeError) as error:  # the topology is not what graphrt writes
        raise STORE_DAMAGED(
            problem=f"The meta of thread {loaded.head.thread!r} cannot be read",
            thread=loaded.head.thread,
            seq=None,
            known=f"its topology is not what graphrt writes: {type(error).__name__}: {str(error)[:80]}",
        ) from error


def _judged(
    graph: GraphLike, meta: Mapping[str, Any], reader: Reader, loaded: StoredThread, migrations: Sequence[Migration]
) -> Compatibility:
    """Implementation of `judge`, which converts errors on a malformed topology to a StoreError."""
    head = loaded.head
    source, target = str(meta.get("fingerprint", "")), graph.fingerprint
    plan: Plan = graph.__graphrt_plan__
    last = int(meta.get("version", 0))
    common: dict[str, Any] = {
        "thread": head.thread, "status": head.status, "source": source, "target": target, "version": last
    }  # fmt: skip
    if plan.spec.version < last and head.status != "completed":
        common["waits_for"] = f"version {last} drove it last, this is version {plan.spec.version}"
    # No fingerprint: no commit has set the meta yet. An identical graph gets no `pending`, which a run does not need.
    if not source or source == target:
        return Compatibility(kind="identical", **common)
    before: Mapping[str, Any] = meta.get("topology") or {}
    now = topology(plan)
    # Values of older classes are checked too. The caller then sets the codec for further reading.
    reader.codec = plan.codec.forgiving()
    named = _pending(reader, loaded)
    common["pending"] = _in_last_graph(named, meta)
    # Until a first task of a run has recorded something, the current graph decides where START leads: nodes of the last
    # one may be gone.
    is_open = named is not None or _has_records(reader, loaded)
    waiting: tuple[str, ...] = common["pending"] if is_open else ()
    migration = next((known for known in migrations if known.matches(source)), None)
    renamed: Mapping[str, str] = migration.nodes if migration is not None else {}
    blocking: list[str] = []
    changes: list[str] = []
    if before.get("name") != now["name"]:
        blocking.append(f"the thread belongs to graph {before.get('name')!r}, this one is {now['name']!r}")
    led_to = _led_to(reader, loaded)
    due = (*(named or ()), *(target for _, target in led_to))
    _reused(chain(due, _arrived(reader, loaded)), meta, renamed, plan, blocking)
    in_last = [(name_in_last_graph(name, meta), name_in_last_graph(target, meta)) for name, target in led_to]
    _nodes(before, now, waiting, in_last, renamed, blocking, changes)
    first, present_first = _first(before, renamed), _first(now, {})
    if is_open and named is None and first != present_first:  # tasks are known by their place: a record has no other
        blocking.append(f"START leads to {names(present_first)} now, but nodes {names(first)} are pending behind it")
    written = _written(reader, loaded)
    waits = _waiting_updates(reader, loaded)
    changed = _fields(before, plan, written, waits, migration, blocking, changes)
    removed = before.get("classes", {}).keys() - now.get("classes", {}).keys()
    classes = classes_with(changed | removed, before.get("classes", {}))
    _updates(before, now, plan, written, waits, blocking, changes)
    for name in dict.fromkeys(waiting or _entered(before, head.status)):
        present = plan.by_name.get(renamed.get(name, name))
        for node in before.get("nodes", ()):
            if node["name"] == name and "graph" in node and present is not None and present.child is not None:
                # A migration only gets the values of the outermost graph.
                _sort_out(_nested(f"{present.name}/", node["graph"], present.child), blocking, changes)
    if before.get("edges") != now["edges"]:
        changes.append("edges changed: what is pending keeps its place, routes are chosen as the graph says now")
    if blocking:
        return Compatibility(kind="incompatible", reasons=(*blocking, *changes), classes=classes, **common)
    if plan.spec.version == last and head.status != "completed" and migration is None:
        common["waits_for"] = _lacks(before, now)
    if migration is not None:
        return Compatibility(kind="migrated", reasons=tuple(changes), classes=classes, migration=migration, **common)
    return Compatibility(kind="compatible", reasons=tuple(changes) or ("policies or versions changed",), **common)


def _lacks(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the nodes or fields of the thread's graph that the current one lacks, as a sentence; empty for none.

    The current graph may then be the older one. Its shape cannot show that, but `GraphBuilder(version=)` can. The
    sentence becomes `Compatibility.waits_for`: the thread is refused until a newer build drives it.

    Args:
        before: Topology of the thread's graph.
        now: Topology of the present graph.
    """
    present = {node["name"]: node for node in now["nodes"]}
    removed = [node["name"] for node in before.get("nodes", ()) if node["name"] not in present]
    if removed:
        return f"its graph has nodes {names(removed)}, which this build lacks"
    fields = [name for name in before.get("state", {}) if name not in now["state"]]
    if fields:
        return f"its graph has fields {names(fields)}, which this build lacks"
    for node in before.get("nodes", ()):
        current = present[node["name"]]
        inner = _lacks(node["graph"], current["graph"]) if "graph" in node and "graph" in current else ""
        if inner:
            return f"in its node {node['name']!r}, {inner}"
    return ""


def _nodes(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    waiting: Sequence[str],
    led_to: Sequence[tuple[str, str]],
    renamed: Mapping[str, str],
    blocking: list[str],
    changes: list[str],
) -> None:
    """Compare nodes. Obstacles are added to *blocking* and other changes to *changes*, both as sentences.

    Args:
        before: Topology of the thread's graph.
        now: Topology of the present graph.
        waiting: Names of the pending nodes. These must still exist and be of the same kind.
        led_to: What `_led_to` returns, by the names in the thread's last graph. These targets must still exist.
        renamed: Maps older to current names, from the declared migration.
    """
    old = {node["name"]: node for node in before.get("nodes", ())}
    new = {node["name"]: node for node in now["nodes"]}
    for name in dict.fromkeys(waiting):
        # `kind`: a function, a nested graph, or one chosen at run time; `graph`: topology of a nested one.
        current = new.get(renamed.get(name, name))
        if current is None and name in renamed:
            blocking.append(
                f"node {name!r} is pending, but this graph has no {renamed[name]!r}, its name by the migration"
            )
        elif current is None:
            blocking.append(f"node {name!r} is pending, but no longer exists in this graph")
        elif name in old and (current["kind"] != old[name]["kind"] or _wiring(current) != _wiring(old[name])):
            nested = "graph" in current and "graph" in old[name]
            what = "its nested graph was changed" if nested else "was changed to or from a node of a nested graph"
            blocking.append(f"node {name!r} is pending, and {what}")
        elif name in old and current.get("version") != old[name].get("version"):
            changes.append(f"node {name!r} is pending and has another version")
    for name, target in led_to:
        # END is a target, but not a node of either graph.
        if target in old and renamed.get(target, target) not in new:
            blocking.append(
                f"a finished task of node {name!r} leads to node {target!r}, which no longer exists in this graph"
            )
    # Without a common node, it is another graph. This explains all other reasons, so it comes first.
    if old and not {renamed.get(name, name) for name in old} & new.keys():
        blocking.insert(0, f"the thread belongs to another graph: of its nodes {names(old)} this one has none")
    removed = [name for name in old if name not in new]
    added = [name for name in new if name not in old]
    if removed:
        changes.append(f"nodes {names(removed)} are gone")
    if added:
        changes.append(f"nodes {names(added)} are new")


def _reused(
    stored: Iterable[str], meta: Mapping[str, Any], renamed: Mapping[str, str], plan: Plan, blocking: list[str]
) -> None:
    """Add to *blocking* each renamed node of *stored* whose stored name now belongs to another node.

    A stored name means the node that has it now, so that the work of one node would go to another.

    Args:
        stored: Names of pending nodes, of targets of finished tasks, and of nodes that arrived at a join, as stored. Read
            only if a node was renamed.
        meta: The thread's meta, which has earlier renames.
        renamed: Maps older to current names, from the declared migration.
        plan: The present graph.
    """
    if not (renamed or meta.get("renamed")):
        return
    for name in dict.fromkeys(stored):
        last = name_in_last_graph(name, meta)
        present = renamed.get(last, last)
        if present != name and name in plan.by_name and present in plan.by_name:
            blocking.append(
                f"node {name!r} is {present!r} now, but this graph has another node {name!r}, which would get its work"
            )


def _arrived(reader: Reader, loaded: StoredThread) -> Iterator[str]:
    """Yield the names of the nodes that arrived at a join, as stored; none if the thread is completed.

    Reads all records, once the first name is asked for.
    """
    if loaded.head.status == "completed":
        return
    joins = list(reader.saved(loaded.snapshot.body, loaded.snapshot.seq).joins) if loaded.snapshot is not None else []
    for record in loaded.records:
        for path, event in reader.batch(record).logged:
            if not path:
                source = event.state if isinstance(event, events.ThreadForked) else event
                joins += getattr(source, "joins", ())
    yield from (name for join in joins for name in join.arrived)


def _fields(
    before: Mapping[str, Any],
    plan: Plan,
    written: Collection[str],
    waits: Collection[str],
    migration: Migration | None,
    blocking: list[str],
    changes: list[str],
) -> set[str]:
    """Compare fields, and the classes that they lead to.

    A changed reducer cannot fold old entries again. A changed or missing field needs a migration.

    Args:
        before: Topology of the thread's graph.
        plan: The present graph.
        written: Fields that stored entries fold values into.
        waits: Result of `_waiting_updates`. These are folded after the migration, which does not receive them.
        migration: The declared migration; if it has a function for the values, that function handles changed fields.
        blocking: Obstacles are added here, as sentences.
        changes: Other changes are added here.

    Returns:
        Names of the classes that changed so that stored values may not fit.
    """
    now = topology(plan)
    old, new = before.get("state", {}), now["state"]
    migrated = migration is not None and migration.values is not None
    obstacles = changes if migrated else blocking  # of those handled by a function for the values
    same: dict[str, tuple[Any, Any]] = {}
    misfits: list[Change] = []
    for name, field in old.items():
        current = new.get(name)
        if current is None:
            misfits.append(Change(f"field {name!r} is gone from the state", fits=False))
            continue
        if current["reducer"] != field["reducer"]:
            # Also with a migration: it gets the folded values, after the reducer has run.
            what = f"field {name!r} has the reducer {current['reducer']} now, and had {field['reducer']}"
            # A snapshot holds the result of the older reducer; only entries after it are folded again.
            if name in written:
                blocking.append(
                    f"{what}, which folded entries that are still there (prune() them with the older graph)"
                )
            else:
                changes.append(what)
        change = type_change(name, field, current)
        if change is not None:
            misfits.append(change)
        if change is None or change.fits:
            same[name] = field, current
    type_changes = [*misfits, *_classes(before, now, plan, same)]
    _sort_out(type_changes, obstacles, changes)
    if migrated:
        for name in old:
            pair = {name: same[name]} if name in same else {}
            if name in waits and not (pair and all(change.fits for change in _classes(before, now, plan, pair))):
                blocking.append(
                    f"a finished task waits to write field {name!r}, which is gone or does not fit any more"
                )
    added = [name for name in new if name not in old]
    bare = [name for name in added if plan.state.fields[name].required]  # without a default, and not optional
    if bare:
        obstacles.append(f"field {bare[0]!r} is new and has no default")
    if len(added) > len(bare):
        changes.append(f"fields {names(name for name in added if name not in bare)} are new")
    return {name for change in type_changes for name in change.classes}


def _classes(
    before: Mapping[str, Any], now: Mapping[str, Any], plan: Plan, same: Mapping[str, tuple[Any, Any]]
) -> list[Change]:
    """Return the changes of the classes in the types of *same*.

    Args:
        before: Topology of an older graph.
        now: Topology of the present one, which *plan* is.
        plan: The present graph.
        same: By path, the older and the current type, if they are equal or the older one fits.
    """
    from graphrt._codec.registry import registered_classes  # loads the codec, which a run without a store does not need

    # Their stored form is defined by user functions.
    custom = {cls.__qualname__ for cls, entry in registered_classes().items() if entry.by_functions}
    return changed_classes(before.get("classes", {}), now.get("classes", {}), same, plan.classes.bare, custom)


def _nested(path: str, before: Mapping[str, Any], plan: Plan) -> list[Change]:
    """Return the changes of the classes of a nested graph of a pending node, and of the graphs inside it.

    Args:
        path: Where it is in the graph at the top, for instance `draft/`.
        before: Its topology in the thread's graph. That of *plan* differs only in classes, or is already an obstacle.
        plan: The present nested graph.
    """
    now = topology(plan)
    old, new = before["state"], now["state"]
    changes = _classes(before, now, plan, {f"{path}{name}": (old[name], new[name]) for name in old if name in new})
    for node in before["nodes"]:
        present = plan.by_name.get(node["name"])
        if "graph" in node and present is not None and present.child is not None:
            changes += _nested(f"{path}{node['name']}/", node["graph"], present.child)
    return changes


def _entered(before: Mapping[str, Any], status: str) -> list[str]:
    """Return the nodes that START may lead to, which may be open before the first commit; None if all is done."""
    return [edge["to"] for edge in before.get("edges", ()) if edge["from"] == "START"] if status != "completed" else []


def _first(topology: Mapping[str, Any], renamed: Mapping[str, str]) -> list[str]:
    """Return the nodes that START leads to, in task order, by the names of a migration."""
    targets = {edge["to"] for edge in topology.get("edges", ()) if edge["from"] == "START"}
    nodes = (node["name"] for node in topology.get("nodes", ()) if node["name"] in targets)
    return [renamed.get(name, name) for name in nodes]


def _has_records(reader: Reader, loaded: StoredThread) -> bool:
    """Return whether a task of the first superstep has a question, an effect, a reply or an outcome, not just failures.

    The records are those of the last run, for a thread whose run has not committed.
    """
    for _, event in _staged(reader, loaded):
        if _is_record(event):
            return True
    for record in reversed(loaded.records):
        for path, event in reversed(reader.batch(record).logged):
            if not path and isinstance(event, events.RunStarted):
                return False
            if _is_record(event):
                return True
    return False


def _is_record(event: events.Event) -> bool:
    """Return whether a node that runs again reads the event of its task."""
    return hasattr(event, "task") and not isinstance(event, (events.TaskFailed, events.TaskRetried))


def _wiring(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the topology of a node's nested graph without classes, which are checked separately; None for none."""
    return without_classes(node["graph"]) if "graph" in node else None


def _sort_out(type_changes: Sequence[Change], obstacles: list[str], changes: list[str]) -> None:
    """Add each change to *obstacles* if stored values may no longer fit, else to *changes*."""
    for change in type_changes:
        (changes if change.fits else obstacles).append(change.what)


def _updates(
    older: Mapping[str, Any],
    present: Mapping[str, Any],
    plan: Plan,
    written: Collection[str],
    waits: Collection[str],
    blocking: list[str],
    changes: list[str],
) -> None:
    """Compare the reducers of the whole state, and the types of their updates; the lists are those of `_fields`.

    Args:
        older: Topology of the thread's graph.
        present: Topology of the present graph.
        plan: The present graph.
        written: What `_written` returns.
        waits: What `_waiting_updates` returns.
    """
    before, now = older.get("update"), present.get("update")
    if before is not None and now is not None and before["reducer"] == now["reducer"]:
        change = type_change("update", before, now)
        if change is None or change.fits:
            type_changes = [change] if change is not None else []
            type_changes += _classes(older, present, plan, {"update": (before, now)})
            _sort_out(type_changes, blocking if written or waits else changes, changes)
            return
    if before == now:
        return

    def described(update: Any) -> str:
        return (
            "reducers of fields"
            if update is None
            else f"the reducer {update['reducer']} of updates of the type {update['type']}"
        )

    what = f"the graph has {described(now)} now, and had {described(before)}"
    (blocking if written else changes).append(f"{what}, which folded entries that are still there" if written else what)


def _written(reader: Reader, loaded: StoredThread) -> set[str]:
    """Return the fields that the entries after the snapshot fold values into: their reducers are still needed.

    Raises:
        StoreError: A record is damaged. Reducers cannot be judged without it, so `judge` raises as well.
    """
    fields: set[str] = set()
    for record in loaded.records:
        for path, event in reader.batch(record).logged:
            if path:
                continue
            if isinstance(event, events.SuperstepCommitted):
                fields |= set(event.wrote)
            elif isinstance(event, events.ThreadUpdated):
                fields |= set(event.values)
            # The input of a new thread becomes its state unchanged, without reducers (R7).
            elif isinstance(event, events.RunStarted) and not event.fresh:
                fields |= set(event.input)
    return fields


def pending(meta: Mapping[str, Any], reader: Reader, loaded: StoredThread) -> tuple[str, ...]:
    """Return the names of the nodes that are due or open, in task order, from the stored data of the thread alone.

    They are the names in the thread's last graph. The current graph is not needed, so this also works for a thread that
    it cannot fold. Before the first commit of a run they are the targets of START, if none of its edges has a router.

    Raises:
        StoreError: The snapshot is damaged. For a damaged record, the result is empty.
    """
    return _in_last_graph(_pending(reader, loaded), meta)


def _in_last_graph(named: Sequence[str] | None, meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the nodes *named* in the thread's last graph; for None, the targets of its START."""
    if named is not None:
        return tuple(name_in_last_graph(name, meta) for name in named)
    topology: Mapping[str, Any] = meta.get("topology") or {}
    edges: Iterable[Mapping[str, Any]] = topology.get("edges", ())
    begins = [edge for edge in edges if edge["from"] == "START"]
    return tuple(edge["to"] for edge in begins) if all(edge["kind"] == "static" for edge in begins) else ()


def _pending(reader: Reader, loaded: StoredThread) -> tuple[str, ...] | None:
    """Return the result of `pending`, with the names used in the entries; None before the first commit of a run."""
    if loaded.head.status == "completed":
        return ()
    # Newest first: the last entry that names the due nodes is the valid one.
    for record in reversed(loaded.records):
        try:
            logged = reader.batch(record).logged
        except StoreError:  # no names; `_written`, or folding the thread, reports the damage
            return ()
        for path, event in reversed(logged):
            if path:
                continue
            if isinstance(event, (events.SuperstepCommitted, events.TasksRouted)):
                return event.next
            # None if the edit did not change them.
            if isinstance(event, events.ThreadUpdated) and event.next is not None:
                return event.next
            if isinstance(event, events.ThreadForked):
                return event.state.next
            if isinstance(event, events.RunStarted):
                return None
    return reader.saved(loaded.snapshot.body, loaded.snapshot.seq).next if loaded.snapshot is not None else ()


def _waiting_updates(reader: Reader, loaded: StoredThread) -> set[str]:
    """Return the fields that finished tasks of the open superstep have updates for, which its commit will fold."""
    return {
        name
        for _, event in _staged(reader, loaded)
        if isinstance(event, events.TaskSucceeded)
        for update in event.updates
        for name in update
    }


def _staged(reader: Reader, loaded: StoredThread) -> Iterator[Logged]:
    """Yield the staged data of tasks of the graph at the top, with the empty path of each."""
    for key, body in loaded.staged:
        try:
            logged = reader.staged(key, body)
        except StoreError:  # skipped here; restoring the open superstep reports the damage
            continue
        yield from (pair for pair in logged if not pair[0])


def _led_to(reader: Reader, loaded: StoredThread) -> list[tuple[str, str]]:
    """Return the targets of the Commands of finished tasks whose superstep is not committed: pairs of node and target.

    Both have the names used when they were staged. The commit will use these targets. Other tasks will follow the edges
    of the graph at that time.
    """
    targets: list[tuple[str, str]] = []
    for _, event in _staged(reader, loaded):
        if isinstance(event, events.TaskSucceeded):
            # Targets in the enclosing graph are found at the task that runs the nested graph.
            targets += [(event.node, target) for target in (() if event.above else event.goto or ())]
    return targets


def refusal(verdict: Compatibility) -> InputError:
    """Return the error for a thread that may not continue: it belongs to another graph, or its graph has changed."""
    if verdict.waits_for:
        return OLDER_BUILD_CANNOT_READ(
            obstacle=verdict.reasons[0],
            thread=verdict.thread,
            reason=verdict.waits_for,
            status=verdict.status,
            nodes=verdict.pending,
            source=verdict.source[:12],
            target=verdict.target[:12],
        )
    # Prefix of the messages of `_judged` and `_nodes` about another graph, which come first.
    is_other_graph = verdict.reasons[0].startswith("the thread belongs to")
    thread, status, reason, nodes = verdict.thread, verdict.status, verdict.reasons[0], verdict.pending
    source = verdict.source[:12]
    known = "; ".join(verdict.reasons[1:]) or f"its fingerprint is {source}, this is {verdict.target[:12]}"
    if is_other_graph:
        return OTHER_GRAPH(thread=thread, reason=reason, status=status, nodes=nodes, known=known)
    return GRAPH_CHANGED(thread=thread, reason=reason, source=source, status=status, nodes=nodes, known=known)


def older_build(verdict: Compatibility) -> InputError:
    """Return the error for a thread that waits for a newer build than this one."""
    return OLDER_BUILD(
        thread=verdict.thread,
        reason=verdict.waits_for,
        status=verdict.status,
        nodes=verdict.pending,
        source=verdict.source[:12],
        target=verdict.target[:12],
    )
