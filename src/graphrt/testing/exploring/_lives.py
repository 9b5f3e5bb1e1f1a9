"""One case: a thread that is driven to its end through crashes, and the outcome."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt._arguments import each
from graphrt.commands import Overwrite
from graphrt.errors import GraphrtError, InputError
from graphrt.events import EffectRecorded, Entry, Usage
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo, RunResult, Runtime
from graphrt.stores import MemoryStore, open_store
from graphrt.stores.protocol import Store
from graphrt.testing.exploring._crash_store import CrashError, CrashStore
from graphrt.testing.exploring._disturbances import INSERTED, PAUSE, Disturbance, changing, original, pausing
from graphrt.testing.exploring._orders import first, seeded
from graphrt.testing.exploring._scheduled_run import START_S, virtual_options
from graphrt.testing.exploring._user_functions import Answers, NoAnswerError, called, pause
from graphrt.testing.exploring._values import differs, fields_of
from graphrt.testing.exploring._virtual_loop import HangError, VirtualLoop
from graphrt.testing.exploring._virtual_nodes import Hook, catch_tools, virtual

THREAD: Final = "explored"
_MOST_VERBS: Final = 30
"""Maximum number of verbs per case, which stops a graph that asks forever."""
_MEMORY: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - each case has a folder of its own
"""Folder for the files of cases: in memory if the system has such a folder, since no case outlives this process."""
_MOST_ITEMS: Final = 1_000
"""Maximum number of memory items that one search returns; only the newest are compared."""
_Verb = Callable[[Runtime[Any, Any]], Coroutine[Any, Any, RunResult[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a case."""

    status: str
    """`completed`, `failed`, `cancelled`, or `stuck` if it could not be continued."""
    error: str
    """The reason why it failed or is stuck."""
    state: Any
    """The final state, or None."""
    entries: tuple[Entry, ...]
    usage: Usage | None
    once: tuple[Any, ...]
    """The effects in the world."""
    memory: Mapping[tuple[str, str], Any]
    """Items of the store's memory, by namespace and key."""
    faults: tuple[tuple[str, str], ...]
    """Problems of the store and the journal: 0..n pairs (kind, text)."""
    writes: tuple[str, ...]
    died: str
    questions: int = 0
    """Number of pauses for questions of nodes."""


