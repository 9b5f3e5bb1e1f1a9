"""`explore_routes`: walks every way that nodes, models and persons may take a graph, and reports what goes wrong."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from graphrt.errors._codes.arguments import GRAPH_NOT_COMPILED
from graphrt.errors._codes.explorations import BOUND_BELOW_ONE
from graphrt.graph import CompiledGraph
from graphrt.testing.exploring.report import Finding, Progress
from graphrt.testing.exploring.routes._alternatives import read
from graphrt.testing.exploring.routes._arcs import Taken, said, taking
from graphrt.testing.exploring.routes._as_test import as_test
from graphrt.testing.exploring.routes._judging import Bug, bugs, externally, refused
from graphrt.testing.exploring.routes._loops import Loop, States
from graphrt.testing.exploring.routes._walk import Plan, Predicates, Walk, counted, walk
from graphrt.testing.exploring.routes._watch import watched
from graphrt.testing.exploring.routes.report import RouteExploration

_SHRINKS: Final = 60
"""Most walks that are spent to make the path of one finding shorter."""
_DEPTH: Final = 40
_QUESTIONS: Final = 3
_Site = tuple[str, str, int]


def explore_routes(
    graph: CompiledGraph[Any, Any],
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
    most: int = 2_000,
    path: Sequence[int] | None = None,
    tell: Callable[[str], object] | bool = False,
) -> RouteExploration:
    """Run *graph* along every list of choices of its nodes, models and persons, and check each state on the way.

    A state that was met before is not followed again: values, due tasks, joins and counted visits are the same.
    Without any alternatives, nodes do nothing and routers give each of their labels.

    Args:
        graph: The compiled graph.
        input: As for `Runtime.run`; by default an empty mapping.
        alternatives: Node to what it may return: updates, None, Commands, exceptions to raise, or functions of the
            state. None in place of a list: the node does nothing and its routers give each of their labels. A node of
            a nested graph is `"outer/inner"`. START to the inputs that are possible, in place of *input*. Nodes
            without alternatives run as they are.
        replies: Agent to what its model may reply, in each call.
        harness: What `ctx.harness` may reply, in each call.
        answers: What a person may answer to any question, or a function from the question to these.
        always: Name to predicate over the state, for each committed state. It fails by returning False or raising.
        at_end: The same, for the states at which runs end.
        options: Returns further options of `Runtime` for one run, such as `deps=`.
        depth: Most supersteps of one path. A path that reaches it without asking a person is a finding.
        questions: Most questions that are answered on one path.
        most: Most paths to run.
        path: Run this path alone, as the `replay` line of a finding says.
        tell: Gets lines of progress; True writes them to stderr. Silent by default.

    Returns:
        The exploration; each kind of finding at each place once, with the shortest path that was found.

    Raises:
        InputError: *graph* is not compiled, alternatives name what is missing or are impossible, or the input does not
            fit: nothing ran.
    """
    if not isinstance(graph, CompiledGraph):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GRAPH_NOT_COMPILED(function="explore_routes()", given=graph)
    for name, bound in (("depth", depth), ("most", most), ("questions", questions)):
        if bound < 1:
            raise BOUND_BELOW_ONE(function="explore_routes()", option=name, given=bound)
    given = read(graph, {} if input is None else input, alternatives, replies, harness, answers)
    call = {
        "input": input, "alternatives": alternatives, "replies": replies, "harness": harness, "answers": answers or None,
        "always": always, "at_end": at_end, "options": options,
        "depth": None if depth == _DEPTH else depth, "questions": None if questions == _QUESTIONS else questions,
    }  # fmt: skip
    call = {name: value for name, value in call.items() if value is not None}
    made = options or dict[str, Any]
    with taking(graph) as taken:
        plan = Plan(
            graph=graph,
            given=given,
            options=made,
            always=always or {},
            at_end=at_end or {},
            depth=depth,
            questions=questions,
            has_budget=made().get("budget") is not None or any("budget" in node for node in graph.topology()["nodes"]),
            counted=counted(graph, depth, made().get("limits")),
        )
        plan.graph = given.stubbed(graph, lambda: plan.chooser)
        search = _Search(graph, plan, taken, Progress("paths", tell), call)
        try:
            if path is None:
                search.all(most)
            else:
                search.one(path)
        except KeyboardInterrupt:
            search.interrupted = True
        return search.report(alone=path is not None)


class _Search:
    """A search in progress: what was tried and found so far."""

    def __init__(
        self, graph: CompiledGraph[Any, Any], plan: Plan, taken: Taken, progress: Progress, call: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._plan = plan
        self._taken = taken
        self._progress = progress
        self._call = call
        self._states = States()
        self._tried = 0
        self._found: dict[tuple[str, str], tuple[str, Walk]] = {}
        """Kind and place to the text and the shortest walk that shows it."""
        self._questions: dict[str, tuple[str, dict[int, bool]]] = {}
        self._asked: dict[str, Walk] = {}
        """Question to the shortest walk that met it."""
        self._left_out: dict[str, None] = dict.fromkeys(plan.given.asked)
        self._notes: dict[tuple[str, str], None] = {}
        self._called: set[str] = set()
        self._first: dict[str, Walk] = {}
        """Node to a walk that ran it."""
        self._whole: set[str] = set()
        """Places of loops that no single path shows: that nothing leads out of them, only all paths together do."""
        self._deterministic = True
        self.interrupted = False

    # -- walking -------------------------------------------------------------------------------------------------

    def all(self, most: int) -> None:
        """Walk all paths, or *most* of them: in turn the shortest and the longest of those that are open."""
        shallow: list[tuple[int, int, tuple[int, ...], tuple[_Site, ...]]] = [(0, 0, (), ())]
        deep: list[tuple[int, int, tuple[int, ...], tuple[_Site, ...]]] = [(0, 0, (), ())]
        done: set[tuple[int, ...]] = set()
        while self._deterministic and (shallow or deep):
            queue = deep if deep and self._tried % 2 else shallow or deep
            item = heapq.heappop(queue)
            if item[2] in done:
                continue
            if self._tried >= most:
                self._left_out[f"paths beyond the first {most:,}: most={most:,}"] = None
                break
            done.add(item[2])
            found = self._walk(item[2], item[3], self._states.is_known)
            self._states.add(found)
            sites = tuple(choice.site for choice in found.choices)
            steps = [sum(mark.choices <= at for mark in found.marks) for at in range(len(sites))]
            for at in range(len(item[2]), len(sites)):
                for index in range(1, found.choices[at].of):
                    prefix = (*found.path[:at], index)
                    heapq.heappush(shallow, (steps[at], at, prefix, sites[: at + 1]))
                    heapq.heappush(deep, (-steps[at], -at, prefix, sites[: at + 1]))
        if self._deterministic:
            self._loops(alone=False)
            self._questions_nobody_answers()
            self._shrink()
            self._watch()

    def one(self, path: Sequence[int]) -> None:
        """Walk *path* alone, to its end. A question that refuses its answer is asked again with each of the others."""
        made = self._walk(path, (), _never)
        self._states.add(made)
        if made.ended == "refused":
            last = made.choices[-1] if made.choices else made.made[-1]
            for index in range(last.of):
                if index != last.index:
                    self._walk((*made.path[:-1], index), (), _never)
        self._loops(alone=True)
        self._questions_nobody_answers()
        self._watch()

    def _walk(self, prefix: Sequence[int], expected: tuple[_Site, ...], known: Any) -> Walk:
        self._taken.slips.clear()
        made = walk(self._plan, prefix, expected, known)
        self._tried += 1
        for choice in made.made:
            self._called.add(choice.name)
            if choice.kind == "route":
                above, _, _ = choice.name.rpartition("/")
                self._taken.add(above, choice.value.arcs)
        if made.diverged is not None:
            self._differs(made, made.diverged)
            return made
        for bug in [*bugs(made, self._plan), *self._taken.slips]:
            self._keep(bug, made)
        if made.ended == "bound" and len(made.marks) < self._plan.depth:
            self._left_out[
                f"what follows more than {self._plan.questions} answers: questions={self._plan.questions}"
            ] = None
        elif made.ended == "bound" and externally(made):
            self._left_out[f"what follows {self._plan.depth} supersteps: depth={self._plan.depth}"] = None
        elif made.ended == "waiting":
            self._left_out[f"what follows a wait for {made.waits_for}"] = None
        for site, (text, tried) in made.questions.items():
            self._questions.setdefault(site, (text, {}))[1].update(tried)
            if site not in self._asked or made.size < self._asked[site].size:
                self._asked[site] = made
        for name in made.visited:
            self._first.setdefault(name, made)
        self._progress.at(self._tried, len(self._found))
        return made

    def _keep(self, bug: Bug, made: Walk) -> None:
        kind, place, text = bug
        known = self._found.get((kind, place))
        if known is None or made.size < known[1].size:
            self._found[kind, place] = text, made

    # -- what several walks show together ------------------------------------------------------------------------

    def _loops(self, *, alone: bool) -> None:
        for loop in self._states.loops(complete=not alone and not self._left_out and not self.interrupted):
            known = {place for kind, place in self._found if kind == "endless-loop"}
            place = " ".join(sorted(set(loop.nodes)))
            if place not in known:
                made = walk(self._plan, loop.path)
                self._keep(("endless-loop", place, _said(loop, self._plan)), made)
                if loop.driven:
                    self._whole.add(place)

    def _questions_nobody_answers(self) -> None:
        for site, bug in refused(self._questions):
            self._keep(bug, self._asked[site])

    def _differs(self, made: Walk, how: str) -> None:
        nodes = made.marks[-1].nodes if made.marks else ()
        who = f"after node {', '.join(map(repr, nodes))}" if nodes else "at the start"
        text = (
            f"A path that was walked again took another course {who}: {how}. "
            "A node reads a clock, draws a number or keeps values between runs."
        )
        self._keep(("not-deterministic", "", text), made)
        self._left_out["everything else, since equal paths differ"] = None
        self._deterministic = False

    def _watch(self) -> None:
        """Walk again, to each node, and see whether it does the same; notice clocks, random numbers and threads."""
        left = dict(self._first)
        while left and self._deterministic:
            name, first = left.popitem()
            with watched(self._notes):
                again = walk(self._plan, first.path)
            for visited in again.visited:
                left.pop(visited, None)
            nodes = _first_difference(first, again)
            if nodes is not None:
                text = (
                    f"Two runs along one path differ: {nodes} read a clock, draw numbers or keep values between runs."
                )
                self._keep(("not-deterministic", nodes, text), first)
            left.pop(name, None)

    def _shrink(self) -> None:
        """Leave out choices, or take the first alternative, as long as the same bug shows."""
        for key, (_, made) in list(self._found.items()):
            tries = 0
            at = 0
            while at < len(made.path) and tries < _SHRINKS:
                path = made.path
                for smaller in ((*path[:at], *path[at + 1 :]), (*path[:at], 0, *path[at + 1 :])):
                    tries += 1
                    self._taken.slips.clear()
                    other = walk(self._plan, smaller)
                    found = [*bugs(other, self._plan), *self._taken.slips]
                    text = next((text for kind, place, text in found if (kind, place) == key), None)
                    if text is not None and other.size < made.size:
                        made = other
                        self._found[key] = text, other
                        break
                else:
                    at += 1

    # -- the report ----------------------------------------------------------------------------------------------

    def report(self, *, alone: bool) -> RouteExploration:
        """Return what was found so far."""
        for agent in self._plan.given.replies:
            if agent not in self._called and not alone:
                self._notes[agent, "was given replies, and no model call of such an agent was made"] = None
        if alone:
            self._left_out["other paths than the given one"] = None
        complete = not self._left_out and not self.interrupted
        arcs = self._taken.arcs()
        self._taken.tell(complete=complete)
        findings: list[Finding] = []
        tests: dict[str, str] = {}
        for (kind, place), (text, made) in sorted(self._found.items(), key=lambda item: item[1][1].size):
            names = [
                name if name == "input" else f"{name}={value if type(value) is int else name}"
                for name, value in self._call.items()
            ]
            path = None if kind == "endless-loop" and place in self._whole else made.path
            names += [] if path is None else [f"path={list(path)}"]
            replay = f"explore_routes({', '.join(['graph', *names])})"
            findings.append(Finding(kind=kind, text=text, case=_case(made), replay=replay))
            tests.setdefault(replay, as_test(kind, text, made, self._graph, {**self._call, "path": path}))
        return RouteExploration(
            graph=self._graph.name,
            tried=self._tried,
            states=len(self._states),
            findings=tuple(findings),
            tests=tests,
            taken=tuple(text for where, (taken, _) in arcs.items() for text in said(taken, where)),
            not_taken=tuple(text for where, (_, missing) in arcs.items() for text in said(missing, where)),
            defaults={name: tuple(labels) for name, labels in self._taken.defaults.items()},
            left_out=tuple(self._left_out),
            notes=(*_free(self._plan), *(f"{name!r} {did}." for name, did in self._notes)),
            interrupted=self.interrupted,
        )


def _never(_key: Hashable, _superstep: int) -> bool:
    return False


def _free(plan: Plan) -> list[str]:
    if not plan.given.free:
        return []
    return ["No alternatives were given: nodes did nothing, and routers gave each of their labels."]


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
"""How the case of a finding says that a walk did not come to its end."""


def _case(made: Walk) -> str:
    """Return the nodes that ran and the choices, each on a line."""
    ended = _ENDED.get(made.ended)
    lines = [" -> ".join(("START", *made.visited)) + (f" ({ended})" if ended else "")]
    lines += [str(choice) for choice in made.choices]
    return "\n".join(lines)


def _first_difference(one: Walk, other: Walk) -> str | None:
    """Return the nodes of the first superstep after which two walks along one path differ; None if none does."""
    for first, second in zip(one.marks, other.marks, strict=False):
        if first.key != second.key:
            return f"node {', '.join(map(repr, second.nodes))}"
    ended = type(one.error).__name__, type(other.error).__name__
    return f"node {getattr(other.error, 'node', None)!r}" if len(set(ended)) > 1 and one.ended != "cut" else None
