"""`explore_crashes` and `explore_forks`: a run that is disturbed anywhere must come to the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from graphrt.errors._codes.arguments import GRAPH_NOT_COMPILED
from graphrt.errors._codes.explorations import NO_SUCH_CASE, STORE_OF_SEVERAL_CASES
from graphrt.events import SuperstepCommitted
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo
from graphrt.stores.protocol import Store
from graphrt.testing.exploring import _orders
from graphrt.testing.exploring._disturbances import Disturbance, disturbances
from graphrt.testing.exploring._lives import Case, Outcome, Plan
from graphrt.testing.exploring._outcomes import differences, first_difference
from graphrt.testing.exploring._scheduled_run import plain, scheduled
from graphrt.testing.exploring._user_functions import Answers, FunctionError
from graphrt.testing.exploring.report import Exploration, Finding, Progress


def explore_crashes(
    graph: CompiledGraph[Any, Any],
    input: Any,
    *,
    store: Callable[[Path], Store] | str | None = None,
    options: Callable[[], Mapping[str, Any]] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    once: Callable[[Any], Iterable[Any]] | None = None,
    seed: int = 0,
    most: int = 1_000,
    at: int | str | None = None,
    tell: Callable[[str], object] | bool = False,
) -> Exploration:
    """Disturb a run in each place where it can be disturbed, continue it, and compare its end with an undisturbed run.

    | `at` | Case |
    |---|---|
    | `1`, `2`, ... | the process stops: before write n for 2n - 1, and after it for 2n |
    | `"torn 3"` | the process stops during write 3, of which the file has a part |
    | `"interrupt 2"` | all tasks of superstep 2 pause before they begin |
    | `"edit 2"`, `"edit question 1"` | the state is edited and edited back, at superstep 2 or at the first question |
    | `"reworded 1"`, `"renamed 1"` | from the first question on, nodes ask in other words, or under other keys |
    | `"inserted 1"` | from the first question on, nodes ask something else before |
    | `"second-writer"` | a second writer tries to write before each commit |

    The runs take place on an event loop whose time is virtual, as those of `explore_schedules`. A stopped process is
    simulated in this process, so that module globals outlive it.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`.
        store: None: a fresh `MemoryStore` for each case. "sqlite:": a file for each case. A function of an empty
            folder opens a store there, and is called again after the crash if the store is durable. If its store has
            a method `crash()`, it is called in place of `close()`.
        options: Returns the options of `Runtime` for one case, such as `deps`, `harness` and `models`. They outlive
            the crash, and answer calls that are repeated.
        answers: The answers to questions in the order of the undisturbed run, or a function of the question.
        once: Returns from `deps` what happened in the world and must not happen twice.
        seed: The seed of the runs, which also decides how parallel tasks are interleaved and where writes are torn. 0
            runs tasks in their order.
        most: Most cases to try.
        at: Try this case alone, as the `replay` line of a finding says.
        tell: Gets lines of progress, at most one a second. True writes them to stderr.

    Returns:
        The exploration; each kind of finding once, in the first case that shows it.

    Raises:
        InputError: *graph* is not compiled, or an option or *at* does not fit.
    """
    plan = _plan("explore_crashes()", graph, input, store, options, Answers(answers), once, seed)
    search = _Search(plan, "explore_crashes", "crashes", most, Progress("crashes", tell))

    def cases(wanted: Outcome, case: Case) -> list[Disturbance]:
        made = disturbances(len(wanted.writes), _last_superstep(wanted), wanted.questions, files=case.files)
        if not case.files:
            search.left_out.append("torn writes: the store has no files")
        return made

    def tried(case: Disturbance) -> tuple[str, Outcome]:
        with Case(plan, case) as life:
            found = life.run()
        return f"crash {found.died}" if found.died else f"{case.name} (no crash)", found

    def all_cases() -> None:
        with Case(plan, Disturbance()) as first:
            wanted = first.run()
            made = cases(wanted, first)
        search.wants(wanted)
        names: list[Any] = [case.name for case in made]
        chosen = [case for case in made if case.name in _chosen(names, at)]
        search.try_all(((case.name, case.asks_anew, *tried(case)) for case in chosen), len(chosen))

    return search.made(all_cases)


def explore_forks(
    graph: CompiledGraph[Any, Any],
    input: Any,
    *,
    store: Callable[[Path], Store] | str | None = None,
    options: Callable[[], Mapping[str, Any]] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    seed: int = 0,
    most: int = 1_000,
    at: int | None = None,
    tell: Callable[[str], object] | bool = False,
) -> Exploration:
    """Fork a finished run after each superstep, continue each fork, and compare its state with that of the run.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`.
        store: As for `explore_crashes`.
        options: As for `explore_crashes`.
        answers: As for `explore_crashes`.
        seed: As for `explore_crashes`.
        most: Most forks to try.
        at: Fork at this entry alone, as the `replay` line of a finding says.
        tell: As for `explore_crashes`.

    Raises:
        InputError: *graph* is not compiled, or an option or *at* does not fit.
    """
    plan = _plan("explore_forks()", graph, input, store, options, Answers(answers), None, seed)
    search = _Search(plan, "explore_forks", "forks", most, Progress("forks", tell))

    def all_forks() -> None:
        with Case(plan, Disturbance()) as first:
            wanted = first.run()
            search.wants(wanted)
            places = [one.seq for one in wanted.entries if isinstance(one.event, SuperstepCommitted) and not one.path]
            chosen = _chosen(places, at)
            forks = ((seq, False, f"fork at entry {seq}", first.continue_fork(seq)) for seq in chosen)
            search.try_all(forks, len(chosen))

    return search.made(all_forks)


def _plan(function: str, graph: Any, *rest: Any) -> Plan:
    if not issubclass(type(graph), CompiledGraph):
        raise GRAPH_NOT_COMPILED(function=function, given=graph)
    store = rest[1]
    if not (store is None or callable(store) or store in ("memory:", "sqlite:")):
        raise STORE_OF_SEVERAL_CASES(store=store)
    return Plan(graph, *rest)


def _chosen(names: list[Any], at: Any) -> list[Any]:
    if at is None:
        return names
    if at not in names:
        raise NO_SUCH_CASE(at=at, cases=names)
    return [at]


def _last_superstep(outcome: Outcome) -> int:
    steps = [
        one.event.superstep for one in outcome.entries if isinstance(one.event, SuperstepCommitted) and not one.path
    ]
    return max(steps, default=0)


class _NothingToCompareError(Exception):
    """The undisturbed run cannot be continued, or differs from a second one."""


@dataclass(slots=True)
class _Search:
    """A search in progress: what was tried and found so far."""

    plan: Plan
    verb: str
    what: str
    most: int
    progress: Progress
    findings: dict[str, Finding] = field(default_factory=dict[str, Finding])
    """Kind to its first finding."""
    left_out: list[str] = field(default_factory=list[str])
    noted: tuple[str, ...] = ()
    tried: int = 0
    wanted: Outcome = field(init=False)

    def made(self, work: Callable[[], None]) -> Exploration:
        """Do *work*, whatever ends it, and return what it came to."""
        interrupted = False
        try:
            if self._look():
                work()
        except KeyboardInterrupt:
            interrupted = True
        except FunctionError as error:
            self._find("function-failed", str(error), "the first case that calls it", None)
        except _NothingToCompareError as error:
            self.left_out.append(f"everything else, since {error}")
        return Exploration(
            graph=self.plan.graph.name,
            what=self.what,
            tried=self.tried,
            findings=tuple(self.findings.values()),
            left_out=tuple(self.left_out),
            noted=self.noted,
            interrupted=interrupted,
        )

    def _look(self) -> bool:
        """Note what nodes do that cannot be repeated; return False if they do what the event loop cannot."""
        options = self.plan.options
        run = scheduled(
            self.plan.graph,
            self.plan.input,
            _orders.first,
            lambda: {**(options() if options is not None else {}), "store": "memory:"},
            self.plan.answers,
            watched=True,
        )
        self.noted = tuple(f"node {node!r} {what}" for node, what in run.noted)
        if isinstance(run.error, FunctionError):
            raise run.error
        if run.refused:
            self.left_out.append("everything: a node does what the explorer does not run, see what is noted")
        return not run.refused

    def wants(self, wanted: Outcome) -> None:
        """Take *wanted* as the end to which all cases must come, if a second undisturbed run comes to it too."""
        self.wanted = wanted
        self.plan.learn(wanted.entries)
        self.plan.ended = plain(wanted.state) if wanted.state is not None else {}
        if wanted.status == "stuck":
            self.tried = 1
            self._find("not-resumable", wanted.error, "the undisturbed run", None)
            raise _NothingToCompareError("the undisturbed run has no end")
        if wanted.error:
            self.left_out.append(f"{wanted.error}: the undisturbed run failed, and was compared as it is")
        with Case(self.plan, Disturbance()) as second:
            unlike = first_difference(wanted, second.run())
        if unlike is not None:
            self.tried = 2
            text = f"{unlike[0]} did something else in two undisturbed runs: {unlike[1]}"
            self._find("not-deterministic", text, "two undisturbed runs", None)
            raise _NothingToCompareError("two undisturbed runs differ")

    def try_all(self, cases: Iterator[tuple[int | str, bool, str, Outcome]], count: int) -> None:
        """Compare the end of each of *cases*: name, whether questions may be asked anew, text, end.

        Args:
            cases: Makes *count* cases, one when it is asked for one.
            count: How many cases there are.
        """
        if count > self.most:
            self.left_out.append(f"{count - self.most} cases: most={self.most}")
        for name, asks_anew, told, found in islice(cases, self.most):
            self.tried += 1
            for kind, text in differences(
                self.wanted, found, state_only=self.verb == "explore_forks", asks_anew=asks_anew
            ):
                self._find(kind, text, told, name)
            self.progress.at(self.tried, len(self.findings), min(count, self.most))

    def _find(self, kind: str, text: str, case: str, name: int | str | None) -> None:
        seed = f", seed={self.plan.seed}" if self.plan.seed else ""
        replay = f"{self.verb}(graph, input{'' if name is None else f', at={name!r}'}{seed})"
        self.findings.setdefault(kind, Finding(kind=kind, text=text, case=case, replay=replay))
