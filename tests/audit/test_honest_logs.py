"""An honest log is never reported as changed: random graphs, crashes, rotated keys, clocks that go back, prunes,
withheld lines.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audit import documented
from tests.audit.exporting import canonical, exported, heads_of
from tests.audit.honest_logs import KEY, OLD, OTHER, keyed
from tests.audit.matrix import is_record
from tests.laws.build import build
from tests.laws.description import Graph
from tests.laws.lasting import lasting_graphs
from tests.laws.steady import Steady

from graphrt import Runtime
from graphrt.audit.offline import verify
from graphrt.errors import GraphrtError
from graphrt.stores import MemoryStore, Store
from graphrt.stores.filters import ThreadFilter
from graphrt.stores.values import Record

KEYS = (OLD, KEY, OTHER)
ACTIONS = ("run", "resume", "resume", "retry", "update", "prune", "rotate", "rotate")


class Clock:
    """A clock that is set back occasionally."""

    def __init__(self, steps: Sequence[int]) -> None:
        self._steps, self._now, self._calls = steps, 1.7e9, 0

    def __call__(self) -> float:
        self._calls += 1
        self._now += self._steps[self._calls % len(self._steps)] / 7
        return self._now


def act(runtime: Any, store: Store, what: str, thread: str) -> None:
    """Perform an action on a thread, whether it is possible or not."""
    if what == "run":
        runtime.run({}, thread=thread)
    elif what == "resume":
        runtime.resume(thread, dict.fromkeys((one.id for one in runtime.state(thread).interrupts), 1))
    elif what == "retry":
        runtime.retry(thread)
    elif what == "update":
        runtime.update(thread, {})
    elif what == "prune":
        runtime.prune(thread)


def played(described: Graph, chance: random.Random) -> tuple[Store, list[bytes]]:
    """A store after some actions on a thread and its fork and copy, and the keys of their writes."""
    graph = build(described, Steady(described))
    clock = Clock([chance.randrange(-5_000_000, 9_000_000) for _ in range(chance.randint(1, 4))])
    store, used, ids = MemoryStore(), 0, itertools.count(1)
    with keyed(Runtime(graph, store=store, clock=clock, ids=lambda: f"run-{next(ids)}"), KEYS[0]) as runtime:
        for what in ["run", *chance.choices(ACTIONS, k=chance.randint(2, 9))]:
            if what == "rotate" and used + 1 < len(KEYS):
                used += 1
                keyed(runtime, KEYS[used], KEYS[:used])
                continue
            with contextlib.suppress(GraphrtError):
                act(runtime, store, what, "t")
        with contextlib.suppress(GraphrtError):
            runtime.fork("t", to="forked")
            act(runtime, store, chance.choice(["run", "resume", "retry"]), "forked")
        with contextlib.suppress(GraphrtError):
            runtime.copy_thread("t", "copied")
            act(runtime, store, chance.choice(["run", "resume", "prune"]), "copied")
    return store, [*KEYS[: used + 1]]


def crashed(lines: list[bytes], chance: random.Random) -> list[bytes]:
    """The lines of a mirror that was killed in the middle of a line, and then continued."""
    at = begin = chance.randint(1, len(lines) - 1)
    while chance.random() < 0.5 and begin > 1 and lines[begin - 1].startswith((b'{"blob"', b'{"names"')):
        begin -= 1  # the lines of the record are written again
    return [*lines[:at], canonical({"recovered": {"bytes": chance.randint(1, len(lines[at]) - 1)}}), *lines[begin:]]


def some_lines(records: Iterable[Record], chance: random.Random) -> dict[int, list[int]]:
    """Lines of some records, by the last entry of each, that are to be withheld."""
    gone: dict[int, list[int]] = {}
    for record in records:
        structure = json.loads(record.body.split(b"\n")[0])
        vouch = structure[6:7] if record.seq == record.count else []  # it contains no value, and is never withheld
        values = [number for number in range(1, record.body.count(b"\n")) if number not in vouch]
        if values and chance.random() < 0.1:
            gone[record.seq] = chance.sample(values, chance.randint(1, len(values)))
    return gone


@settings(max_examples=30 if settings().max_examples <= 200 else 1_000)
@given(lasting_graphs(), st.integers(0, 2**32))
def test_honest_log_is_never_reported_as_changed(described: Graph, salt: int) -> None:
    chance = random.Random(salt)
    store, keys = played(described, chance)
    for head in store.query(ThreadFilter()):
        gone = some_lines(store.records(head.thread), chance)
        every = chance.randint(1, 7)
        lines = list(exported(store, head.thread, key=lambda _: keys[-1], every=every, gone=gone))
        anchor = b"".join(chance.sample(heads := heads_of(lines), len(heads)))
        for _ in range(chance.randint(0, 2)):
            lines = crashed(lines, chance)
        log = b"".join(lines)
        report = verify(log, key=keys[-1], older=keys[:-1], anchor=anchor)

        assert report.slug == "withheld" if gone else report.slug in ("sound", "open-run"), report
        assert report.proved_records == report.records == sum(map(is_record, lines))
        assert report.authenticated_seq == report.anchored_seq == report.proved_seq
        assert report.erased_lines == report.withheld_lines == sum(map(len, gone.values()))
        assert documented.agree(report, log, keys, anchor)


EVENTS = {1, 8, 14, 16}


def test_logs_cover_every_way_of_writing_a_field() -> None:
    """Otherwise the rules about folded values would not be tested."""
    from tests.audit.honest_logs import log, voyages_with_a_fork

    codes = {
        entry[0]
        for lines in (log(), voyages_with_a_fork())
        for line in lines
        if is_record(line)
        for entry in json.loads(json.loads(line)["lines"][0])[5]
    }

    assert codes >= EVENTS


@pytest.mark.parametrize("make", [list, lambda lines: [*lines, b'{"count":1,"li']], ids=["whole", "torn"])
def test_log_of_a_fork_is_verified(make: Callable[[Sequence[bytes]], list[bytes]]) -> None:
    from tests.audit.honest_logs import voyages_with_a_fork

    lines = voyages_with_a_fork()
    report = verify(b"".join(make(lines)), key=KEY, anchor=b"".join(heads_of(lines)))

    assert report.exit_code in (0, 3)
    assert report.proved_records == sum(map(is_record, lines))
