"""A thread's meta: what helps to read its journal, and is not part of it. Names in order, and the graph it belongs to."""

from __future__ import annotations

from typing import Any, Final

from pydantic_core import from_json

from graphrt._journal.names import Names
from graphrt._plan.render import topology
from graphrt._plan.tables import Plan
from graphrt.errors import StoreError

PRELOADED_NAMES: Final = 512
"""Most names that are numbered before they are used, so that few commits bring new ones."""


def preload(names: Names, plan: Plan) -> None:
    """Number the names that the graph will use."""
    for name in [*plan.state.fields, *plan.by_name][:PRELOADED_NAMES]:
        names.put(name)


def renewed(
    meta: dict[str, Any], names: Names, known: int, fingerprint: str, plan: Plan | None
) -> dict[str, Any] | None:
    """*meta* with what changed: names beyond the first *known*, the graph. None if nothing did."""
    if len(names.known) == known and meta.get("fingerprint") == fingerprint:
        return None
    new = {**meta, "fingerprint": fingerprint, "names": list(names.known)}
    if plan is not None and meta.get("topology_of") != fingerprint:
        plan.shown = plan.shown or topology(plan)
        new["topology"] = plan.shown
        new["topology_of"] = fingerprint
    return new


def read_meta(meta: Any) -> dict[str, Any]:
    """A thread's meta."""
    if meta is None:
        return {}
    try:
        data = from_json(meta) if meta.__class__ is bytes else dict(meta)
    except ValueError as error:
        raise StoreError(
            "The thread's meta cannot be read.", code="store-damaged", fix="Restore the database from a backup."
        ) from error
    found: dict[str, Any] = data
    return found
