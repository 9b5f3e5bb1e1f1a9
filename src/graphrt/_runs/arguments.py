"""What a caller passes to the Runtime, checked: store, durability, limits, stream modes. Nothing is run here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias

import typing_extensions as te

from graphrt._journal.modes import DURABILITIES, Durability
from graphrt.errors import InputError, names
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.migrations import Migration
from graphrt.stores import Store, open_store
from graphrt.stores.protocol import METHODS

Mode: TypeAlias = Literal["values", "updates", "events", "custom", "messages"]
MODES: tuple[Mode, ...] = ("values", "updates", "events", "custom", "messages")
LIVE = frozenset({"custom", "messages"})
"""Modes whose items come while a node still runs."""


class RuntimeOptions(te.TypedDict, total=False):
    """The keyword arguments of `Runtime`; `CompiledGraph.run` takes them too."""

    store: Store | str | None
    durability: Durability
    chain: bool | None
    lease_s: float
    migrations: Sequence[Migration]
    harness: Any
    deps: Any
    limits: Limits | None
    sinks: Sequence[Callable[[Entry], Any]]
    clock: Callable[[], float] | None
    ids: Callable[[], str] | None
    seed: int | None
    check_state: bool


def new_id() -> str:
    """A random id."""
    from uuid import uuid4

    return uuid4().hex


def opened_store(store: Any) -> Store | None:
    """The store that *store* is, or names by its URL."""
    if isinstance(store, str):
        return open_store(store)
    missing = [name for name in METHODS if store is not None and not hasattr(store, name)]
    if missing:
        raise InputError(
            f"store= must be a store or a URL, not a {type(store).__name__}.",
            code="unknown-store",
            known=f"it has no {names(missing, most=3)}",
            fix='Use store="sqlite:///runs.db", store="memory:", or open_store(...).',
        )
    opened: Store | None = store
    return opened


def checked_durability(durability: Any) -> Durability:
    """*durability*, if there is such a one."""
    if durability not in DURABILITIES:
        raise InputError(
            f"There is no durability {durability!r}.",
            code="bad-durability",
            known=names(DURABILITIES),
            fix="Use 'sync' unless losing the last entries in a crash is worth the time.",
        )
    chosen: Durability = durability
    return chosen


def checked_lease(lease_s: Any) -> float:
    """*lease_s*, if it is a number of seconds above 0."""
    if isinstance(lease_s, bool) or not isinstance(lease_s, (int, float)) or not 0 < lease_s < 86_400 * 365:
        raise InputError(
            f"lease_s= must be a number of seconds above 0, not {lease_s!r}.",
            code="bad-lease",
            fix="Pass seconds: how long a thread stays taken when its owner cannot be asked.",
        )
    return float(lease_s)


def checked(limits: Any) -> Limits:
    """*limits*, if they can be used."""
    if not isinstance(limits, Limits):
        raise InputError(f"limits= must be Limits(...), not {limits!r}.", code="bad-limit", fix="Pass Limits(...).")
    found = list(limits.problems())
    if found:
        raise InputError(f"The limits cannot be used: {'; '.join(found)}.", code="bad-limit", fix="Correct them.")
    return limits


def stream_modes(modes: Iterable[str] | str) -> frozenset[str]:
    """The stream modes that *modes* names."""
    wanted = (modes,) if isinstance(modes, str) else tuple(modes)
    unknown = [mode for mode in wanted if mode not in MODES]
    if unknown or not wanted:
        raise InputError(
            f"There is no stream mode {unknown[0]!r}." if unknown else "modes= names no mode.",
            code="bad-mode",
            known=names(MODES),
            fix="Choose one or several of the known modes.",
        )
    return frozenset(wanted)
