"""Parses the result of a LangGraph node into updates and targets.

A node may return a mapping, an object with annotated attributes, a `Command`, a list of these, a `Send`, or None. Keys that
are not channels are dropped, as LangGraph does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from langgraph.types import Command, Send

from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._fields import Fields
from graphrt.compat.langgraph._read import END, ROOT, START

_ROOT_ALONE: Final = frozenset({ROOT})


@final
class Outcome:
    """The updates and targets of one task, in the order in which they were found."""

    __slots__ = ("commanded", "goto", "updates")

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        """0..n updates, unconverted; a later one folds on top of an earlier one."""
        self.goto: list[Any] = []
        """Names of nodes, and Sends. END is left out, because it adds no task."""
        self.commanded: bool = False
        """Whether a Command or a Send chose targets."""


def outcome_of(returned: Any, fields: Fields, writes: Sequence[tuple[str, Any]] = ()) -> Outcome:
    """Return the writes and targets in *returned*, the result of a node.

    Args:
        returned: The result.
        fields: The fields of its graph.
        writes: What the node wrote besides its result, for instance by `push_message`.

    Raises:
        ParentCommand: It is, or has, a Command for the graph above.
        InvalidUpdateError: It is not an update.
    """
    outcome = Outcome()
    if writes:
        _add(outcome, writes, fields)
    if returned.__class__ is dict and ROOT not in fields.channels:
        _add(outcome, returned.items(), fields)
    elif returned is not None:
        _read(outcome, returned, fields)
    return outcome


def _read(outcome: Outcome, returned: Any, fields: Fields) -> None:
    if lg.is_a(returned, Command):
        _command(outcome, returned, fields)
    elif lg.is_a(returned, Send):
        outcome.commanded = True
        outcome.goto.append(returned)
    elif lg.is_a(returned, list, tuple) and any(lg.is_a(part, Command) for part in returned):
        parts: Sequence[Any] = returned
        for part in parts:
            _read(outcome, part, fields)
    elif fields.channels == _ROOT_ALONE:
        if returned is not None:
            outcome.updates.append({ROOT: returned})
    elif lg.is_a(returned, dict):
        _add(outcome, returned.items(), fields)
    elif returned is None:
        return
    elif lg.get_cached_annotated_keys(returned.__class__):
        _add(outcome, lg.get_update_as_tuples(returned, sorted(fields.channels)), fields)
    else:
        raise lg.InvalidUpdateError(f"Expected dict, got {returned}")


def _command(outcome: Outcome, command: Any, fields: Fields) -> None:
    if command.graph == Command.PARENT:
        raise lg.ParentCommand(command)
    _add(outcome, command._update_as_tuples(), fields)
    targets: Any = command.goto
    targets = [targets] if lg.is_a(targets, Send, str) else list(targets)
    outcome.commanded = outcome.commanded or bool(targets)
    outcome.goto += [target for target in targets if target != END]


def _add(outcome: Outcome, items: Any, fields: Fields) -> None:
    """Add the writes *items*; a repeated key begins another update."""
    update: dict[str, Any] = {}
    for key, value in items:
        if key not in fields.channels:
            continue
        if key in update:
            outcome.updates.append(update)
            update = {}
        update[key] = value
    if update:
        outcome.updates.append(update)


def destinations(result: Any, path_map: Any) -> list[Any]:
    """Return the targets in a router's result: node names and Sends, without END.

    Raises:
        ValueError: It returned something that is not a target.
        InvalidUpdateError: It sends something to END.
    """
    results: Sequence[Any] = result if lg.is_a(result, list, tuple) else [result]
    targets = [label if lg.is_a(label, Send) or not path_map else path_map[label] for label in results]
    if any(target is None or target == START for target in targets):
        raise ValueError("Branch did not return a valid destination")
    if any(lg.is_a(target, Send) and target.node == END for target in targets):
        raise lg.InvalidUpdateError("Cannot send a packet to the END node")
    return [target for target in targets if target != END]
