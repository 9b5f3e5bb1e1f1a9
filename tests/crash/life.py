"""The life of one process: it reads the thread, follows its status, and continues until the thread is completed.

It knows the earlier processes only from the store and the log of the world. Its report is plain data, which is checked
elsewhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graphrt import Runtime
from graphrt.errors import ConflictError, InputError

from . import graphs, planted, watched
from .world import Killer, World, by_hand, outcome_of

THREAD = "t"
MOST_TURNS = 14


@dataclass(frozen=True)
class Job:
    """The instructions of a process.

    Attributes:
        log: File of the outside world.
        kill_at: Number or name of the point at which it dies.
        delay_s: Seconds after which it is killed from outside instead.
        verb: Which verb continues a thread whose owner died: `resume` or `retry`.
        bug: Name of a bug to plant.
    """

    store: str
    log: str
    is_async: bool
    kill_at: int | str | None = None
    delay_s: float | None = None
    verb: str = "retry"
    bug: str | None = None
    thread: str = THREAD


def live(job: Job, all_graphs: dict[bool, Any]) -> dict[str, Any]:
    """Drive the thread of *job* to its end, and return the observations on the way."""
    killer = Killer(job.kill_at)
    world = World(Path(job.log), killer, is_async=job.is_async)
    watched.lower_limits()
    if job.store.startswith("sqlite"):
        watched.watch_sqlite(killer)
    else:
        watched.watch_postgres(killer)
    watched.watch_journal(world)
    if job.bug is not None:
        planted.BUGS[job.bug].plant()
    world.tell("born", job=asdict(job))
    store = watched.Watched(job.store, killer)
    runtime = Runtime(all_graphs[job.is_async], store=store, deps=world, seed=7)  # type: ignore[arg-type]
    life = Life(job, runtime, world)
    if job.is_async:
        asyncio.run(life.whole())
    else:
        by_hand(life.whole())
    left = store.load(job.thread).staged
    runtime.close()
    store.close()
    return {
        "looks": life.looks,
        "again": life.again,
        "staged_at_the_end": [key for key, _ in left],
        "points": killer.names,
    }


class Life:
    """One process that drives the thread."""

    def __init__(self, job: Job, runtime: Runtime[Any], world: World) -> None:
        self._job = job
        self._runtime = runtime
        self._world = world
        self.looks: list[dict[str, Any]] = []
        self.again: list[str] = []
        """Verbs that were refused because the dead owner's last statement was still running."""

    async def whole(self) -> None:
        for _ in range(MOST_TURNS):
            look = await self._look()
            self.looks.append(look)
            if look["status"] == "completed":
                return
            try:
                result = await self._act(look)
            except (ConflictError, InputError) as error:
                if error.code not in ("conflict", "wrong-verb"):
                    raise
                self.again.append(str(error))
                continue
            self._world.tell("returned", status=result.status)
        raise AssertionError(f"not completed after {MOST_TURNS} turns: {self.again}")

    async def _call(self, verb: str, *args: Any, **options: Any) -> Any:
        if self._job.is_async:
            return await getattr(self._runtime, f"a{verb}")(*args, **options)
        return getattr(self._runtime, verb)(*args, **options)

    async def _act(self, look: dict[str, Any]) -> Any:
        thread = self._job.thread
        match look["status"]:
            case "none":
                return await self._call("run", {}, thread=thread)
            case "interrupted":
                asked = [q for q in look["interrupts"] if q["payload"] != graphs.LAST] or look["interrupts"]
                answers = {question["id"]: self._answer(question) for question in asked}
                self._world.tell("answers", answers=answers)
                return await self._call("resume", thread, answers)
            case "running":
                return await self._call(self._job.verb, thread)
            case other:
                raise AssertionError(f"status {other}")

    def _answer(self, question: dict[str, Any]) -> Any:
        """The answer of a person who checks the world first."""
        payload = question["payload"]
        if isinstance(payload, dict) and payload.get("problem") == "outcome unknown":
            name, key = payload["effect"], payload["idempotency_key"]
            for line in self._world.lines():
                if line["what"] == "effect" and (line["name"], line["key"]) == (name, key):
                    return {"result": outcome_of(name)}
            return "run"
        return "yes"

    async def _look(self) -> dict[str, Any]:
        """All readable data of the thread."""
        thread = self._job.thread
        try:
            seen = await self._call("state", thread)
        except InputError as error:
            if error.code != "unknown-thread":
                raise
            return {"status": "none", "seq": 0, "entries": [], "history": [], "interrupts": [], "values": None}
        replayed = await self._call("replay", thread)
        history = await self._call("history", thread)
        return {
            "status": seen.status,
            "seq": seen.seq,
            "next": seen.next,
            "values": seen.values,
            "replayed": replayed.values,
            "interrupts": [{"id": q.id, "payload": q.payload} for q in seen.interrupts],
            "entries": [entry.to_dict() for entry in await self._entries()],
            "history": [  # commits only: the number of pauses and failures depends on the kills
                {"seq": one.seq, "status": one.status, "values": one.values}
                for one in reversed(history)
                if one.status in ("running", "completed")
            ],
        }

    async def _entries(self) -> Any:
        return await self._call("entries", self._job.thread)


def all_graphs() -> dict[bool, Any]:
    """The graph in its two forms."""
    return {is_async: graphs.build(is_async=is_async) for is_async in (False, True)}
