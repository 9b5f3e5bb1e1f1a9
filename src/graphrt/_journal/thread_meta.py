"""The meta of a thread: data that is needed to read its journal, and is not part of it.

It contains the names of nodes and fields in the order of their numbers, by which the journal refers to them; the
graph's fingerprint (a digest) and topology (the graph as plain data); the id of the thread with which the hash chain
began and, for a copy, its own id; and the version of the build that drove the thread last, if it has one. It also lists
the fields, nodes and joins that later versions of the graph removed, renamed or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from graphrt._journal.body import Names
from graphrt._journal.changed_names import are_joins
from graphrt._plan.render import topology
from graphrt._plan.tables import Plan
from graphrt.errors import StoreError
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.events import ThreadCopied

if TYPE_CHECKING:
    from graphrt._engine.emit_events import Logged

PRELOADED_NAMES: Final = 512
"""Maximum number of names that are numbered before their first use, so that few commits introduce new names."""


def preload(names: Names, plan: Plan) -> None:
    """Number the names of the graph's fields and nodes in advance, for a new thread."""
    for name in [*plan.state.fields, *plan.by_name][:PRELOADED_NAMES]:
        names.put(name)


def renewed(
    meta: dict[str, Any], names: Names, known: int, fingerprint: str, plan: Plan | None
) -> dict[str, Any] | None:
    """Return *meta* with the changes, or None if nothing changed. The writer stores the result with its commit.

    Args:
        meta: The meta as it is stored.
        names: All current names.
        known: Number of names in *meta*; later ones are new.
        fingerprint: Fingerprint of the thread's graph.
        plan: The graph, whose topology is stored with a new fingerprint; None keeps the topology.
    """
    version = plan.spec.version if plan is not None else meta.get("version", 0)
    if len(names.known) == known and meta.get("fingerprint") == fingerprint and meta.get("version", 0) == version:
        return None
    new = {**meta, "fingerprint": fingerprint, "names": list(names.known)}
    if version or "version" in meta:
        new["version"] = version
    # `topology_of` is the fingerprint of the graph whose topology is stored.
    if plan is not None and meta.get("topology_of") != fingerprint:
        plan.shown = plan.shown or topology(plan)  # made once for each graph
        new["topology"] = plan.shown
        new["topology_of"] = fingerprint
    return new


def read_meta(meta: bytes | None, thread: str) -> dict[str, Any]:
    """Decode the meta of *thread*; empty if there is none.

    Raises:
        StoreError: It is damaged (`store-damaged`), or encrypted (`missing-key`).
    """
    if meta is None:
        return {}
    try:
        data = from_json(meta)
        damaged_part = _wrong(data)
    except (ValueError, TypeError) as error:
        from graphrt.stores._sealing import refuse_sealed  # imported here: only stores with keys need it

        refuse_sealed(meta, thread)  # raises for encrypted meta, which is not JSON either but needs different advice
        raise _damaged(thread, str(error)[:80]) from error
    if damaged_part:
        raise _damaged(thread, f"its {damaged_part} is not what graphrt writes")
    contents: dict[str, Any] = data
    return contents


def name_in(meta: Mapping[str, Any]) -> str:
    """Return the id, with its tenant, of the thread that *meta* belongs to; empty if it has none."""
    return str(meta.get("name") or meta.get("chained") or "")


def name_after(logged: Iterable[Logged], name: str) -> str:
    """Return the id of the thread to which entries after *logged* belong: another thread if these name a copy.

    Args:
        name: Id of the thread to which the earlier entries belong.

    Raises:
        StoreError: An entry says that the thread is a copy of another one than *name*.
    """
    for _, event in logged:
        if isinstance(event, ThreadCopied):
            if event.source != name:
                raise STORE_DAMAGED(
                    problem=f"An entry says that thread {event.thread!r} is a copy of {event.source!r}, and the entries"
                    f" before it are those of {name!r}",
                    thread=None,
                    seq=None,
                )
            name = event.thread
    return name


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "fingerprint": (str,),
    "topology": (dict,),
    "topology_of": (str,),
    "chained": (str, NoneType),
    "name": (str,),
    "gone": (dict,),
    "renamed": (dict,),
    "joins": (list,),
    "plain": (bool,),
}
"""Allowed classes of the value, by key; each key may be missing."""


def _wrong(data: Any) -> str | None:
    """Return the part of *data* that does not have the form of a meta; None if all of it does."""
    if data.__class__ is not dict:
        return "type"
    names = data.get("names", [])
    if names.__class__ is not list or not all(name.__class__ is str for name in names):
        return "list of names"
    for key, kinds in _KINDS.items():
        if key in data and data[key].__class__ not in kinds:
            return key
    texts = (*data.get("gone", {}).values(), *data.get("renamed", {}).values())
    is_right = all(text.__class__ is str for text in texts) and ("joins" not in data or are_joins(data["joins"]))
    return None if is_right else "list of what changed"


def _damaged(thread: str, why: str) -> StoreError:
    """Return the error for a meta that graphrt cannot have written; *why* is a clause."""
    return STORE_DAMAGED(problem=f"The meta of thread {thread!r} cannot be read", thread=thread, seq=None, known=why)
