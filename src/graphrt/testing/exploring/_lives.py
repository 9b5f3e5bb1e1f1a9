"""One case: a thread that is taken to its end through crashes, and what it came to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt.errors import GraphrtError, InputError
from graphrt.events import EffectRecorded, Entry, Usage
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo, Runtime
from graphrt.stores import MemoryStore, open_store
from graphrt.stores.protocol import Store
from graphrt.testing.exploring._crash_store import CrashError, CrashStore

THREAD: Final = "explored"
_MOST_VERBS: Final = 30
"""Most verbs that one case may need. A graph that asks for ever ends here."""
_NOW: Final = 1_700_000_000.0


class NoAnswerError(Exception):
    """A question has no answer, so the case cannot go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case came to."""

    status: str
    """`completed`, `failed`, `cancelled`, or `stuck` if it could not be continued."""
    error: str
    """Why it failed or is stuck."""
    state: Any
    """The final state, or None."""
    entries: tuple[Entry, ...]
    usage: Usage | None
    once: tuple[Any, ...]
    """What happened in the world."""
    faults: tuple[tuple[str, str], ...]
    """0..n pairs (kind, text) about the store and the journal."""
    writes: tuple[str, ...]
    died: str


@dataclass(slots=True)
class Plan:
    """What all cases of a search have in common."""

    graph: CompiledGraph[Any, Any]
    input: Any
    store: Callable[[Path], Store] | str | None
    options: Callable[[], Mapping[str, Any]] | None
    answers: Callable[[InterruptInfo], Any] | Sequence[Any]
    once: Callable[[Any], Iterable[Any]] | None
    seed: int
    known: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """Task and question to its answer, from the first run: a question that is asked again gets the same answer."""
    results: dict[str, list[tuple[str, Any]]] = field(default_factory=dict[str, list[tuple[str, Any]]])
    """Task to the keys and results of its effects in the first run."""

    def open(self, place: Path) -> Store:
        """Open the store of a case, whose files are in *place*."""
        if callable(self.store):
            return self.store(place)
        if self.store == "sqlite:":
            return open_store(f"sqlite:///{place / 'runs.db'}")
        return MemoryStore()

    def learn(self, entries: Iterable[Entry]) -> None:
        """Remember the results of effects, as a person would look them up."""
        for entry in entries:
            event = entry.event
            if isinstance(event, EffectRecorded):
                task = f"{entry.path}/{event.task}" if entry.path else event.task
                self.results.setdefault(task, []).append((event.key, event.result))

    def answer(self, question: InterruptInfo, died: str) -> Any:
        """Return the answer to *question*: the same for the same question in each case."""
        if question.kind == "effect":
            return self._outcome(question, died)
        known = (question.task_id, repr(question.payload))
        if known not in self.known:
            if callable(self.answers):
                self.known[known] = self.answers(question)
            elif len(self.known) < len(self.answers):
                self.known[known] = self.answers[len(self.known)]
            else:
                raise NoAnswerError(f"Node {question.node!r} asks {question.payload!r}, and answers= has no answer.")
        return self.known[known]

    def _outcome(self, question: InterruptInfo, died: str) -> Any:
        # A process that died before a write had done everything up to it, and one that died after a write nothing more.
        if died.startswith("after"):
            return "run"
        found = self.results.get(question.task_id, [])
        told = f"{question.id} {question.payload!r}"
        results = [result for key, result in found if key in told] or [result for _, result in found]
        return {"result": results[0]} if results else "run"


@final
class Case:
    """One thread in a fresh store."""

    def __init__(self, plan: Plan, at: int | None = None, *, rival: bool = False, edit: bool = False) -> None:
        self._plan = plan
        self._edit = edit
        self._faults: list[tuple[str, str]] = []
        self._options = dict(plan.options()) if plan.options is not None else {}
        self._stack = ExitStack()
        self._place = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self.store = CrashStore(plan.open(self._place), at, rival=rival)
        self._first = self.store

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.inner.close()
        self._stack.close()

    def runtime(self) -> Runtime[Any]:
        """Return a fresh runtime on the store, as a new process would make it."""

        def no_wait(_: float) -> None: ...

        given: dict[str, Any] = {"seed": self._plan.seed, "clock": lambda: _NOW, "chain": True, "sleep": no_wait}
        given |= self._options
        given["store"] = self.store
        return Runtime(self._plan.graph, **given)

    def run(self) -> Outcome:
        """Run the thread to its end, through the crash if there is one."""
        try:
            status, error = self._live(THREAD)
        except CrashError:
            self._reopen()
            status, error = self._live(THREAD)
        return self.look(THREAD, status, error)

    def look(self, thread: str, status: str, error: str) -> Outcome:
        """Return what *thread* came to."""
        runtime = self.runtime()
        state, usage, entries = None, None, tuple[Entry, ...]()
        try:
            snapshot = runtime.state(thread)
            state, usage, entries = snapshot.values, snapshot.usage, tuple(runtime.entries(thread))
            runtime.replay(thread)
            verified = runtime.verify()
            self._faults += [("damaged-journal", str(one)) for one in verified.findings if one.kind == "damage"]
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
            once=tuple(seen(self._options.get("deps"))) if seen is not None else (),
            faults=tuple(self._faults),
            writes=tuple(self._first.writes),
            died=self._first.died,
        )

    def _reopen(self) -> None:
        dead = self.store
        dead.bury()
        again = self._plan.open(self._place) if dead.durable else dead.inner
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
                status = self.step(self.runtime(), thread)
                if status in {"completed", "cancelled"}:
                    return status, ""
        except GraphrtError as error:
            refused = isinstance(error, InputError) and not error.__cause__
            return ("stuck" if refused and self.store.died == "" and self.store is not self._first else "failed"), (
                f"{type(error).__name__}: {error.what}"
            )
        except NoAnswerError as error:
            return "stuck", str(error)
        return "stuck", f"The thread was not at its end after {_MOST_VERBS} verbs."

    def step(self, runtime: Runtime[Any], thread: str) -> str:
        """Apply the verb that fits the status of *thread*; return the new status."""
        try:
            snapshot = runtime.state(thread)
        except InputError:
            return runtime.run(self._plan.input, thread=thread).status
        if snapshot.status == "new":
            return runtime.run(self._plan.input, thread=thread).status
        if snapshot.status == "completed":
            return "completed"
        if snapshot.status != "interrupted":
            return runtime.retry(thread).status
        if self._edit:
            runtime.update(thread, {})
        answers = {one.id: self._plan.answer(one, self._first.died) for one in snapshot.interrupts}
        return runtime.resume(thread, answers).status

    def continue_fork(self, seq: int) -> Outcome:
        """Fork the finished thread at entry *seq* and take the fork to its end."""
        fork = self.runtime().fork(THREAD, at=seq)
        status, error = self._live(fork)
        return self.look(fork, status, error)
