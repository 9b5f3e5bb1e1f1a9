"""What a caller passes to the Runtime's verbs, checked: limits, stream modes, answers. Nothing is run here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import typing_extensions as te

from graphrt._engine.engine import Engine
from graphrt._plan.fields import is_mapping
from graphrt.commands import UNSET
from graphrt.errors import InputError, names
from graphrt.events import Entry
from graphrt.limits import Limits
from graphrt.stores import MemoryStore, open_store

Mode: TypeAlias = Literal["values", "updates", "events", "custom", "messages"]
MODES: tuple[Mode, ...] = ("values", "updates", "events", "custom", "messages")
LIVE = frozenset({"custom", "messages"})
"""Modes whose items come while a node still runs."""


class RuntimeOptions(te.TypedDict, total=False):
    """The keyword arguments of `Runtime`; `CompiledGraph.run` takes them too."""

    store: MemoryStore | str | None
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


def opened_store(store: Any) -> MemoryStore | None:
    """The store that *store* is, or names by its URL."""
    if isinstance(store, str):
        return open_store(store)
    if store is not None and not hasattr(store, "claim"):
        raise InputError(
            f"store= must be a store or a URL, not a {type(store).__name__}.",
            code="unknown-store",
            fix='Use store="memory:", or open_store(...).',
        )
    opened: MemoryStore | None = store
    return opened


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


def answers_by_id(engine: Engine, answers: Any, answer: Any) -> Mapping[str, Any]:
    """The answers by interrupt id."""
    questions = engine.open_interrupts()
    where = engine.where()
    known = "; ".join(f"{q.id} asked by {q.node!r}: {q.payload!r}" for q in questions)
    if answer is not UNSET or not is_mapping(answers):
        single = answer if answer is not UNSET else answers
        if single is UNSET:
            raise InputError(
                "resume() was given no answer.", code="no-answer", where=where, known=known, fix="Pass answers."
            )
        if len(questions) != 1:
            raise InputError(
                f"One answer was given, but {len(questions)} interrupts are open.",
                code="ambiguous-answer",
                where=where,
                known=known,
                fix="Pass a mapping of interrupt id to answer.",
            )
        return {questions[0].id: single}
    unknown = [id_ for id_ in answers if id_ not in {q.id for q in questions}]
    if unknown:
        raise InputError(
            f"No open interrupt has the id {unknown[0]!r}.",
            code="unknown-interrupt",
            where=where,
            known=known,
            fix="Use the ids of result.interrupts; to give a mapping as the only answer, use answer=.",
        )
    if not answers:
        raise InputError("resume() was given no answer.", code="no-answer", where=where, known=known, fix="Pass one.")
    return dict(answers)
