"""Questions and answers of the open superstep, which a fork takes over."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from .flow import Flow
from .parts import Entry

CHANGES = frozenset({"run-started", "superstep-committed", "thread-updated", "thread-forked"})
"""After these the state has changed."""


def questions_of(entries: Sequence[Entry], flow: Flow) -> list[Entry]:
    """Open and answered questions of the open superstep, and the answers, according to *entries*.

    Questions of tasks that an edit finished are closed.
    """
    asked: dict[str, Entry] = {}
    given: dict[str, Any] = {}
    for entry in entries:
        if entry.path:
            continue
        if entry.kind in CHANGES - {"thread-updated"} or entry.kind in ("tasks-routed", "superstep-abandoned"):
            asked, given = {}, {}  # earlier questions are history
        elif entry.kind == "interrupt-raised":
            asked[entry.data.id] = entry
        elif entry.kind == "interrupt-answered":
            given[entry.data[0]] = entry.data[1]
    open_ = {question.id: question for question in flow.questions()}
    over = tuple(f"{job.id}{end}" for job in flow.jobs if job.edited for end in "#/")
    given = {id_: answer for id_, answer in given.items() if not id_.startswith(over)}
    answered = {id_: Entry("interrupt-answered", "", None, (id_, answer, False)) for id_, answer in given.items()}
    found: list[Entry] = []
    for id_, entry in asked.items():
        question = copy.deepcopy(entry.data)
        question.stale = id_ in open_ and open_[id_].stale
        if id_ in open_:
            found.append(entry._replace(data=question))
        elif id_ in given:
            found += [entry._replace(data=question), answered.pop(id_)]
    return found + list(answered.values())
