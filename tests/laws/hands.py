"""A run driven by hand through the two verbs, like on a distributed engine: messages arrive at least once, in any
order.

This module delivers messages, and has a script whose attempts fail at times; the tests check the result.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import Any

from graphrt import Context, RetryPolicy, events
from graphrt._drivers.invoke import invoke
from graphrt._drivers.scripted import ScriptedDriver
from graphrt._engine import emit_events
from graphrt._engine.engine import Engine
from graphrt._engine.task import Task
from graphrt._flows.verbs import Decision, drive
from graphrt._runs import open_run
from graphrt.errors import GraphrtError

from . import observe
from .build import Pace, Script, build, to_plain
from .description import Graph, Node, State

AT_ONCE = RetryPolicy(3, wait_initial_s=0.0)


class Flaky(Script):
    """The first attempts of a task with a context fail: none, one or two, depending on the task and *salt*."""

    def __init__(self, graph: Graph, salt: int) -> None:
        super().__init__(graph, Pace())
        self.salt = salt

    def outcome(self, node: Node, visit: int, state: Any, ctx: Context | None) -> Any:
        if ctx is not None and ctx.attempt <= zlib.crc32(f"{self.salt}/{ctx.task_id}".encode()) % 3:
            raise ConnectionError(ctx.attempt)
        return super().outcome(node, visit, state, ctx)


@dataclass(frozen=True)
class End:
    """The end of a run."""

    graph: Graph
    run: open_run.ActiveRun | None
    """None if not even the first tasks were determined."""
    journal: list[dict[str, Any]]
    error: GraphrtError | None = None
    delivered: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """(task, execution) of all messages, in order of arrival."""

    def state(self) -> State:
        """The last committed state."""
        return {} if self.run is None else to_plain(self.graph, self.run.engine.make_view(self.run.engine.values))


class Post:
    """Outcomes in flight to the engine: each one to three times, in any order, and old ones again."""

    def __init__(self, engine: Engine, chance: random.Random, delivered: list[tuple[str, int]]) -> None:
        self.engine = engine
        self.chance = chance
        self.delivered = delivered
        self.under_way: list[tuple[Task, int, Any]] = []
        self.old: list[tuple[Task, int, Any]] = []
        self.heard: set[tuple[str, int]] = set()

    def send(self, task: Task, outcomes: list[Any]) -> None:
        """Post the outcomes of the running execution of *task*."""
        self.under_way += [(task, task.execution, each) for each in outcomes]

    def deliver(self) -> None:
        """Deliver one message; only the first of an execution may count."""
        task, execution, outcome = self.under_way.pop(self.chance.randrange(len(self.under_way)))
        counts = self.engine.report(task, execution, outcome)
        self.delivered.append((task.id, execution))

        assert counts == ((task.id, execution) not in self.heard)
        self.heard.add((task.id, execution))
        self.old.append((task, execution, outcome))

    def deliver_again(self, most: int) -> None:
        """Deliver up to *most* old messages again; none may count."""
        for task, execution, outcome in self.chance.sample(self.old, min(most, len(self.old))):
            assert not self.engine.report(task, execution, outcome)


def begin(graph: Graph, salt: int, journal: list[dict[str, Any]]) -> open_run.ActiveRun:
    """A run that is ready to be driven."""
    runtime = observe.runtime(build(graph, Flaky(graph, salt), retry=AT_ONCE), journal, clock=lambda: 0.0)
    return open_run.begin(runtime._config, observe.given(graph), None)


def by_flow(graph: Graph, salt: int) -> End:
    """The run as its flow drives it: every outcome once, in task order."""
    journal: list[dict[str, Any]] = []
    run = None
    try:
        run = begin(graph, salt, journal)
        ScriptedDriver(run.services).drive(run.flow())
    except GraphrtError as error:
        return End(graph, run, journal, error)
    return End(graph, run, journal)


def by_hand(graph: Graph, salt: int, chance: random.Random) -> End:
    """The run as messages: `drive` is called too often, nodes run once to three times, outcomes arrive in any order."""
    journal: list[dict[str, Any]] = []
    delivered: list[tuple[str, int]] = []
    run = None
    try:
        run = begin(graph, salt, journal)
        status = deliver_all(run, Post(run.engine, chance, delivered))
    except GraphrtError as error:
        return End(graph, run, journal, error, delivered)
    assert status == "completed"
    emit_events.note(run.engine, events.RunCompleted(steps=run.engine.steps))
    run.services.write(emit_events.take(run.engine))
    return End(graph, run, journal, None, delivered)


def deliver_all(run: open_run.ActiveRun, post: Post) -> str:
    """Drive and deliver until the run ends."""
    engine, chance = run.engine, post.chance
    while True:
        try:
            decision = drive(engine)
        except GraphrtError as error:
            post.deliver_again(9)
            check_same(engine, error)
            raise
        finally:
            run.services.write(emit_events.take(engine))
        for task in decision.tasks:
            post.send(task, [invoke(run.services, task, never) for _ in range(chance.randint(1, 3))])
        if decision.status != "running":
            post.deliver_again(9)
            assert drive(engine) == decision
            return decision.status
        for _ in range(chance.randint(0, 2)):
            assert drive(engine) == Decision("running")
        post.deliver()
        post.deliver_again(chance.randint(0, 2))


def check_same(engine: Engine, error: GraphrtError) -> None:
    """Assert that another `drive` returns the same: no task was started."""
    again = None
    try:
        drive(engine)
    except GraphrtError as raised:
        again = raised
    assert type(again) is type(error)


def never(_flow: Any) -> Any:
    """A stub: no graph of the laws nests another one."""
    raise AssertionError
