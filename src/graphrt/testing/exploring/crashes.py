"""`explore_crashes` and `explore_forks`: a run must have the same outcome wherever it is disturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

from graphrt._arguments import check_count, is_async
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.events import SuperstepCommitted
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo
from graphrt.stores.protocol import Store
from graphrt.testing.exploring._disturbances import Disturbance, disturbances
from graphrt.testing.exploring._lives import Case, Outcome, Plan
from graphrt.testing.exploring._order_bugs import compared
from graphrt.testing.exploring._orders import first as first_order
from graphrt.testing.exploring._outcomes import differences
from graphrt.testing.exploring._scheduled_run import Scheduled, scheduled
from graphrt.testing.exploring._user_functions import Answers, FunctionError, options_of
from graphrt.testing.exploring._values import fields_of
from graphrt.testing.exploring._wires import rest_differences
from graphrt.testing.exploring.report import Exploration
from graphrt.testing.exploring.search import Key, Search, StopSearch, refuse_mistake_in_test


def explore_crashes(
    graph: CompiledGraph[Any, Any, Any],
    input: Any,
    *,
    store: Callable[[Path], Store] | str | None = None,
    options: Callable[[], Mapping[str, Any]] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    once: Callable[[Any], Iterable[Any]] | None = None,
    seed: int = 0,
    max_cases: int = 1_000,
    at: int | str | None = None,
    progress: Callable[[str], object] | bool = False,
) -> Exploration:
    """Disturb a run at each possible point, continue it, and compare its outcome with that of an undisturbed run.

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
        max_cases: The number of cases to try at most.
        at: Try this case alone, as the `replay` line of a finding says.
        progress: Gets lines of progress, at most one a second. True writes them to stderr.

    Returns:
        The exploration; each kind of finding once, in the first case that shows it.

    Raises:
        InputError: *graph* is not compiled, or the input, an option or *at* does not fit.
        ScriptError, HarnessError: The undisturbed run makes a model call that no double answers.
    """
    plan = _plan("explore_crashes()", graph, input, store, options, Answers(answers), once, seed)
    cases = _Cases(plan, "crashes", max_cases, progress)
    with cases.search.going_on():
        cases.watch()
        with Case(plan, Disturbance()) as undisturbed:
            wanted = undisturbed.run()
            all_cases = disturbances(
                len(wanted.writes), _last_superstep(wanted), wanted.questions, files=undisturbed.files
            )
            if not undisturbed.files:
                cases.search.left_out["torn writes: the store has no files"] = None
        cases.wants(wanted)
        cases.search.keep(
            ((kind, "", text) for kind, text in rest_differences(wanted.entries)), _Tried(None, "the undisturbed run")
        )
        by_name = {case.name: case for case in all_cases}
        for name in cases.chosen(list(by_name), at):
            with Case(plan, by_name[name]) as case:
                end = case.run()
            description = f"crash {end.died}" if end.died else f"{name} (no crash)"
            disturbance = by_name[name]
            cases.compare(
                name, description, end, asks_anew=disturbance.asks_anew, same_journal=disturbance.crash is not None
            )
    return cases.search.report(graph.name)


def explore_forks(
    graph: CompiledGraph[Any, Any, Any],
    input: Any,
    *,
    store: Callable[[Path], Store] | str | None = None,
    options: Callable[[], Mapping[str, Any]] | None = None,
    answers: Callable[[InterruptInfo], Any] | Sequence[Any] = (),
    seed: int = 0,
    max_cases: int = 1_000,
    at: int | None = None,
    progress: Callable[[str], object] | bool = False,
) -> Exploration:
    """Fork a finished run after each superstep, continue each fork, and compare its state with that of the run.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`.
        store: As for `explore_crashes`.
        options: As for `explore_crashes`.
        answers: As for `explore_crashes`.
        seed: As for `explore_crashes`.
        max_cases: Maximum number of forks to try.
        at: Fork at this entry alone, as the `replay` line of a finding says.
        progress: As for `explore_crashes`.

    Raises:
        InputError: *graph* is not compiled, or the input, an option or *at* does not fit.
        ScriptError, HarnessError: The undisturbed run makes a model call that no double answers.
    """
    plan = _plan("explore_forks()", graph, input, store, options, Answers(answers), None, seed)
    cases = _Cases(plan, "forks", max_cases, progress)
    with cases.search.going_on():
        cases.watch()
        with Case(plan, Disturbance()) as undisturbed:
            wanted = undisturbed.run()
            cases.wants(wanted)
            places = [
                entry.seq for entry in wanted.entries if isinstance(entry.event, SuperstepCommitted) and not entry.path
            ]
            for seq in cases.chosen(places, at):
                cases.compare(seq, f"fork at entry {seq}", undisturbed.continue_fork(seq), state_only=True)
    return cases.search.report(graph.name)


def _plan(
    function: str, graph: Any, input: Any, store: Any, options: Any, answers: Answers, once: Any, seed: int
) -> Plan:
    if not issubclass(type(graph), CompiledGraph):
        raise INVALID_ARGUMENT(argument=f"The graph for {function}", value=graph, wanted="what compile() returned")
    if not _is_store(store):
        raise INVALID_ARGUMENT(
            argument="store=",
            value=store,
            wanted="None, 'memory:', 'sqlite:', or a function that opens a store in a folder: each case needs its own",
        )
    unchecked: object = once
    if unchecked is not None and (not callable(unchecked) or is_async(unchecked)):
        raise INVALID_ARGUMENT(argument="once=", value=once, wanted="a sync function of deps that returns a list")
    return Plan(graph, input, store, options_of(options), answers, once, seed)


def _is_store(store: object) -> bool:
    return store is None or callable(store) or store in ("memory:", "sqlite:")


def _last_superstep(outcome: Outcome) -> int:
    steps = [
        entry.event.superstep
        for entry in outcome.entries
        if isinstance(entry.event, SuperstepCommitted) and not entry.path
    ]
    return max(steps, default=0)


class _Tried(NamedTuple):
    """A tried case: its value of `at=`, None for the undisturbed run, and its outcome."""

    at: int | str | None
    told: str


@final
class _Cases:
    """The cases of one graph, each compared with the undisturbed run."""

    def __init__(self, plan: Plan, what: str, max_cases: int, progress: Any) -> None:
        check_count(f"max_cases= of explore_{what}()", max_cases)
        self._plan = plan
        self._what = what
        self._max_cases = max_cases
        self._wanted: Outcome | None = None
        # All cases have the same size, so the first one that shows a kind of bug is kept.
        self.search: Search[_Tried] = Search(what, size=lambda _: 0, shown=self._shown, progress=progress)

    def watch(self) -> None:
        """Record unrepeatable actions of nodes; stop if the loop cannot run them, or a second run differs."""
        run = self._scheduled(watched=True)
        self.search.noted.update(run.notes)
        if isinstance(run.error, FunctionError):
            raise run.error
        refuse_mistake_in_test(run.error, began=bool(run.steps))
        if run.refused:
            raise StopSearch("everything: a node does what the explorer does not run, see what is noted")
        bugs = compared(run, self._scheduled(watched=False), same_order=True)
        if self.search.keep(bugs, _Tried(None, "two undisturbed runs")):
            self.search.tried = 2
            raise StopSearch("everything else, since two undisturbed runs differ")

    def _scheduled(self, *, watched: bool) -> Scheduled:
        plan = self._plan

        def options() -> dict[str, Any]:
            return {**plan.options(), "store": "memory:"}

        return scheduled(plan.graph, plan.input, first_order, options, plan.answers, watched=watched)

    def wants(self, wanted: Outcome) -> None:
        """Use *wanted* as the outcome that all cases must have."""
        self._wanted = wanted
        self._plan.learn(wanted.entries)
        self._plan.ended = fields_of(wanted.state)
        if wanted.status == "stuck":
            self.search.count()
            self.search.keep([("not-resumable", "", wanted.error)], _Tried(None, "the undisturbed run"))
            raise StopSearch("everything else, since the undisturbed run has no end")
        if wanted.error:
            self.search.left_out[f"{wanted.error}: the undisturbed run failed, and was compared as it is"] = None

    def chosen(self, names: list[Any], at: Any) -> list[Any]:
        """Return the cases to try: only *at*, or the first of *names* up to the bound."""
        if at is not None and at not in names:
            raise UNKNOWN_NAME_IN_ARGUMENT(argument="at=", name=at, what="case", known_names=names)
        names = names if at is None else [at]
        if len(names) > self._max_cases:
            self.search.left_out[f"{len(names) - self._max_cases} cases: max_cases={self._max_cases}"] = None
        self.search.total = min(len(names), self._max_cases)
        return names[: self._max_cases]

    def compare(
        self,
        at: int | str,
        description: str,
        end: Outcome,
        *,
        state_only: bool = False,
        asks_anew: bool = False,
        same_journal: bool = False,
    ) -> None:
        """Compare the outcome of a case with that of the undisturbed run."""
        assert self._wanted is not None  # noqa: S101 - `wants` has set it
        unlike = differences(self._wanted, end, state_only=state_only, asks_anew=asks_anew, same_journal=same_journal)
        self.search.keep(((kind, "", text) for kind, text in unlike), _Tried(at, description))
        self.search.count()

    def _shown(self, _bug: Key, case: _Tried) -> tuple[str, str]:
        at = "" if case.at is None else f", at={case.at!r}"
        seed = f", seed={self._plan.seed}" if self._plan.seed else ""
        return case.told, f"explore_{self._what}(graph, input{at}{seed})"
