"""`explore_crashes` and `explore_forks`: a run that is stopped anywhere must come to the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphrt.errors import InputError
from graphrt.events import SuperstepCommitted
from graphrt.graph import CompiledGraph
from graphrt.runtime import InterruptInfo
from graphrt.stores.protocol import Store
from graphrt.testing.exploring._lives import Case, Outcome, Plan
from graphrt.testing.exploring._outcomes import differences, first_difference
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
    tell: Callable[[str], object] | None = None,
) -> Exploration:
    """Stop a run before and after each write to its store, continue it, and compare its end with an uninterrupted run.

    Further cases: a second writer at each commit, and an edit of each paused state that changes nothing.
    A stopped process is simulated in this process, so that module globals outlive it.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`.
        store: None: a fresh `MemoryStore` for each case. "sqlite:": a file for each case. A function of an empty
            folder opens a store there, and is called again after the crash if the store is durable. If its store has
            a method `crash()`, it is called in place of `close()`.
        options: Returns the options of `Runtime` for one case, such as `deps`, `harness` and `models`. They outlive
            the crash, and answer calls that are repeated.
        answers: The answers to questions in the order of the uninterrupted run, or a function of the question.
        once: Returns from `deps` what happened in the world and must not happen twice.
        seed: The seed of the runs.
        most: Most cases to try.
        at: Try this case alone, as the `replay` line of a finding says.
        tell: Gets lines of progress; see `Exploration`.

    Returns:
        The exploration; each kind of finding once, at the first write that shows it.

    Raises:
        InputError: *graph* is not compiled, or an option or *at* does not fit.
    """
    plan = _plan(graph, input, store, options, answers, once, seed)

    def cases(wanted: Outcome) -> Iterator[tuple[int | str, str, Outcome]]:
        names: list[int | str] = ["second-writer", "edit", *range(1, 2 * len(wanted.writes) + 1)]
        for name in _chosen(names, at):
            number = name if isinstance(name, int) else None
            with Case(plan, number, rival=name == "second-writer", edit=name == "edit") as case:
                found = case.run()
            yield name, f"crash {found.died}" if found.died else f"{name} (no crash)", found

    with Case(plan) as first:
        wanted = first.run()
    plan.learn(wanted.entries)
    count = 2 + 2 * len(wanted.writes)
    return _search(plan, "crashes", wanted, cases(wanted), count, most, "explore_crashes", Progress("crashes", tell))


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
    tell: Callable[[str], object] | None = None,
) -> Exploration:
    """Fork a finished run after each superstep, continue each fork, and compare its state with that of the run.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`.
        store: As for `explore_crashes`.
        options: As for `explore_crashes`.
        answers: As for `explore_crashes`.
        seed: The seed of the runs.
        most: Most forks to try.
        at: Fork at this entry alone, as the `replay` line of a finding says.
        tell: Gets lines of progress.

    Raises:
        InputError: *graph* is not compiled, or an option or *at* does not fit.
    """
    plan = _plan(graph, input, store, options, answers, None, seed)
    with Case(plan) as first:
        wanted = first.run()
        plan.learn(wanted.entries)
        places = [one.seq for one in wanted.entries if isinstance(one.event, SuperstepCommitted) and not one.path]
        chosen = _chosen(places, at)
        forks = ((seq, f"fork at entry {seq}", first.continue_fork(seq)) for seq in chosen)
        progress = Progress("forks", tell)
        return _search(plan, "forks", wanted, forks, len(places), most, "explore_forks", progress)


def _plan(graph: Any, *rest: Any) -> Plan:
    if not issubclass(type(graph), CompiledGraph):
        raise InputError(f"A compiled graph is expected, not {type(graph).__name__}.", fix="Call compile() first.")
    store = rest[1]
    if not (store is None or callable(store) or store in {"memory:", "sqlite:"}):
        raise InputError(
            f"store={store!r} cannot be made anew for each case.",
            known="None, 'memory:', 'sqlite:', a function",
            fix="Pass a function that opens a store in the folder that it is given.",
        )
    return Plan(graph, *rest)


def _chosen(names: list[Any], at: Any) -> list[Any]:
    if at is None:
        return names
    if at not in names:
        raise InputError(f"There is no case {at!r}.", known=f"{len(names)} cases: {names[:3]!r} ... {names[-1:]!r}")
    return [at]


def _search(
    plan: Plan,
    what: str,
    wanted: Outcome,
    cases: Iterator[tuple[int | str, str, Outcome]],
    count: int,
    most: int,
    verb: str,
    progress: Progress,
) -> Exploration:
    findings: dict[tuple[str, str], Finding] = {}
    tried, interrupted = 0, False
    left_out = [f"{wanted.error}: the uninterrupted run failed, and was compared as it is"] if wanted.error else []
    with Case(plan) as second:
        unlike = first_difference(wanted, second.run())
    if unlike is not None:
        text = f"{unlike[0]} did something else in two uninterrupted runs: {unlike[1]}"
        replay = f"{verb}(graph, input)"
        finding = Finding(kind="not-deterministic", text=text, case="two uninterrupted runs", replay=replay)
        left_out.append("everything else, since two uninterrupted runs differ")
        return Exploration(graph=plan.graph.name, what=what, tried=2, findings=(finding,), left_out=tuple(left_out))
    try:
        while tried < most and (case := next(cases, None)) is not None:
            name, told, found = case
            tried += 1
            for kind, text in differences(wanted, found, state_only=verb == "explore_forks"):
                replay = f"{verb}(graph, input, at={name!r})"
                findings.setdefault((kind, ""), Finding(kind=kind, text=text, case=told, replay=replay))
            progress.at(tried, len(findings), count)
    except KeyboardInterrupt:
        interrupted = True
    if tried == most and most < count:
        left_out.append(f"{count - most} cases: most={most}")
    return Exploration(
        graph=plan.graph.name,
        what=what,
        tried=tried,
        findings=tuple(findings.values()),
        left_out=tuple(left_out),
        interrupted=interrupted,
    )
