"""The observations of the outside world about a thread and its processes, and the forbidden ones.

Read from the log alone: acknowledged, started and finished work and questions, process after process. The store is not
read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

Line = dict[str, Any]
Act = tuple[str, str]
"""A task, and the name of an effect."""
UNKNOWN = "#effect="
"""Part of the id of an interrupt about a lost outcome."""


def breaches(lines: list[Line]) -> list[str]:
    """Finished tasks that ran again, changed keys, and repeated effects: each as one sentence."""
    seen = Seen()
    for process in by_process(lines):
        seen.process(process)
    return seen.found


class Seen:
    """The observations so far."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._keys: dict[str, str] = {}
        self._finished: set[str] = set()
        self._recorded: set[Act] = set()
        self._intended: set[Act] = set()
        self._asked: set[Act] = set()
        self._acts: Counter[Act] = Counter()
        self._before: tuple[frozenset[str], frozenset[Act], frozenset[Act]]
        """Finished tasks, and recorded and intended effects, when the process started."""

    def process(self, lines: list[Line]) -> None:
        """Add the lines of one process."""
        self._before = frozenset(self._finished), frozenset(self._recorded), frozenset(self._intended)
        for line in lines:
            getattr(self, f"_{line['what']}", self._nothing)(line)

    def _nothing(self, line: Line) -> None:
        pass

    def _began(self, line: Line) -> None:
        task, key = line["task"], line["key"]
        if task in self._finished:
            self.found.append(f"finished task {task} ran again")
        if key is not None and self._keys.setdefault(task, key) != key:
            self.found.append(f"task {task} had the keys {self._keys[task]} and {key}")

    def _effect(self, line: Line) -> None:
        act = (line["task"], line["name"])
        self._acts[act] += 1
        if line["kind"] != "pure" and act in self._recorded:
            self.found.append(f"effect {act} was recorded, and ran again")
        if line["kind"] == "once":
            if act in self._before[2] and act not in self._asked:
                self.found.append(f"effect {act} had an unknown outcome, and ran without a question")
            if self._acts[act] > 1:
                self.found.append(f"effect {act}, of the kind once, ran {self._acts[act]} times")

    def _done(self, line: Line) -> None:
        if line["kind"] != "pure":
            self._recorded.add((line["task"], line["name"]))

    def _answers(self, line: Line) -> None:
        for id_ in line["answers"]:
            task, unknown, key = local(id_).partition(UNKNOWN)
            act = (task, key.rpartition("#")[0])
            if unknown:
                self._asked.add(act)
                if act in self._before[1] or task in self._before[0]:
                    self.found.append(f"the outcome of effect {act} is known, and was asked for")

    def _acked(self, line: Line) -> None:
        self._finished.update(line["tasks"])
        self._recorded.update(_acts(line["effects"]))
        self._intended.update(_acts(line["intents"]))

    def _stuck(self, line: Line) -> None:
        self.found.append(f"the outcome of {line['behind']} was not staged while {line['task']} ran")


def _acts(pairs: list[list[str]]) -> set[Act]:
    """Effects of the log, as (task, name#ordinal)."""
    return {(task, key.rpartition("#")[0]) for task, key in pairs}


def by_process(lines: list[Line]) -> list[list[Line]]:
    """The lines of each process, in the order of their lives."""
    found: list[list[Line]] = []
    for line in lines:
        if line["what"] == "born":
            found.append([])
        found[-1].append(line)
    return found


def local(id_: str) -> str:
    """The id of an interrupt without its thread's."""
    return id_.partition("/")[2]


def begun_again(lines: list[Line]) -> int:
    """How many tasks a process started that another one had started before it, including those that waited for an
    answer.
    """
    began = [{line["task"] for line in process if line["what"] == "began"} for process in by_process(lines)]
    return sum(len(later & frozenset().union(*began[:at])) for at, later in enumerate(began))
