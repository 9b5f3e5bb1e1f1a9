"""One walk through a graph along given choices, from the start to an end, a known state or the bound.

This module evaluates only predicates over states, which only a walk can see; other checks are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from graphrt._arguments import not_awaitable
from graphrt.errors import GraphrtError, InputError, describe_error
from graphrt.events import Entry, JoinStanding, SuperstepCommitted, TaskFailed, TasksRouted, TaskSucceeded
from graphrt.graph import CompiledGraph
from graphrt.limits import Limits
from graphrt.runtime import InterruptInfo, RunResult, Runtime, Step, Stream
from graphrt.testing.exploring._user_functions import check_answers, pause
from graphrt.testing.exploring._values import frozen, short
from graphrt.testing.exploring.routes._alternatives import Alternatives, Graph
from graphrt.testing.exploring.routes._choices import Choice, Chooser
from graphrt.testing.virtual_clock import VirtualClock

THREAD: Final = "explored"
_NOTHING: Final = frozen([])
"""Key of the nodes due at an end."""
Predicates = Mapping[str, Callable[[Any], object]]
Known = Callable[[Hashable, int], bool]
"""Takes the key of a state and its superstep; returns whether the walk stops there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A committed state on a walk."""

    key: Hashable
    """Equal for states that have the same future: values, due tasks, joins, counted visits and spent budget."""
    nodes: tuple[str, ...]
    """Nodes of the superstep that led here, in task order; empty for the state before the first one."""
    choices: int
    """Number of choices between alternatives made before."""
    external: bool
    """Whether a person answered or a free label was chosen since the previous mark."""


@dataclass(slots=True, kw_only=True)
class Walk:
    """The events along one list of choices."""

    choices: tuple[Choice, ...] = ()
    """The choices between two or more alternatives."""
    made: tuple[Choice, ...] = ()
    """All choices."""
    marks: list[Mark] = field(default_factory=list[Mark])
    ended: str = "completed"
    """`completed`, `failed`, `cut` at a known state, `bound`, `refused` by a question, `unanswered`, or `waiting`."""
    waits_for: str = ""
    """What it waits for in vain, if it is `waiting`."""
    error: Exception | None = None
    broken: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Predicates that did not hold: kind, name and description."""
    questions: dict[str, tuple[str, dict[int, bool]]] = field(default_factory=dict[str, tuple[str, dict[int, bool]]])
    """Maps a question to its text, and to the numbers of the tried answers with whether they were accepted."""
    diverged: str | None = None
    state: Any = None
    """The last state; None if no superstep was committed."""

    @property
    def path(self) -> tuple[int, ...]:
        """The numbers that repeat this walk."""
        return tuple(choice.index for choice in self.choices)

    @property
    def sites(self) -> list[tuple[tuple[str, str], int]]:
        """The sites of the choices, with their numbers of alternatives."""
        return [choice.site for choice in self.choices]

    @property
    def depths(self) -> list[int]:
        """The number of supersteps before each choice."""
        return [sum(mark.choices <= at for mark in self.marks) for at in range(len(self.choices))]

    @property
    def size(self) -> tuple[int, int, int]:
        """Size of the walk: supersteps, choices, and the number of choices other than the first alternative."""
        return len(self.marks), len(self.choices), sum(choice.index > 0 for choice in self.choices)

    @property
    def visited(self) -> tuple[str, ...]:
        """Nodes that ran in committed supersteps, in order."""
        return tuple(name for mark in self.marks for name in mark.nodes)


@dataclass(slots=True, kw_only=True)
class Plan:
    """The shared data of all walks of one exploration."""

    graph: Graph
    """The graph with stubs; set once when the stubs exist."""
    given: Alternatives
    options: Callable[[], dict[str, Any]]
    always: Predicates
    at_end: Predicates
    depth: int
    counted: Mapping[str, int]
    """Maps nodes whose visits are limited below the depth, and so are part of a state, to the limit."""
    questions: int
    """Maximum number of questions that are answered on one walk."""
    has_budget: bool
    """Whether spent amounts are part of a state."""
    chooser: Chooser = field(default_factory=lambda: Chooser(()))
    """The chooser of the walk in progress."""


def counted(graph: CompiledGraph[Any, Any, Any], depth: int, limits: Limits | None) -> dict[str, int]:
    """Return the nodes whose visits a limit bounds within *depth* supersteps."""
    topology = graph.topology()
    max_visits = (limits.over(graph.limits) if limits else graph.limits).max_visits
    bounds = {node["name"]: node.get("max_visits", max_visits) for node in topology["nodes"]}
    return {name: bound for name, bound in bounds.items() if bound is not None and bound <= depth}


