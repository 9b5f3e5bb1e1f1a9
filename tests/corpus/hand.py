"""One thread of the corpus in somebody's hand: what is done to it, with a clock and ids of its own, and how that ended.

No thread is described here, and nothing is judged.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from graphrt import Runtime
from graphrt.errors import GraphrtError

from .world import world

START_S: Final = 1_750_000_000.0
LATER_S: Final = START_S + 1_800
"""When threads are gone on with: half an hour later."""
SEED: Final = 7
KEYS: Final = {"k1": bytes(range(32))}
"""Of the encrypted databases."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A thread of the corpus.

    Attributes:
        name: The thread's id.
        graph: Makes its graph.
        write: How it came to stand as it stands.
        ways: How it may go on, by name; the first one is the plain one.
        options: More options of its runtime, made anew for each.
        later: Makes the graph to go on with, where that is another one.
        later_options: More options of the runtime to go on with, where they are others.
        dies: How many bodies are staged when its process dies, if it does.
        bulky: It has values above 64 KiB.
        flavours: Of the databases that have it: large values, encrypted, are large for ever.
    """

    name: str
    graph: Callable[[], Any]
    write: Callable[[Hand], None]
    ways: Mapping[str, Callable[[Hand], None]]
    options: Callable[[], dict[str, Any]] = dict
    later: Callable[[], Any] | None = None
    later_options: Callable[[], dict[str, Any]] | None = None
    dies: int | None = None
    bulky: bool = False
    flavours: tuple[str, ...] = ("plain", "chained", "encrypted")


class Hand:
    """Drives one thread, and tells how each call ended: a status, or the code of an error."""

    def __init__(self, case: Case, store: Any, *, now_s: float, ids: str, later: bool, **options: Any) -> None:
        self.thread = case.name
        self.told: list[str] = []
        self.now_s = now_s
        numbers = itertools.count(1)
        make, more = case.graph, case.options
        if later:
            make, more = case.later or make, case.later_options or more
        self.runtime: Runtime[Any] = Runtime(
            make(),
            store=store,
            clock=lambda: self.now_s,
            ids=lambda: f"{case.name}-{ids}-{next(numbers)}",
            seed=SEED,
            **more() | options,
        )
        world.cancel = lambda: self.runtime.cancel(self.thread)

    def other(self, graph: Any, **options: Any) -> Runtime[Any]:
        """A runtime of another graph on the same store."""
        old = self.runtime
        return Runtime(graph, store=old.store, clock=old.clock, ids=old.ids, seed=SEED, **options)

    def do(self, verb: str, *args: Any, **options: Any) -> None:
        self.now_s += 10
        try:
            self.told.append(getattr(self.runtime, verb)(*args, **options).status)
        except GraphrtError as error:
            self.told.append(error.code)

    def run(self, values: Any = None) -> None:
        self.do("run", {"notes": []} if values is None else values, thread=self.thread)

    def answer(self, value: Any = "yes", **by_node: Any) -> None:
        """Answer the only question; or those of the nodes that are named, in their order where one has a list."""
        if not by_node:
            return self.do("resume", self.thread, answer=value)
        answers: dict[str, Any] = {}
        left = {node: list(said) if isinstance(said, list) else [said] for node, said in by_node.items()}
        for question in self.runtime.state(self.thread).interrupts:
            if left.get(question.node):
                answers[question.id] = left[question.node].pop(0)
        return self.do("resume", self.thread, answers)

    def answer_all(self, value: Any = "yes") -> None:
        """Answer whatever is open, until nothing is."""
        seq = -1
        while questions := self.runtime.state(self.thread).interrupts:
            self.do("resume", self.thread, {question.id: value for question in questions})
            before, seq = seq, self.runtime.state(self.thread).seq
            assert seq > before, f"{self.thread} takes no answers: {self.told}"

    def retry(self, *, mended: bool = True) -> None:
        world.mended = mended
        self.do("retry", self.thread)

    def update(self, values: Any, **options: Any) -> None:
        self.do("update", self.thread, values, **options)

    def fork(self, *, at: int | None = None, to: str) -> None:
        """Fork the thread, and take the fork in hand."""
        self.thread = self.runtime.fork(self.thread, at=at, to=to)

    def later(self, seconds: float) -> None:
        self.now_s += seconds