@dataclass(slots=True)
class Plan:
    """The shared data of all cases of a search."""

    graph: CompiledGraph[Any, Any, Any]
    input: Any
    store: Callable[[Path], Store] | str | None
    options: Callable[[], dict[str, Any]]
    answers: Answers
    once: Callable[[Any], Iterable[Any]] | None
    seed: int
    ended: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the final state of the undisturbed run."""
    results: dict[str, list[tuple[str, Any]]] = field(default_factory=dict[str, list[tuple[str, Any]]])
    """Maps a task to the keys and results of its effects in the first run."""

    def open(self, place: Path) -> Store:
        """Open the store of a case, whose files are in *place*."""
        if callable(self.store):
            return self.store(place)
        if self.store == "sqlite:":
            return open_store(f"sqlite:///{place / 'runs.db'}")
        return MemoryStore()

    def learn(self, entries: Iterable[Entry]) -> None:
        """Record the results of effects, so that they can be looked up as a person would."""
        for entry in entries:
            event = entry.event
            if isinstance(event, EffectRecorded):
                task = f"{entry.path}/{event.task}" if entry.path else event.task
                self.results.setdefault(task, []).append((event.key, event.result))

    def answer(self, question: InterruptInfo, died: str) -> Any:
        """Return the answer to *question*: the same for the same question in each case."""
        if question.kind == "effect":
            return self._outcome(question, died)
        if isinstance(question.payload, str) and question.payload in {PAUSE, INSERTED}:
            return True
        return self.answers.of(question, original(question.payload))

    def _outcome(self, question: InterruptInfo, died: str) -> Any:
        # A process that died before a write did everything up to it; one that died after a write did nothing more.
        if died.startswith("after"):
            return "run"
        recorded = self.results.get(question.task_id, [])
        description = f"{question.id} {question.payload!r}"
        results = [result for key, result in recorded if key in description] or [result for _, result in recorded]
        return {"result": results[0]} if results else "run"


@final
class Case:
    """One thread in a fresh store."""

    def __init__(self, plan: Plan, what: Disturbance) -> None:
        self._plan = plan
        self._what = what
        self._faults: list[tuple[str, str]] = []
        self._options = plan.options()
        self._stack = ExitStack()
        self._place = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY)))
        self._now_s = START_S
        self._questions = 0
        self._hook: Hook | None = pausing(what.pause) if what.pause is not None else None
        self.store = CrashStore(
            plan.open(self._place), what.crash, rival=what.rival, tear=what.tear, files=self._place, seed=plan.seed
        )
        self._first = self.store
        catch_tools()

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.store.close()
        self._stack.close()

    @property
    def files(self) -> bool:
        """Whether the store has files, so that a write can be torn."""
        return self.store.durable and any(self._place.iterdir())

    def runtime(self) -> Runtime[Any, Any]:
        """Return a runtime that reads and edits the thread."""
        return Runtime(self._plan.graph, **self._given())

    def _given(self) -> dict[str, Any]:
        fixed: dict[str, Any] = {"seed": self._plan.seed, "clock": lambda: self._now_s, "chain": True}
        return {**fixed, **self._options, "store": self.store}

    def _perform(self, verb: _Verb) -> str:
        """Call a verb on a fresh runtime, as a new process would, and return the status of the run."""
        loop = VirtualLoop(seeded(self._plan.seed) if self._plan.seed else first)
        graph = virtual(self._plan.graph, self._hook)

        async def main() -> str:
            return (await verb(Runtime(graph, **virtual_options(loop, self._given())))).status

        return loop.run(main())

    def run(self) -> Outcome:
        """Run the thread to its end, through the crash if there is one."""
        try:
            status, error = self._live(THREAD)
        except CrashError:
            self._reopen()
            status, error = self._live(THREAD)
        return self.look(THREAD, status, error)

    def look(self, thread: str, status: str, error: str) -> Outcome:
        """Return the outcome of *thread*."""
        runtime = self.runtime()
        state, usage, entries = None, None, tuple[Entry, ...]()
        try:
            snapshot = runtime.state(thread)
            state, usage, entries = snapshot.values, snapshot.usage, tuple(runtime.entries(thread))
            runtime.replay(thread)
            verified = runtime.verify()
            self._faults += [
                ("damaged-journal", str(finding)) for finding in verified.findings if finding.kind == "damage"
            ]
        except GraphrtError as raised:
            if status != "failed" or raised.code != "unknown-thread":
                self._faults.append(("replay-differs", f"{raised.code}: {raised.what}"))
        self._faults += [("second-writer", text) for text in self._first.intruded]
        seen = self._plan.once
        return Outcome(
            status=status,
            error=error,
            state=state,
            entries=entries,
            usage=usage,
            once=each("What once= returned", called("once=", seen, self._options.get("deps")))
            if seen is not None
            else (),
            memory=self._memory(runtime),
            faults=tuple(self._faults),
            writes=tuple(self._first.writes),
            died=self._first.died,
            questions=self._questions,
        )

    def _memory(self, runtime: Runtime[Any, Any]) -> dict[tuple[str, str], Any]:
        if "memory" not in self.store.offers:
            return {}
        return {(item.namespace, item.key): item.value for item in runtime.memory.search(limit=_MOST_ITEMS)}

    def _reopen(self) -> None:
        dead = self.store
        dead.bury()
        if dead.torn is not None:
            for path in self._place.iterdir():
                if path.is_file():
                    path.unlink()
            for name, content in dead.torn.items():
                (self._place / name).write_bytes(content)
        again = self._plan.open(self._place) if dead.durable else dead.store
        self.store = CrashStore(again)
        try:
            loaded = again.load(THREAD)
        except InputError:
            seq, staged = 0, set[str]()
        else:
            seq, staged = loaded.head.seq, {key for key, _ in loaded.staged}
        if seq < dead.acked:
            self._faults.append(
                ("lost-write", f"The store acknowledged entry {dead.acked}, and has entries up to {seq}.")
            )
        elif seq == dead.acked and (lost := sorted(dead.staged - staged)) and dead.died.startswith("after"):
            self._faults.append(("lost-write", f"The store acknowledged what was staged, and lost {', '.join(lost)}."))

    def _live(self, thread: str) -> tuple[str, str]:
        """Continue *thread* until it ends, with a fresh runtime for each verb."""
        try:
            for _ in range(_MOST_VERBS):
                status = self.step(thread)
                if status in {"completed", "cancelled"}:
                    return status, ""
        except GraphrtError as error:
            refused = isinstance(error, InputError) and not error.__cause__
            return ("stuck" if refused and self.store.died == "" and self.store is not self._first else "failed"), (
                f"{type(error).__name__}: {error.what}"
            )
        except (NoAnswerError, HangError) as error:
            return "stuck", str(error)
        return "stuck", f"The thread was not at its end after {_MOST_VERBS} verbs."

    def step(self, thread: str) -> str:
        """Call the verb that fits the status of *thread*; return the new status."""
        try:
            snapshot = self.runtime().state(thread)
        except InputError:
            return self._perform(lambda runtime: runtime.arun(self._plan.input, thread=thread))
        if snapshot.status == "new":
            return self._perform(lambda runtime: runtime.arun(self._plan.input, thread=thread))
        if snapshot.status == "completed":
            return "completed"
        if snapshot.status != "interrupted":
            return self._perform(lambda runtime: runtime.aretry(thread))
        self._at_pause(thread, snapshot.interrupts)
        asked, waits_for, until = pause(snapshot.interrupts)
        if waits_for:
            raise NoAnswerError(f"The run waits for {waits_for}.")
        self._now_s = max(self._now_s, until)
        answers = {question.id: self._plan.answer(question, self._first.died) for question in asked}
        return self._perform(lambda runtime: runtime.aresume(thread, answers))

    def _at_pause(self, thread: str, asked: Iterable[InterruptInfo]) -> None:
        """Perform the action of the case at this pause."""
        paused = any(question.payload == PAUSE for question in asked)
        if not paused:
            self._questions += 1
        if self._what.edit and (paused or self._questions == self._what.question):
            self._edit(thread)
        if self._what.change is not None and self._questions == self._what.question:
            self._hook = changing(self._what.change)

    def _edit(self, thread: str) -> None:
        """Edit the fields to their final values and back, and check that each edit is in the state."""
        before = fields_of(self.runtime().state(thread).values)
        names = [name for name in before if name not in _unstored(self._plan.graph)]
        other = {name: self._plan.ended[name] for name in names if name in self._plan.ended}
        for values in (other, {name: before[name] for name in names}, {}):
            self.runtime().update(thread, {name: Overwrite(value) for name, value in values.items()})
            after = fields_of(self.runtime().state(thread).values)
            lost = [name for name, value in values.items() if differs(value, after.get(name))]
            if lost:
                self._faults.append(("lost-edit", f"An edit of field {lost[0]!r} is not in the state."))

    def continue_fork(self, seq: int) -> Outcome:
        """Fork the finished thread at entry *seq* and drive the fork to its end, in a fresh world."""
        self._options = self._plan.options()
        fork = self.runtime().fork(THREAD, at=seq)
        status, error = self._live(fork)
        return self.look(fork, status, error)


def _unstored(graph: CompiledGraph[Any, Any, Any]) -> set[str]:
    """Return the ephemeral and untracked fields, whose edits do not last."""
    plan: Any = graph.__graphrt_plan__
    return {name for name, known in plan.state.fields.items() if known.ephemeral or known.untracked}