def never(_key: Hashable, _superstep: int) -> bool:
    """Treat every state as unknown."""
    return False


def walk(
    plan: Plan, prefix: Sequence[int] = (), expected: Sequence[tuple[tuple[str, str], int]] = (), known: Known = never
) -> Walk:
    """Walk along *prefix* and then the first alternatives, until the run ends or *known* stops it."""
    plan.chooser = Chooser(prefix, expected)
    going = _Going(plan, known, len(prefix))
    going.go()
    outcome = going.walk
    outcome.choices, outcome.made = tuple(plan.chooser.open), tuple(plan.chooser.made)
    outcome.diverged = plan.chooser.diverged
    return outcome


class _Going:
    """A walk in progress."""

    def __init__(self, plan: Plan, known: Known, prefix: int) -> None:
        self.plan = plan
        self.known = known
        self.prefix = prefix
        self.walk = Walk()
        self.entries: list[Entry] = []
        self._read = 0
        self._met: set[Hashable] = set()
        """Keys of the states of this walk."""
        self._joins: dict[tuple[str, ...], JoinStanding] = {}
        self._visits: dict[str, int] = dict.fromkeys(plan.counted, 0)
        self._due: Hashable = ()
        self._clock: VirtualClock | None = None
        """The clock of the walk; None if the caller's options have one."""
        self._nodes: list[str] = []
        """Nodes of the superstep that is not marked yet."""
        self._made = 0
        """Number of choices made when the last mark was set."""

    def go(self) -> None:
        plan = self.plan
        inputs = plan.given.inputs
        choice = plan.chooser.choose("input", "START", [short(item) for item in inputs], inputs)
        arguments: dict[str, Any] = {"input": deepcopy(choice.value)}
        tried: dict[int, bool] = {}
        answered = 0
        with self._runtime() as runtime:
            while True:
                try:
                    stream = runtime.steps(**arguments, thread=THREAD)
                except InputError as error:  # a problem of the input is the caller's mistake, so it is raised
                    if error.code != "bad-answer":
                        raise
                    tried[choice.index] = False
                    self.walk.ended = "refused"
                    return
                if choice.kind == "answer":
                    tried[choice.index] = True
                result = self._through(runtime, stream)
                if result is None:
                    return
                if result.status != "interrupted":
                    self.walk.state = result.state
                    self._hold(plan.at_end, "at the end")
                    return
                asked, waits_for, until = pause(result.interrupts)
                if not asked:  # the thread only sleeps, so the clock advances and no answer is chosen
                    self.walk.waits_for = waits_for or self._sleeps(until)
                    if self.walk.waits_for:
                        self.walk.ended = "waiting"
                        return
                    arguments = {"answers": {}}
                    continue
                question = asked[0]
                possible, tried = self._possible(question)
                if answered >= plan.questions:
                    self.walk.ended = "bound"
                    return
                answered += 1
                if not possible:
                    self.walk.ended = "unanswered"
                    return
                choice = plan.chooser.choose("answer", question.node, [short(item) for item in possible], possible)
                arguments = {"answers": {question.id: deepcopy(choice.value)}}

    def _sleeps(self, until: float) -> str:
        """Move the clock to the time *until*, or return what the thread waits for instead."""
        if self._clock is None:
            return "a time of the clock in options="
        self._clock.advance(max(0.0, until - self._clock()))
        return ""

    def _through(self, runtime: Runtime[Any, Any], stream: Stream[Step[Any], Any]) -> RunResult[Any] | None:
        """Follow a run to its next end; return None if the walk stops earlier or the run fails."""
        try:
            with stream:
                for _ in stream:
                    if self._committed() and self._mark(runtime):
                        return None
        except GraphrtError as error:
            self.walk.ended, self.walk.error = "failed", error
            return None
        if self._committed() and self._mark(runtime):  # a pause after a node is committed without a step
            return None
        return stream.result

    def _runtime(self) -> Runtime[Any, Any]:
        plan = self.plan
        options = plan.options()
        clock = VirtualClock()
        self._clock = clock if options.setdefault("clock", clock) is clock else None
        options.setdefault("sleep", clock.sleep)
        # Equal in all walks, so that nodes that use ctx.random or ctx.run_id behave the same.
        options.setdefault("seed", 0)
        numbers = count(1)
        options.setdefault("ids", lambda: f"id-{next(numbers)}")
        models: dict[str, Any] = {**(options.pop("models", None) or {}), **plan.given.models(lambda: plan.chooser)}
        if models:
            options["models"] = models
        options.update(plan.given.of_harness(lambda: plan.chooser))
        # One task at a time, so that choices come in the order of the tasks.
        options["limits"] = Limits(max_concurrency=1).over(options.get("limits") or Limits())
        options["sinks"] = (*options.get("sinks", ()), self.entries.append)
        options["store"] = "memory:"
        return Runtime(plan.graph, **options)

    def _committed(self) -> bool:
        """Read new entries; return whether a superstep of the graph itself was committed."""
        committed = False
        for entry in self.entries[self._read :]:
            event = entry.event
            if entry.path:
                continue
            if isinstance(event, TaskSucceeded | TaskFailed):
                self._nodes.append(event.node)
            if not isinstance(event, SuperstepCommitted | TasksRouted):
                continue
            self._joins.update({(join.node, *join.sources): join for join in event.joins})
            self._due = frozen(
                [(name, event.sends.get(at), event.errors.get(at)) for at, name in enumerate(event.next)]
            )
            if isinstance(event, SuperstepCommitted):
                committed = True
        self._read = len(self.entries)
        return committed

    def _mark(self, runtime: Runtime[Any, Any]) -> bool:
        """Record the committed state; return whether the walk stops there."""
        nodes = tuple(dict.fromkeys(self._nodes))
        self._nodes.clear()
        for name in self._visits.keys() & set(nodes):
            self._visits[name] = min(self._visits[name] + 1, self.plan.counted[name])
        snapshot = runtime.state(THREAD)
        self.walk.state = snapshot.values
        waiting = [
            (name, join.arrived, join.fired, join.emptied)
            for name, join in sorted(self._joins.items())
            if join.arrived or join.fired or join.emptied
        ]
        spent = snapshot.usage if self.plan.has_budget else None
        key = (frozen(snapshot.values), self._due, frozen(waiting), frozen(self._visits), frozen(spent))
        choices_made = self.plan.chooser.made
        external = any(choice.kind == "answer" or choice.free for choice in choices_made[self._made :])
        self._made = len(choices_made)
        choices = len(self.plan.chooser.open)
        marks = self.walk.marks
        marks.append(Mark(key=key, nodes=nodes, choices=choices, external=external))
        self._hold(self.plan.always, "at every state")
        inside = choices < self.prefix
        if not inside and self._due != _NOTHING and (key in self._met or self.known(key, len(marks))):
            self.walk.ended = "cut"
            return True
        self._met.add(key)
        if len(marks) >= self.plan.depth and self._due != _NOTHING:
            self.walk.ended = "bound"
            return True
        return False

    def _hold(self, predicates: Predicates, when: str) -> None:
        for name, predicate in predicates.items():
            try:
                returned = not_awaitable(f"Predicate {name!r}", predicate(self.walk.state))
                if returned is None or returned:
                    continue
                bug = ("predicate-broken", name, f"The predicate {name!r} does not hold {when}.")
            except AssertionError as error:
                message = str(error).splitlines()[:1]
                bug = (
                    "predicate-broken",
                    name,
                    f"The predicate {name!r} does not hold {when}: {(message or ['assert'])[0]}",
                )
            except Exception as error:  # noqa: BLE001 - whatever a user's predicate raises is reported
                bug = ("predicate-fails", name, f"The predicate {name!r} raised {describe_error(error)} {when}.")
            if bug not in self.walk.broken:
                self.walk.broken.append((bug[0], bug[1], f"{bug[2]}\nstate: {short(self.walk.state, 400)}"))

    def _possible(self, question: InterruptInfo) -> tuple[list[Any], dict[int, bool]]:
        """Return a person's possible answers to *question*, and the record of which were accepted."""
        returned = self.plan.given.answers(question)
        check_answers("What answers= returned", returned, wanted="a list of possible answers", function=False)
        possible = list(returned)
        if not possible and question.kind in {"before", "after"}:
            possible = [None]  # a pause declared by a policy: any answer continues the run
        site = f"{question.node}#{question.kind}#{question.answer_schema!r}#{len(possible)}"
        text = f"Node {question.node!r} asks {short(question.payload)}"
        return possible, self.walk.questions.setdefault(site, (text, {}))[1]
