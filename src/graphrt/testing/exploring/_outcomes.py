"""The differences between the outcomes of two cases, as kinds of bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from graphrt.events import InterruptAnswered, InterruptRaised, TaskSucceeded
from graphrt.testing.exploring._disturbances import INSERTED, PAUSE
from graphrt.testing.exploring._lives import Outcome
from graphrt.testing.exploring._values import differs, fields_of, short
from graphrt.testing.exploring._wires import wire_differences

_MAX_LENGTH = 300
"""Maximum number of characters of a value in a text."""


def differences(
    wanted: Outcome, actual: Outcome, *, state_only: bool = False, asks_anew: bool = False, same_journal: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield pairs (kind, text) for the differences of *actual* from *wanted*, causes before effects.

    Args:
        wanted: The outcome of the undisturbed run.
        actual: The outcome to compare.
        state_only: Ignore effects, questions and usage.
        asks_anew: Whether a question may legitimately be asked again.
        same_journal: Whether the process was only stopped, so that the commits must be the same.
    """
    yield from actual.faults
    if wanted.status != actual.status or wanted.error != actual.error:
        yield "not-resumable", f"The run ended {_ended(actual)}, and undisturbed {_ended(wanted)}."
        return
    if not state_only:
        yield from _world(wanted, actual)
        yield from _memories(wanted, actual)
        yield from _questions(wanted, actual, asks_anew=asks_anew)
        if wanted.usage != actual.usage:
            yield "budget-differs", f"usage {actual.usage}, undisturbed {wanted.usage}"
    yield from _states(wanted, actual)
    # A run that failed is retried after a crash, which begins another run.
    if same_journal and not wanted.error and _unknown_effects(wanted) == _unknown_effects(actual):
        yield from wire_differences(wanted.entries, actual.entries)


def _unknown_effects(outcome: Outcome) -> int:
    """Return how often a person was asked for the outcome of an effect, which is correct after some crashes."""
    return sum(isinstance(entry.event, InterruptRaised) and entry.event.kind == "effect" for entry in outcome.entries)


def _world(wanted: Outcome, actual: Outcome) -> Iterator[tuple[str, str]]:
    before, after = Counter(map(repr, wanted.once)), Counter(map(repr, actual.once))
    if more := after - before:
        yield "double-effect", f"It happened more often than in the undisturbed run: {_short(list(more))}"
    if less := before - after:
        yield "lost-effect", f"It did not happen: {_short(list(less))}"


def _memories(wanted: Outcome, actual: Outcome) -> Iterator[tuple[str, str]]:
    names = sorted({*wanted.memory, *actual.memory})
    for name in names:
        before, after = (outcome.memory.get(name, "missing") for outcome in (wanted, actual))
        if differs(before, after):
            item = f"Item {name[1]!r} of the memory {name[0]!r}"
            yield "memory-differs", f"{item} is {_short(after)}, and undisturbed {_short(before)}."
            return


def _questions(wanted: Outcome, actual: Outcome, *, asks_anew: bool) -> Iterator[tuple[str, str]]:
    before, after = _answered(wanted), _answered(actual)
    for node, _ in () if asks_anew else after - before:
        yield "interrupt-answered-twice", f"A question of node {node!r} had to be answered once more."
        return
    for node, _ in before - after:
        yield "lost-answer", f"An answer to node {node!r} is not in the journal."
        return


def _answered(outcome: Outcome) -> Counter[tuple[str, str]]:
    nodes = {
        entry.event.id: entry.event.node
        for entry in outcome.entries
        if isinstance(entry.event, InterruptRaised) and entry.event.kind == "question" and not _own(entry.event.payload)
    }
    return Counter(
        (nodes[entry.event.id], repr(entry.event.answer))
        for entry in outcome.entries
        if isinstance(entry.event, InterruptAnswered) and entry.event.id in nodes
    )


def _own(payload: Any) -> bool:
    """Return whether the explorer asked this question, not a node."""
    return isinstance(payload, str) and payload in {PAUSE, INSERTED}


def _tasks(outcome: Outcome) -> dict[tuple[str, str], Any]:
    return {
        (f"{entry.path}/{entry.event.task}", entry.event.node): (entry.event.updates, entry.event.goto)
        for entry in outcome.entries
        if isinstance(entry.event, TaskSucceeded)
    }


def _states(wanted: Outcome, actual: Outcome) -> Iterator[tuple[str, str]]:
    before, after = fields_of(wanted.state), fields_of(actual.state)
    names = [name for name in {**before, **after} if differs(before.get(name), after.get(name))]
    if not names:
        return
    name = names[0]
    kind = "order-changed" if _reordered(before.get(name), after.get(name)) else "state-differs"
    text = f"Field {name!r} is {_short(after.get(name))}, and undisturbed {_short(before.get(name))}."
    actual_tasks = _tasks(actual)
    nodes = [
        node
        for (task, node), did in _tasks(wanted).items()
        if (task, node) in actual_tasks and actual_tasks[task, node] != did
    ]
    yield kind, text + (f" Node {nodes[0]!r} returned something else." if nodes else "")


def _reordered(before: Any, after: Any) -> bool:
    both = before.__class__ is list and after.__class__ is list
    return both and Counter(map(repr, before)) == Counter(map(repr, after))


def _ended(outcome: Outcome) -> str:
    return outcome.status + (f" ({_short(outcome.error)})" if outcome.error else "")


def _short(value: Any) -> str:
    return value[:_MAX_LENGTH] if isinstance(value, str) else short(value, _MAX_LENGTH)
