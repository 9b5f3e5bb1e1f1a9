"""`explore_routes`: walks every path that nodes, models and people may choose, and reports bugs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, final

from graphrt._ambient import running
from graphrt._arguments import check_count, is_async, is_mapping
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.graph import CompiledGraph
from graphrt.testing.exploring._user_functions import FunctionError, options_of
from graphrt.testing.exploring._watch import watching
from graphrt.testing.exploring.report import Exploration
from graphrt.testing.exploring.routes._alternatives import read
from graphrt.testing.exploring.routes._arcs import Taken, said, taking
from graphrt.testing.exploring.routes._as_test import as_test
from graphrt.testing.exploring.routes._judging import bugs, externally, refused
from graphrt.testing.exploring.routes._loops import Loop, States
from graphrt.testing.exploring.routes._walk import Known, Plan, Predicates, Walk, counted, never, walk
from graphrt.testing.exploring.search import Bug, Key, Search, StopSearch, shrink, walk_all

_DEPTH: Final = 40
_QUESTIONS: Final = 3


def explore_routes(
    graph: CompiledGraph[Any, Any, Any],
    input: Any = None,
    *,
    alternatives: Mapping[Any, Sequence[Any] | None] | None = None,
    replies: Mapping[str, Sequence[Any]] | None = None,
    harness: Sequence[Any] | None = None,
    answers: Callable[[Any], Sequence[Any]] | Sequence[Any] = (),
    always: Predicates | None = None,
    at_end: Predicates | None = None,
    options: Callable[[], Mapping[str, Any]] | None = None,
    depth: int = _DEPTH,
    questions: int = _QUESTIONS,
    max_paths: int = 2_000,
    path: Sequence[int] | None = None,
    progress: Callable[[str], object] | bool = False,
) -> Exploration:
    """Run *graph* along every list of choices of its nodes, models and people, and check each state on the way.

    A state that was met before is not followed again: values, due tasks, joins and counted visits are the same.
    Without any alternatives, nodes do nothing and routers give each of their labels.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`; by default an empty mapping.
        alternatives: Possible return values, by node: updates, None, Commands, exceptions to raise, or functions of the
            state. None in place of a list: the node does nothing and its routers give each of their labels. A node of
            a nested graph is `"outer/inner"`. START to the inputs that are possible, in place of *input*. Nodes
            without alternatives run as they are.
        replies: Possible replies of the model in each call, by agent.
        harness: What `ctx.harness` may reply, in each call.
        answers: What a person may answer to any question, or a function from the question to these.
        always: Name to predicate over the state, for each committed state. It fails by raising, or by returning
            something false other than None: a function that asserts returns None.
        at_end: The same, for the states at which runs end.
        options: Returns further options of `Runtime` for one run, such as `deps=`.
        depth: Most supersteps of one path. A path that reaches it without asking a person is a finding.
        questions: Most questions that are answered on one path.
        max_paths: The number of paths to run at most.
        path: Run this path alone, as the `replay` line of a finding says.
        progress: Gets lines of progress; True writes them to stderr. Silent by default.

    Returns:
        The exploration; each kind of finding at each place once, with the shortest path that was found.

    Raises:
        InputError: *graph* is not compiled, alternatives name missing nodes, or the input or an option does not fit:
            nothing ran. Or a path takes an alternative that no node can return.
    """
    if not isinstance(graph, CompiledGraph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise INVALID_ARGUMENT(argument="The graph for explore_routes()", value=graph, wanted="what compile() returned")
    for name, bound in (("depth", depth), ("max_paths", max_paths), ("questions", questions)):
        check_count(f"{name}= of explore_routes()", bound)
    for name, predicates in (("always=", always), ("at_end=", at_end)):
        _check_predicates(name, predicates)
    make_options = options_of(options)
    try:
        first = make_options()
    except FunctionError as error:
        raise (error.__cause__ or error) from None
    checked = read(graph, {} if input is None else input, alternatives, replies, harness, answers)
    call = {
        "input": input, "alternatives": alternatives, "replies": replies, "harness": harness, "answers": answers or None,
        "always": always, "at_end": at_end, "options": options,
        "depth": None if depth == _DEPTH else depth, "questions": None if questions == _QUESTIONS else questions,
    }  # fmt: skip
    call = {name: value for name, value in call.items() if value is not None}
    with taking(graph) as taken:
        plan = Plan(
            graph=graph,
            given=checked,
            options=make_options,
            always=always or {},
            at_end=at_end or {},
            depth=depth,
            questions=questions,
            has_budget=first.get("budget") is not None or any("budget" in node for node in graph.topology()["nodes"]),
            counted=counted(graph, depth, first.get("limits")),
        )
        plan.graph = checked.stubbed(graph, lambda: plan.chooser)
        paths = _Paths(graph, plan, taken, call, progress)
        with paths.search.going_on():
            if path is None:
                paths.all(max_paths)
            else:
                paths.one(path)
        return paths.report(alone=path is not None)


def _check_predicates(name: str, predicates: Any) -> None:
    wanted = "a mapping from names to sync functions of the state"
    if predicates is None:
        return
    if not is_mapping(predicates):
        raise INVALID_ARGUMENT(argument=f"{name} of explore_routes()", value=predicates, wanted=wanted)
    for key, predicate in predicates.items():
        if not callable(predicate) or is_async(predicate):
            raise INVALID_ARGUMENT(argument=f"Predicate {key!r} in {name}", value=predicate, wanted=wanted)


@final
class _Paths:
    """The paths through one graph, with the findings of single paths and of all paths together."""

    def __init__(
        self, graph: CompiledGraph[Any, Any, Any], plan: Plan, taken: Taken, call: Mapping[str, Any], progress: Any
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._taken = taken
        self._call = call
        self._states = States()
        self.search: Search[Walk] = Search(
            "paths", size=lambda outcome: outcome.size, shown=self._shown, progress=progress
        )
        self.search.left_out.update(dict.fromkeys(plan.given.asked))
        self._questions: dict[str, tuple[str, dict[int, bool]]] = {}
        self._asked: dict[str, Walk] = {}
        """Maps a question to the shortest walk that met it."""
        self._called: set[str] = set()
        self._first: dict[str, Walk] = {}
        """Maps a node to a walk that ran it."""
        self._whole: set[str] = set()
        """Places of loops without a way out, which only all paths together reveal."""

    # -- walking -------------------------------------------------------------------------------------------------

    def all(self, max_paths: int) -> None:
        """Walk all paths, or *max_paths* of them."""

        def walked(path: tuple[int, ...], sites: Sequence[Any]) -> Walk:
            outcome = self._walk(path, sites, self._states.is_known)
            self._states.add(outcome)
            return outcome

        if not walk_all(walked, max_runs=max_paths):
            self.search.left_out[f"paths beyond the first {max_paths:,}: max_paths={max_paths:,}"] = None
        self._loops(alone=False)
        self._questions_nobody_answers()
        for key, (_, outcome) in list(self.search.found.items()):
            shrink(outcome, partial(self._shows, key), lambda other: other.size, leave_out=True)
        self._watch()

    def one(self, path: Sequence[int]) -> None:
        """Walk only *path*, to its end. If a question refuses its answer, the others are tried."""
        outcome = self._walk(path)
        self._states.add(outcome)
        if outcome.ended == "refused":
            last = outcome.choices[-1] if outcome.choices else outcome.made[-1]
            for index in range(last.of):
                if index != last.index:
                    self._walk((*outcome.path[:-1], index))
        self._loops(alone=True)
        self._questions_nobody_answers()
        self._watch()

    def _walk(self, path: Sequence[int], sites: Sequence[Any] = (), known: Known = never) -> Walk:
        outcome = self._bare_walk(path, sites, known)
        self.search.count()
        for choice in outcome.made:
            self._called.add(choice.name)
            if choice.kind == "route":
                above, _, _ = choice.name.rpartition("/")
                self._taken.add(above, choice.value.arcs)
        if outcome.diverged is not None:
            self._differs(outcome, outcome.diverged)
        self.search.keep(self._bugs(outcome), outcome)
        if outcome.ended == "bound" and len(outcome.marks) < self._plan.depth:
            reason = f"what follows more than {self._plan.questions} answers: questions={self._plan.questions}"
            self.search.left_out[reason] = None
        elif outcome.ended == "bound" and externally(outcome):
            self.search.left_out[f"what follows {self._plan.depth} supersteps: depth={self._plan.depth}"] = None
        elif outcome.ended == "waiting":
            self.search.left_out[f"what follows a wait for {outcome.waits_for}"] = None
        for site, (text, tried) in outcome.questions.items():
            self._questions.setdefault(site, (text, {}))[1].update(tried)
            if site not in self._asked or outcome.size < self._asked[site].size:
                self._asked[site] = outcome
        for name in outcome.visited:
            self._first.setdefault(name, outcome)
        return outcome

    def _bare_walk(self, path: Sequence[int], sites: Sequence[Any] = (), known: Known = never) -> Walk:
        self._taken.slips.clear()
        return walk(self._plan, path, sites, known)

    def _bugs(self, outcome: Walk) -> list[Bug]:
        return [*bugs(outcome, self._plan), *self._taken.slips]

    def _shows(self, key: Key, path: Sequence[int]) -> Walk | None:
        """Walk *path*; return the walk if it shows the bug *key*."""
        outcome = self._bare_walk(path)
        matching = [bug for bug in self._bugs(outcome) if bug[:2] == key]
        self.search.keep(matching, outcome)
        return outcome if matching else None

    # -- findings of several walks -------------------------------------------------------------------------------

    def _loops(self, *, alone: bool) -> None:
        complete = not alone and not self.search.left_out and not self.search.interrupted
        for loop in self._states.loops(complete=complete):
            known = {place for kind, place in self.search.found if kind == "endless-loop"}
            place = " ".join(sorted(set(loop.nodes)))
            if place not in known:
                outcome = walk(self._plan, loop.path)
                self.search.keep([("endless-loop", place, _said(loop, self._plan))], outcome)
                if loop.driven:
                    self._whole.add(place)

    def _questions_nobody_answers(self) -> None:
        for site, bug in refused(self._questions):
            self.search.keep([bug], self._asked[site])

    def _differs(self, outcome: Walk, how: str) -> None:
        nodes = outcome.marks[-1].nodes if outcome.marks else ()
        place = f"after node {', '.join(map(repr, nodes))}" if nodes else "at the start"
        text = (
            f"A path that was walked again took another course {place}: {how}. "
            "A node reads a clock, draws a number or keeps values between runs."
        )
        self.search.keep([("not-deterministic", "", text)], outcome)
        raise StopSearch("everything else, since equal paths differ")

    def _watch(self) -> None:
        """Repeat a walk to each node, and check that it behaves the same; detect clocks, random numbers and threads."""

        def note(action: str) -> None:
            task = running()
            if task is not None:
                self.search.noted[f"node {task[0].node.name!r} {action}"] = None

        remaining = dict(self._first)
        while remaining:
            name, first = remaining.popitem()
            with watching(note, real_time=True):
                again = walk(self._plan, first.path)
            for visited in again.visited:
                remaining.pop(visited, None)
            nodes = _first_difference(first, again)
            if nodes is not None:
                text = (
                    f"Two runs along one path differ: {nodes} read a clock, draw numbers or keep values between runs."
                )
                self.search.keep([("not-deterministic", nodes, text)], first)
            remaining.pop(name, None)

    # -- the report ----------------------------------------------------------------------------------------------

    def report(self, *, alone: bool) -> Exploration:
        """Return the findings so far."""
        noted = self.search.noted
        if self._plan.given.free:
            noted["no alternatives were given: nodes did nothing, and routers gave each of their labels"] = None
        for agent in self._plan.given.replies:
            if agent not in self._called and not alone:
                noted[f"agent {agent!r} was given replies, and no model call of such an agent was made"] = None
        if alone:
            self.search.left_out["other paths than the given one"] = None
        self._taken.tell(complete=not self.search.left_out and not self.search.interrupted)
        arcs = self._taken.arcs()
        tests: dict[str, str] = {}
        for key, (text, outcome) in self.search.found.items():
            call = {**self._call, "path": self._path(key, outcome)}
            tests.setdefault(self._shown(key, outcome)[1], as_test(key[0], text, outcome, self._graph, call))
        return self.search.report(
            self._graph.name,
            states=len(self._states),
            tests=tests,
            taken=tuple(text for where, (taken, _) in arcs.items() for text in said(taken, where)),
            not_taken=tuple(text for where, (_, missing) in arcs.items() for text in said(missing, where)),
            defaults={name: tuple(labels) for name, labels in self._taken.defaults.items()},
        )

    def _path(self, key: Key, outcome: Walk) -> tuple[int, ...] | None:
        """Return the path that shows a bug; None if only all paths together do."""
        return None if key[0] == "endless-loop" and key[1] in self._whole else outcome.path

    def _shown(self, key: Key, outcome: Walk) -> tuple[str, str]:
        """Return the nodes that ran and the choices, one per line, and the line that repeats the path."""
        ended = _ENDED.get(outcome.ended)
        lines = [" -> ".join(("START", *outcome.visited)) + (f" ({ended})" if ended else "")]
        lines += [str(choice) for choice in outcome.choices]
        names = [
            name if name == "input" else f"{name}={value if type(value) is int else name}"
            for name, value in self._call.items()
        ]
        path = self._path(key, outcome)
        names += [] if path is None else [f"path={list(path)}"]
        return "\n".join(lines), f"explore_routes({', '.join(['graph', *names])})"


def _said(loop: Loop, plan: Plan) -> str:
    around = " -> ".join((*loop.nodes, loop.nodes[0])) if loop.nodes else "no node"
    if loop.driven:
        return f"No choice leads out of the loop {around}."
    limits = plan.graph.limits
    return (
        f"The run comes back to the same state: {around}. "
        f"Only the limits of the graph end it (max_visits={limits.max_visits}, max_steps={limits.max_steps})."
    )


_ENDED: Final = {
    "failed": "failed",
    "cut": "back at a known state",
    "bound": "not ended",
    "refused": "no answer fits",
    "unanswered": "nobody answers",
    "waiting": "waits",
}
"""Texts in the case of a finding for a walk that did not reach its end."""


def _first_difference(first_walk: Walk, second_walk: Walk) -> str | None:
    """Return the nodes of the first superstep after which two walks along one path differ; None if they do not."""
    for first, second in zip(first_walk.marks, second_walk.marks, strict=False):
        if first.key != second.key:
            return f"node {', '.join(map(repr, second.nodes))}"
    ended = type(first_walk.error).__name__, type(second_walk.error).__name__
    return (
        f"node {getattr(second_walk.error, 'node', None)!r}"
        if len(set(ended)) > 1 and first_walk.ended != "cut"
        else None
    )
