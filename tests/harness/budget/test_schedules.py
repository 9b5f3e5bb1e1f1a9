"""committed + held <= limit at every moment, for calls that end, fail or are cancelled (64 calls, three levels).

300 schedules; 10,000 with GRAPHRT_FULL=1.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from contextlib import suppress
from itertools import chain
from typing import Final

import pytest

from graphrt.errors import BudgetExceededError
from graphrt.events import Amounts
from graphrt.harness import Budget, Ledger

FULL = os.environ.get("GRAPHRT_FULL") == "1"
SCHEDULES: Final = 10_000 if FULL else 300
THREADED: Final = 300 if FULL else 10
CALLS: Final = 64


class Tree:
    """A run, three nodes and six agents, each with its own budget, and 64 calls below them."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.run = Ledger(Budget(tokens=draw.randrange(100, 2_500), calls=draw.choice([None, 20, 50])), of="run")
        self.nodes = [
            Ledger(Budget(tokens=draw.randrange(50, 1_500)), of=f"node {n}", parent=self.run) for n in range(3)
        ]
        self.agents = [
            Ledger(Budget(usd=draw.randrange(1, 1_000) / 1e6, tokens=900), of=f"agent {n}", parent=node)
            for n, node in enumerate(chain(self.nodes, self.nodes))
        ]
        self.all = [self.run, *self.nodes, *self.agents]
        self.taken = dict.fromkeys(self.all, Amounts())
        self.lock = threading.Lock()
        self.outcomes: list[tuple[int, str]] = []

    def check(self) -> None:
        for ledger in self.all:
            for spent, held, limit in zip(ledger.spent, ledger.held, ledger._limits, strict=True):
                assert spent >= 0
                assert held >= 0
                assert limit is None or spent + held <= limit

    async def call(self, number: int, draw: random.Random, check: bool) -> None:
        """One call, like `spend` makes it."""
        ledger = draw.choice([*self.agents, *self.agents, *self.nodes, self.run])
        want = Amounts(draw.randrange(0, 200), draw.randrange(0, 200), 1)
        before, during, fails = draw.randrange(4), draw.randrange(6), draw.random() < 0.2
        part = draw.random()
        used = Amounts(int(want.tokens * part), int(want.microusd * part), 1)
        try:
            for _ in range(before):
                await asyncio.sleep(0)
            hold = await ledger.reserve(want)
            try:
                if check:
                    self.check()
                for _ in range(during):
                    await asyncio.sleep(0)
                if fails:
                    raise ConnectionError
                with self.lock:
                    for one in ledger.chain():
                        self.taken[one] = self.taken[one].plus(used)
                hold.commit(used)
            finally:
                hold.release()
                if check:
                    self.check()
            self.outcomes.append((number, "ended"))
        except BudgetExceededError:
            self.outcomes.append((number, "refused"))
        except ConnectionError:
            self.outcomes.append((number, "failed"))

    async def calls(self, numbers: range, seed: int, *, check: bool) -> None:
        draw = random.Random(seed)
        tasks = [asyncio.create_task(self.call(n, random.Random(f"{seed}/{n}"), check)) for n in numbers]
        for _ in range(draw.randrange(12)):
            await asyncio.sleep(0)
            draw.choice(tasks).cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    def over(self) -> None:
        """Nothing is reserved or waits, and the spent amount is that of the ended calls."""
        assert not self.run._tree.waiting
        for ledger in self.all:
            assert ledger.held == Amounts()
            assert ledger.spent == self.taken[ledger]


def schedule(seed: int) -> Tree:
    tree = Tree(seed)
    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(tree.calls(range(CALLS), seed, check=True), timeout=60))
    tree.over()
    return tree


@pytest.mark.parametrize("part", range(10))
def test_no_schedule_breaks_a_budget(part: int) -> None:
    """10,000 schedules with GRAPHRT_FULL=1, else 300."""
    ended = refused = 0
    for seed in range(part, SCHEDULES, 10):
        outcomes = [what for _, what in schedule(seed).outcomes]
        ended += outcomes.count("ended")
        refused += outcomes.count("refused")

    assert ended > SCHEDULES / 10
    assert refused > SCHEDULES / 10


def test_same_schedule_admits_the_same_calls() -> None:
    assert schedule(7).outcomes == schedule(7).outcomes


@pytest.mark.parametrize("seed", range(THREADED))
def test_event_loops_in_several_worker_threads_share_a_budget(seed: int) -> None:
    """A separate worker thread checks the limits, since no moment is idle."""
    tree, done, broken = Tree(seed), threading.Event(), list[BaseException]()

    def work(number: int) -> None:
        try:
            numbers = range(number * 16, number * 16 + 16)
            asyncio.run(asyncio.wait_for(tree.calls(numbers, seed * 4 + number, check=False), timeout=60))
        except BaseException as error:  # noqa: BLE001 - re-raised by the test
            broken.append(error)

    def watch() -> None:
        while not done.is_set():
            with tree.run._tree.lock:
                try:
                    tree.check()
                except AssertionError as error:
                    broken.append(error)
                    return

    watcher = threading.Thread(target=watch)
    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in (watcher, *workers):
        one.start()
    for one in workers:
        one.join()
    done.set()
    watcher.join()

    assert broken == []
    tree.over()
