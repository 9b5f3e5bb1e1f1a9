"""One thread, killed as often as planned, and driven to its end by one new process after another."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import checks, outside, world
from .life import Job
from .server import Server

MOST_PROCESSES = 12


@dataclass(frozen=True)
class Plan:
    """How a thread is killed.

    Attributes:
        kills: For each process in turn, the number or name of the point at which it dies, or the seconds after which it
            is killed from outside.
        verb: Which verb continues it after the death of its owner.
    """

    kills: tuple[int | float | str, ...]
    verb: str = "retry"

    def __str__(self) -> str:
        return f"{'+'.join(map(str, self.kills))} {self.verb}"


@dataclass
class Tally:
    """The results of trials."""

    trials: int = 0
    kills: int = 0
    survived: int = 0
    """Processes that ended before the point at which they should have died."""
    begun_again: int = 0
    """Tasks without an acknowledged outcome that another process started again."""
    asked: int = 0
    """Questions about outcomes that a kill made unknown."""
    again: int = 0
    """Verbs that were refused because a dead owner's last statement was still running."""
    points: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        names = ("trials", "kills", "survived", "begun_again", "asked", "again")
        return {**{name: getattr(self, name) for name in names}, "failures": len(self.failures)}


class Trials:
    """Trials on one kind of store.

    Args:
        where: A folder, which keeps the files of failed trials, and of all with *keep*.
        store: The URL of a database for a trial with this folder.
        job: The instructions of all processes.
        shared: Whether all trials have one database, each with a thread of its own.
    """

    def __init__(
        self,
        server: Server,
        where: Path,
        store: Callable[[Path], str],
        job: Job,
        *,
        shared: bool = False,
        keep: bool = False,
    ) -> None:
        self._keep = keep
        self._server = server
        self._where = where
        self._store = store
        self._job = job
        self._shared = shared
        self._count = 0
        self.tally = Tally()

    def live(self) -> tuple[dict[str, Any], float]:
        """An undisturbed life, and its duration in seconds."""
        job, folder = self._new()
        began = time.perf_counter()
        found = self._server.live(job)
        taken_s = time.perf_counter() - began
        assert "error" not in found, found["error"]
        shutil.rmtree(folder)
        return found, taken_s

    def run(self, wanted: checks.Reference, plan: Plan) -> list[str]:
        """Kill a thread according to *plan*, drive it to its end, and return its problems."""
        first, folder = self._new()
        first = replace(first, verb=plan.verb)
        lives: list[dict[str, Any]] = []
        for at in range(MOST_PROCESSES):
            kill = plan.kills[at] if at < len(plan.kills) else None
            outside = isinstance(kill, float)
            job = replace(first, delay_s=kill if outside else None, kill_at=None if outside else kill)
            life = self._server.live(job)
            lives.append(life)
            if not life.get("killed"):
                self.tally.survived += kill is not None
                break
            self.tally.kills += 1
        lines = world.read(Path(first.log))
        patient = first.store.startswith("postgres")
        found = checks.breaches(wanted, lives, lines, patient=patient)
        self._count_up(lives, lines)
        self.tally.failures += [f"{first.store} async={first.is_async} {plan}: {why}" for why in found]
        if not found and not self._keep:
            shutil.rmtree(folder)
        return found

    def run_all(self, wanted: checks.Reference, plans: Iterable[Plan]) -> Tally:
        for plan in plans:
            self.run(wanted, plan)
        return self.tally

    def _count_up(self, lives: Sequence[dict[str, Any]], lines: list[checks.Line]) -> None:
        tally = self.tally
        tally.trials += 1
        tally.begun_again += outside.begun_again(lines)
        tally.again += len(lives[-1].get("again", ()))
        tally.points.update(line["point"] for line in lines if line["what"] == "killed")
        tally.asked += sum("#effect=" in id_ for line in lines if line["what"] == "answers" for id_ in line["answers"])

    def _new(self) -> tuple[Job, Path]:
        self._count += 1
        folder = self._where / str(self._count)
        folder.mkdir(parents=True)
        thread = f"{self._job.thread}{self._count:05d}" if self._shared else self._job.thread
        return replace(self._job, store=self._store(folder), log=str(folder / "log"), thread=thread), folder
