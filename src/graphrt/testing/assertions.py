"""`assert_run`: assertions about a recorded run, whose messages say what happened instead.

Each method returns the object itself, so that assertions chain, and raises `AssertionError` with the expectation, what
the run did, and the difference between them.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Sequence
from pprint import pformat
from typing import Any, Final, Generic, TypeVar, cast, final

from graphrt._arguments import check_count, not_awaitable
from graphrt.commands import END, START, NodeRef, node_name
from graphrt.errors import InputError, closest, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.events import TaskRetried, Usage
from graphrt.testing.recording import RecordedRun

__tracebackhide__ = True  # pytest shows the line of the caller, not those of this module
S = TypeVar("S")

_AMOUNTS: Final = ("tokens", *(field.name for field in dataclasses.fields(Usage)))
_NOT_GIVEN: Final[Any] = object()


def assert_run(run: RecordedRun[S]) -> RunAssertions[S]:
    """Return chainable assertions about *run*.

    Raises:
        InputError: *run* was not made by `record` or `arecord`.
    """
    unchecked: object = run
    if type(unchecked) is not RecordedRun:
        raise INVALID_ARGUMENT(
            argument="The run of assert_run()", value=unchecked, wanted="a recorded run: run = record(graph, input)"
        )
    return RunAssertions(run)


@final
class RunAssertions(Generic[S]):
    """Assertions about one recorded run; `assert_run` makes them."""

    __slots__ = ("run",)

    def __init__(self, run: RecordedRun[S]) -> None:
        self.run: RecordedRun[S] = run

    # -- the path ------------------------------------------------------------------------------------------------

    def visited(self, *nodes: NodeRef) -> RunAssertions[S]:
        """Exactly these nodes ran, in this order, with one name per task."""
        return self._same("visited", [self._name(node) for node in nodes], list(self.run.visited))

    def visited_in_order(self, *nodes: NodeRef) -> RunAssertions[S]:
        """These nodes ran in this order, possibly with others between them."""
        rest = iter(self.run.visited)
        for at, name in enumerate(wanted := [self._name(node) for node in nodes]):
            if name not in rest:
                before = f" after {' -> '.join(wanted[:at])}" if at else ""
                self._fail(f"{name!r} did not run{before}.", f"visited: {' -> '.join(self.run.visited) or 'nothing'}")
        return self

    def never_visited(self, *nodes: NodeRef) -> RunAssertions[S]:
        """None of these nodes ran."""
        for name in map(self._name, nodes):
            if name in self.run.visited:
                self._fail(f"{name!r} ran.", f"visited: {' -> '.join(self.run.visited)}")
        return self

    def routed(self, source: Any, target: Any, *, times: int | None = None) -> RunAssertions[S]:
        """The run took the edge from *source* to *target*, exactly *times* times if given.

        Args:
            source: A node, or START.
            target: A node, or END.
            times: Exact number of times; None means at least once.
        """
        start, end = self._name(source), self._name(target)
        taken = [route for route in self.run.routes if route.source == start]
        count = sum(route.target == end for route in taken)
        if count == 0 if times is None else count != times:
            often = "never" if count == 0 else f"{count} times"
            wanted = "" if times is None else f", not {times} times"
            lines = [f"  superstep {route.superstep}: {start} -> {route.target}" for route in taken]
            self._fail(
                f"The run took the edge {start} -> {end} {often}{wanted}.",
                "\n".join([f"edges taken from {start}:", *lines]) if lines else f"no edge was taken from {start}",
            )
        return self

    def never_routed(self, source: Any, target: Any) -> RunAssertions[S]:
        """The run did not take the edge from *source* to *target*."""
        return self.routed(source, target, times=0)

    # -- the results ---------------------------------------------------------------------------------------------

    def state(self, field: str, expected: Any) -> RunAssertions[S]:
        """The last committed state has this value in *field*. A sync function gets the value, and must return true.

        Args:
            field: Name of a field of the state.
            expected: The value, compared with `==`, or a predicate.
        """
        value = self._field(self.run.state, field)
        if callable(expected) and not isinstance(expected, type) and expected != value:
            if not not_awaitable("The predicate of state()", expected(value)):
                self._fail(f"The predicate does not hold for the field {field!r}.", f"value: {pformat(value)}")
            return self
        return self._same(f"state.{field}", expected, value)

    def state_after(self, node: NodeRef, field: str, expected: Any, *, nth: int = 1) -> RunAssertions[S]:
        """The state after a task of *node* had this value in *field*.

        Args:
            node: The node.
            field: Name of a field of the state.
            expected: The value, compared with `==`.
            nth: Which task of the node, from 1.
        """
        check_count("nth= of state_after()", nth)
        name = self._name(node)
        steps = [step for step in self.run.steps if step.node == name and step.outcome != "interrupted"]
        if len(steps) < nth:
            self._fail(
                f"{name!r} has no task number {nth} that ended.",
                f"visited: {' -> '.join(self.run.visited) or 'nothing'}",
            )
        value = self._field(steps[nth - 1].after, field)
        return self._same(f"state.{field} after {name}, task {nth}", expected, value)

    def usage(self, **amounts: Any) -> RunAssertions[S]:
        """The model calls of the run used exactly these amounts.

        Args:
            amounts: `tokens` (input and output together), or a field of `Usage`, such as `calls`.
        """
        used = self.run.usage
        known = {name: used.total_tokens if name == "tokens" else getattr(used, name) for name in _AMOUNTS}
        for name in amounts:
            if name not in known:
                raise _unknown("amount of usage", name, known)
        return self._same("usage", dict(sorted(amounts.items())), {name: known[name] for name in sorted(amounts)})

    # -- the end -------------------------------------------------------------------------------------------------

    def completed(self) -> RunAssertions[S]:
        """The run completed."""
        return self._status("completed")

    def cancelled(self) -> RunAssertions[S]:
        """The run was cancelled."""
        return self._status("cancelled")

    def interrupted(
        self,
        node: NodeRef | None = None,
        *,
        payload: Any = _NOT_GIVEN,
        kind: str | None = None,
        count: int | None = None,
    ) -> RunAssertions[S]:
        """The run waits for an answer.

        Args:
            node: The node that asks.
            payload: Payload of the question, compared with `==`.
            kind: The kind of the question, such as "approval".
            count: How many questions are open.
        """
        self._status("interrupted")
        asked = self.run.interrupts
        if count is not None and len(asked) != count:
            self._fail(f"{len(asked)} questions are open, not {count}.", self._questions())
        name = None if node is None else self._name(node)
        for info in asked:
            if (
                (name is None or info.node == name)
                and (kind is None or info.kind == kind)
                and (payload is _NOT_GIVEN or info.payload == payload)
            ):
                return self
        wanted = {"node": name, "kind": kind, **({} if payload is _NOT_GIVEN else {"payload": payload})}
        text = ", ".join(f"{key} {value!r}" for key, value in wanted.items() if key == "payload" or value is not None)
        self._fail(f"No open question has {text}.", self._questions())
        return self

    def failed(
        self, error: type[BaseException] | None = None, *, match: str | None = None, node: NodeRef | None = None
    ) -> RunAssertions[S]:
        """The run failed.

        Args:
            error: Class of the error, or of its `__cause__`.
            match: Regular expression to find in the text of the error or of its cause.
            node: The node that failed.
        """
        if error is not None:
            _check_class("The error of failed()", error, BaseException, "a class of exceptions; match= checks the text")
        self._status("failed")
        raised = self.run.error
        chain: list[BaseException] = []
        while raised is not None and raised not in chain:
            chain.append(raised)
            raised = raised.__cause__
        description = "\n".join(
            f"{'  caused by ' if at else ''}{type(link).__name__}: {link}" for at, link in enumerate(chain)
        )
        if error is not None and not any(isinstance(link, error) for link in chain):
            self._fail(f"The run did not fail with {error.__name__}.", description)
        if match is not None and not any(re.search(match, str(link)) for link in chain):
            self._fail(f"No error of the run matches {match!r}.", description)
        if node is not None:
            name, failed = self._name(node), [s.node for s in self.run.steps if s.outcome == "error"]
            if name not in failed:
                self._fail(f"{name!r} did not fail.", f"nodes that failed: {names(failed)}\n{description}")
        return self

    def retried(self, node: NodeRef, *, times: int | None = None) -> RunAssertions[S]:
        """Attempts at *node* failed and were retried, exactly *times* attempts if given."""
        name = self._name(node)
        retries = [e for e in self.run.events if isinstance(e, TaskRetried) and e.node == name]
        if not retries if times is None else len(retries) != times:
            wanted = "" if times is None else f", not {times} times"
            lines = [f"  attempt {event.attempt}: {event.error}: {event.message}" for event in retries]
            self._fail(f"{name!r} was retried {len(retries)} times{wanted}.", "\n".join(lines))
        return self

    def warned(self, match: str) -> RunAssertions[S]:
        """A warning of the run matches this regular expression."""
        if not any(re.search(match, warning) for warning in self.run.warnings):
            self._fail(f"No warning of the run matches {match!r}.", "warnings: " + pformat(list(self.run.warnings)))
        return self

    def without_warnings(self) -> RunAssertions[S]:
        """The run gave no warning."""
        return self._same("warnings", [], list(self.run.warnings))

    def events(self, kind: type[Any], check: Callable[[Any], bool] | None = None) -> RunAssertions[S]:
        """The journal has an event of the class *kind* that passes *check*, if given."""
        _check_class("The kind for events()", kind, object, "a class of events, such as SuperstepCommitted")
        matching = [event for event in self.run.events if isinstance(event, kind)]
        if not any(check is None or not_awaitable("The check of events()", check(event)) for event in matching):
            self._fail(
                f"The journal has no {kind.__name__}{' that passes the check' if check and matching else ''}.",
                "\n".join(map(repr, matching))
                or "kinds: " + names({type(event).__name__ for event in self.run.events}),
            )
        return self

    # -- helpers -------------------------------------------------------------------------------------------------

    def _name(self, node: Any) -> str:
        if node is START or node is END:
            return "START" if node is START else "END"
        if node in ("START", "END"):
            return str(node)
        name = node_name(node)
        if name not in self.run.graph.nodes:
            raise _unknown("node of the graph", name, self.run.graph.nodes)
        return str(name)

    def _field(self, state: Any, field: str) -> Any:
        if isinstance(state, dict):
            state = cast("dict[str, Any]", state)
            fields: Sequence[str] = list(self.run.graph.topology()["state"])
            if field not in state and field in fields:
                return None
            if field not in state:
                raise _unknown("field of the state", field, fields)
            value: Any = state[field]
            return value
        if not hasattr(state, field):
            raise _unknown("field of the state", field, self.run.graph.topology()["state"])
        return getattr(state, field)

    def _status(self, wanted: str) -> RunAssertions[S]:
        if self.run.status != wanted:
            self._fail(f"The run is {self.run.status}, not {wanted}.", self._outcome())
        return self

    def _outcome(self) -> str:
        error = self.run.error
        if error is not None:
            return f"{type(error).__name__}: {error}"
        visited = f"visited: {' -> '.join(self.run.visited) or 'nothing'}"
        return f"{visited}\n{self._questions()}" if self.run.interrupts else visited

    def _questions(self) -> str:
        return "\n".join(
            ["open questions:", *(f"  {info.node} ({info.kind}): {info.payload!r}" for info in self.run.interrupts)]
        )

    def _same(self, subject: str, expected: Any, actual: Any) -> RunAssertions[S]:
        if expected != actual:
            left, right = _lines(expected), _lines(actual)
            diff = difflib.unified_diff(left, right, "expected", "found", lineterm="", n=3)
            self._fail(
                f"{subject} is not as expected.", "\n".join(diff) or f"expected {expected!r}\nfound    {actual!r}"
            )
        return self

    def _fail(self, problem: str, detail: str) -> None:
        lines = "\n".join(f"  {line}" for line in detail.splitlines())
        raise AssertionError(f"{problem}\n{lines}" if lines else problem)


def _check_class(name: str, value: Any, base: type, wanted: str) -> None:
    if not isinstance(value, type) or not issubclass(value, base):
        raise INVALID_ARGUMENT(argument=name, value=value, wanted=wanted)


def _lines(value: Any) -> list[str]:
    """Return *value* in lines for a diff: one per item of a list."""
    if isinstance(value, list):
        return [repr(item) for item in value]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return pformat(value, width=100).splitlines()


def _unknown(kind: str, name: Any, known: Any) -> InputError:
    return UNKNOWN_NAME_IN_ARGUMENT(
        argument="The assertion", name=name, what=kind, known_names=known, guess=closest(name, known)
    )
