"""The machine: random threads of random graphs on several stores in lockstep with the model. Rules that drive and edit.

Each rule gets the expected result of a call from the model, makes the call on every store, and compares. The
comparisons after every call are in `comparing`.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from graphrt import Runtime
from graphrt.commands import UNSET
from graphrt.errors import ConflictError
from laws import observe
from laws.description import Graph, Plain
from laws.lasting import lasting_graphs
from laws.model import FailedError
from laws.voyages import by_hand

from .comparing import Comparing, equal
from .parts import Outside, Question
from .replicas import Places, Replica
from .thread import RefusedError, ThreadModel

STORES = ("memory", "sqlite", "postgres", "encrypted")
MOST_THREADS = 6
WHICH = st.integers(0, MOST_THREADS - 1)
NUMBER = st.integers(0, 9)
EDIT = st.tuples(st.lists(st.tuples(NUMBER, NUMBER), max_size=2), st.one_of(st.none(), NUMBER))
"""Fields and what to write, by number, and the node as which, by number."""


@dataclass(frozen=True, repr=False)
class How(Plain):
    """How a thread is driven."""

    backwards: bool = False
    driver: str = "hand"
    """hand, crew (worker threads) or loop (asyncio)."""
    rival: bool = False
    """Another process tries to write the thread at the same time."""
    cancels: int | None = None
    """A node, by number, that cancels the run when it begins."""
    cut: tuple[int, bool] | None = None
    """The process dies at this commit; whether that is stored."""


HOW = st.sampled_from(
    [
        *(How(backwards=backwards) for backwards in (False, True) for _ in range(3)),
        *(How(driver=driver) for driver in ("crew", "loop") for _ in range(2)),
        How(rival=True),
        *(How(cancels=number) for number in range(4)),
    ]
)
CUT = st.builds(How, backwards=st.booleans(), cut=st.tuples(st.integers(0, 9), st.booleans()))


# `assume` would end an example at its first meaningless move, long before its last step. Therefore such moves have
# preconditions and are not drawn.
some_thread = precondition(lambda self: bool(self.threads))
room_for_another = precondition(lambda self: len(self.threads) < MOST_THREADS)
some_question = precondition(lambda self: bool(self.asking()))
single_question = precondition(lambda self: bool(self.asking_once()))
replaceable_answer = precondition(lambda self: bool(self.replaceable()))


class Machine(Comparing, RuleBasedStateMachine):
    """All operations on threads."""

    places: ClassVar[Places]
    steps: ClassVar[int] = 0

    @initialize(graph=lasting_graphs(once=True, asking=45))
    def begin(self, graph: Graph) -> None:
        self.graph = graph
        self.replicas = [Replica(name, self.places, graph) for name in STORES]
        self.threads: dict[str, ThreadModel] = {}
        self.compared: dict[str, int] = {}
        self.broken: set[str] = set()
        self.done: Counter[str] = Counter()
        self.made = 0

    def teardown(self) -> None:
        for replica in getattr(self, "replicas", ()):
            replica.close()

    # threads ----------------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def pick(self, which: int) -> ThreadModel:
        names = sorted(self.threads)
        return self.threads[names[which % len(names)]]

    def asking(self) -> list[ThreadModel]:
        """Threads with an open question."""
        return [thread for thread in self.threads.values() if thread.flow.questions()]

    def asking_once(self) -> list[ThreadModel]:
        """Threads that wait for the answer to a single question."""
        return [one for one in self.asking() if one.status == "interrupted" and len(one.flow.questions()) == 1]

    def replaceable(self) -> list[ThreadModel]:
        """Failed threads whose answer may be replaced."""
        return [one for one in self.threads.values() if one.status == "failed" and one.flow.replaceable()]

    def node(self, number: int) -> str:
        names = [node.name for node in self.graph.nodes]
        names += [inner.name for node in self.graph.nodes if node.child is not None for inner in node.child.nodes]
        return names[number % len(names)]

    def values(self, writes: list[tuple[int, int]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for place, number in writes:
            each = self.graph.fields[place % len(self.graph.fields)]
            found[each.name] = [number, number % 3] if each.is_list else number
        return found

    # driving ----------------------------------------------------------------------------------------------------------

    @room_for_another
    @rule(how=HOW)
    def start(self, how: How) -> None:
        """A run on a new thread."""
        self.run(ThreadModel(self.new_id(), self.graph), observe.given(self.graph), how)

    @some_thread
    @rule(which=WHICH, how=HOW, writes=st.lists(st.tuples(NUMBER, NUMBER), max_size=2), numbers=st.lists(NUMBER))
    def advance(self, which: int, how: How, writes: list[tuple[int, int]], numbers: list[int]) -> None:
        """Call the correct verb."""
        self.go_on(self.pick(which), how, writes, numbers)

    @rule(which=WHICH, how=CUT, writes=st.lists(st.tuples(NUMBER, NUMBER), max_size=2), numbers=st.lists(NUMBER))
    def crash(self, which: int, how: How, writes: list[tuple[int, int]], numbers: list[int]) -> None:
        """The same, and the process dies during the call."""
        if not self.threads or (which == 0 and len(self.threads) < MOST_THREADS):
            self.run(ThreadModel(self.new_id(), self.graph), observe.given(self.graph), how)
        else:
            self.go_on(self.pick(which), how, writes, numbers)

    def go_on(self, thread: ThreadModel, how: How, writes: list[tuple[int, int]], numbers: list[int]) -> None:
        if thread.status == "completed":
            self.run(thread, self.values(writes), how)
        elif thread.status == "interrupted" or (thread.status == "running" and thread.flow.questions() and numbers):
            self.resume(thread, self.answers(thread, numbers), how)
        elif thread.status == "running" and numbers:
            self.resume(thread, {}, how)
        else:
            self.retry(thread, how)

    def answers(self, thread: ThreadModel, numbers: list[int]) -> dict[str, Any]:
        """Answers to some of the open questions, at least to one."""
        found: dict[str, Any] = {}
        questions = thread.flow.questions()
        for place, question in enumerate(questions):
            number = numbers[place] if place < len(numbers) else 1
            if number == 9 and len(found) + len(questions) - place > 1:
                continue
            found[question.id] = self.answer(question, number)
        return found

    def answer(self, question: Question, number: int) -> Any:
        return ["run", {"result": number}, "run", "fail"][number % 4] if "problem" in question.payload else number

    @some_thread
    @rule(which=WHICH, how=HOW, writes=st.lists(st.tuples(NUMBER, NUMBER), max_size=2))
    def abandon(self, which: int, how: How, writes: list[tuple[int, int]]) -> None:
        """New input, regardless of unfinished tasks."""
        given = self.values(writes)
        thread = self.pick(which)

        def play(model: ThreadModel, outside: Outside) -> str:
            return model.run(given, outside, abandon=True)

        self.drive(thread, how, "run", play, given, thread=thread.id, if_exists="abandon")

    @replaceable_answer
    @rule(which=WHICH, how=HOW, number=NUMBER)
    def replace_answer(self, which: int, how: How, number: int) -> None:
        """Another answer for a task that failed with the first."""
        threads = self.replaceable()
        thread = threads[which % len(threads)]
        given = thread.flow.replaceable()
        _, question = given[number % len(given)]
        self.resume(thread, {question.id: self.answer(question, number)}, how)

    @some_thread
    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        """A stop button, while no process drives the thread."""
        thread = self.pick(which)
        expected = thread.cancel()
        seen = self.same(lambda replica: replica.runtime().cancel(thread.id))
        equal(seen, ("ok", expected), "cancel")
        self.take(thread)

    def run(self, thread: ThreadModel, given: dict[str, Any], how: How) -> None:
        self.drive(thread, how, "run", lambda model, outside: model.run(given, outside), given, thread=thread.id)

    def resume(self, thread: ThreadModel, answers: dict[str, Any], how: How, *, single: bool = False) -> None:
        real = {f"{thread.id}/{id_}": answer for id_, answer in answers.items()}
        given: Any = next(iter(real.values())) if single else real or UNSET
        self.drive(thread, how, "resume", lambda model, outside: model.resume(answers, outside), thread.id, given)

    def retry(self, thread: ThreadModel, how: How) -> None:
        self.drive(thread, how, "retry", lambda model, outside: model.retry(outside), thread.id)

    def drive(
        self,
        thread: ThreadModel,
        how: How,
        verb: str,
        play: Callable[[ThreadModel, Outside], str],
        /,
        *arguments: Any,
        **options: Any,
    ) -> None:
        """Make the model and every store continue, and compare."""
        before = copy.deepcopy(thread)
        cancels = set() if how.cancels is None else {self.node(how.cancels)}
        outside = Outside(thread.id, self.broken, cancels, how.backwards, keeps=how.cut is not None)
        try:
            expected: Any = play(thread, outside)
        except FailedError as failed:
            expected = failed
        except RefusedError as refused:
            expected = refused
        hand = isinstance(expected, FailedError) or how.driver == "hand" or outside.halted
        event(f"{verb}: {type(expected).__name__ if isinstance(expected, Exception) else expected}")

        def really(replica: Replica) -> Any:
            after, landed = how.cut if how.cut is not None else (None, False)
            replica.die(after, landed=landed)
            replica.world.broken = self.broken
            runtime = replica.runtime()
            replica.world.enter = self.hook(replica, runtime, thread.id, how, cancels)
            choose = (lambda tasks: len(tasks) - 1) if how.backwards else None
            by: AbstractContextManager[None] = by_hand(choose) if hand else nullcontext()
            with by:
                if how.driver == "loop" and not hand:
                    result = asyncio.run(getattr(runtime, f"a{verb}")(*arguments, **options))
                else:
                    result = getattr(runtime, verb)(*arguments, **options)
            asked = tuple(info.id for info in result.interrupts)
            return result.status, replica.plain(result.state), asked, result.steps

        dies = how.cut is not None and how.cut[0] < len(outside.kept)
        seen = self.same(really)
        commits = {replica.name: len(replica.mortal.commits) for replica in self.replicas}
        assert len(set(commits.values())) == 1 or not hand, commits
        if dies:
            assert how.cut is not None
            assert seen == ("dead", None), f"{seen} instead of a death at commit {how.cut} of {len(outside.kept)}"
            durable = sum(how.cut)
            event(f"cut after {durable} commits")
            thread = outside.kept[durable - 1] if durable else before
            for replica in self.replicas:
                replica.reopen()
        else:
            for replica in self.replicas:
                replica.die(None)
            self.compare_end(thread, seen, expected, outside)
            if hand and not isinstance(expected, RefusedError):
                assert commits["memory"] == len(outside.kept), f"{commits} commits instead of {len(outside.kept)}"
        if isinstance(expected, RefusedError):
            thread = before
        self.take(thread)
        self.done = self.check_done(outside, dies=dies)

    def hook(
        self, replica: Replica, runtime: Runtime[Any], thread: str, how: How, cancels: set[str]
    ) -> Callable[[str], None]:
        """The callback for the start of a node."""
        met: list[str] = []

        def enter(name: str) -> None:
            if name in cancels:
                assert runtime.cancel(thread)
            if how.rival and not met:
                met.append(name)
                with replica.rival() as rival:
                    assert rival.state(thread).status == "running"
                    for call in (
                        lambda: rival.update(thread, {}),
                        lambda: rival.retry(thread),
                        lambda: rival.run(observe.given(self.graph), thread=thread),
                        lambda: rival.delete_thread(thread),
                    ):
                        try:
                            call()
                        except ConflictError:
                            continue
                        raise AssertionError("two writers")

        return enter

    # wrong calls ------------------------------------------------------------------------------------------------------

    @some_thread
    @rule(which=WHICH, verb=st.sampled_from(["run", "resume", "retry"]), how=CUT)
    def wrong(self, which: int, verb: str, how: How) -> None:
        """Any verb, valid or not, on a thread that may be unknown."""
        thread = self.pick(which)
        if which == MOST_THREADS - 1 and verb != "run":
            thread = ThreadModel("unknown", self.graph)
        calls: dict[str, Callable[[], None]] = {
            "run": lambda: self.run(thread, {}, How()),
            "resume": lambda: self.resume(thread, {}, How()),
            "retry": lambda: self.retry(thread, How()),
        }
        calls[verb]()

    @some_question
    @rule(which=WHICH, kind=st.sampled_from(["unknown", "type", "stranger"]), number=NUMBER)
    def answer_wrongly(self, which: int, kind: str, number: int) -> None:
        """Answers, one of them invalid, which change nothing."""
        threads = self.asking()
        thread = threads[which % len(threads)]
        questions = thread.flow.questions()
        answers = self.answers(thread, [number])
        if kind == "unknown":
            answers["1.0:nobody#0"] = 1
        elif kind == "type" and questions[-1].typed:
            answers[questions[-1].id] = "a word"
        else:
            answers = {"0.0:a#0": 1}
        self.resume(thread, answers, How())

    @single_question
    @rule(which=WHICH, number=NUMBER)
    def answer_the_only_one(self, which: int, number: int) -> None:
        """One answer without an id."""
        threads = self.asking_once()
        thread = threads[which % len(threads)]
        answers = self.answers(thread, [number])
        if any(isinstance(answer, dict) for answer in answers.values()):  # it would be taken for answers by their ids
            answers = self.answers(thread, [0])
        self.resume(thread, answers, How(), single=True)

    # the world --------------------------------------------------------------------------------------------------------

    @rule(number=NUMBER)
    def break_or_mend(self, number: int) -> None:
        """Break a node, or repair it."""
        self.broken ^= {self.node(number)}

    @precondition(lambda self: self.broken)
    @rule()
    def mend_all(self) -> None:
        self.broken = set()

    @rule()
    def open_again(self) -> None:
        """The process ends, and another one continues."""
        for replica in self.replicas:
            replica.reopen()
