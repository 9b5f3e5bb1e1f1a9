"""The journal writes and reads a plain superstep without building its events, with the same result."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Limits, Runtime, events
from graphrt._codec import Codec
from graphrt._journal import thread_meta
from graphrt._journal.fast_step_bytes import FastStepBytes, FastStepReader
from graphrt._journal.reader import Reader
from graphrt._journal.thread_meta import read_meta
from graphrt.reducers import add, append, ephemeral, merge, untracked
from graphrt.stores import SqliteStore

UPDATES: list[Any] = [
    {"log": ["a"], "count": 1},
    {"count": 1, "log": ["b", {"ü": [1.5, None, True]}]},
    {"last": "é\n\u2028", "count": 1},
    {"count": 1},
    {"notes": "gone tomorrow"},
    {"notes": "gone tomorrow", "last": "kept", "count": 10**20},
    {},
    None,
    {"table": {"k": (1, 2)}, "log": [], "count": 0},
    {"any": "x" * 70_000, "count": 1},
    {"any": 2.0},
    {"last": "y" * 20_000},
    {"last": "end"},
    {"any": float("inf"), "last": 'quoted "text" and \\'},
]


class State(BaseModel):
    log: Annotated[list[Any], append] = []
    count: Annotated[int, add] = 0
    last: str = ""
    table: Annotated[dict[str, Any], merge] = {}
    notes: Annotated[str, untracked] = ""
    any: Any = None


class Hinted(State):
    hint: Annotated[str, ephemeral] = ""


def graph(updates: list[Any], *, context: bool, state: Any = State) -> Any:
    left, rounds = iter(updates), itertools.count(1)

    def plain(state: State) -> Any:
        return next(left)

    def asking(state: State, ctx: Context) -> Any:
        return next(left)

    builder = GraphBuilder(state, name="brief")
    for name in ("first", "second"):
        builder.add_node(name, asking if context else plain)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_conditional_edges("second", lambda _: next(rounds) < len(updates) // 2, {True: "first", False: END})
    return builder.compile(limits=Limits(max_visits=None))


def stored(path: Path, made: Any, *, chain: bool = True, sinks: Any = (), times: Any = None) -> Any:
    """Everything that a seeded run leaves in the store."""
    clock = iter(times or (1_700_000_000 + at / 4 for at in itertools.count()))
    store = SqliteStore(path)
    options: Any = {"seed": 7, "clock": lambda: next(clock), "ids": lambda: "run-1", "chain": chain}
    with store, Runtime(made, store=store, sinks=sinks, **options) as runtime:
        runtime.run({}, thread="t")
        loaded = store.load("t")
        head = loaded.head._replace(created_at=0.0)  # by the system's clock
        return head, loaded.meta, loaded.snapshot, list(store.records("t"))


def no_step(_reader: FastStepReader, _body: bytes) -> None:
    """A replacement of `FastStepReader.read`: no superstep is plain."""


def nobody(_entry: Any) -> None:
    """A sink: the runtime builds events for it."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies that were written without events."""
    found: list[bytes] = []
    make = FastStepBytes.make

    def spy(*args: Any) -> Any:
        brief = make(*args)
        found.append(brief[0])
        return brief

    monkeypatch.setattr(FastStepBytes, "make", spy)
    return found


@pytest.mark.parametrize("context", [False, True], ids=["plain", "context"])
@pytest.mark.parametrize("chain", [False, True], ids=["bare", "chained"])
def test_bytes_equal_those_of_the_events(tmp_path: Path, made: list[bytes], chain: bool, context: bool) -> None:
    updates = UPDATES * 6
    brief = stored(tmp_path / "brief.db", graph(updates, context=context), chain=chain)
    # The record after a snapshot vouches for it, and is written the long way; so is the last, with the end of the run.
    vouching = sum(b'"snapshot":[' in record.body for record in brief[3])
    assert vouching > 0
    assert len(made) == len(updates) - vouching - 1

    long = stored(tmp_path / "long.db", graph(updates, context=context), chain=chain, sinks=[nobody])
    assert len(made) == len(updates) - vouching - 1
    assert brief[2] is not None
    assert brief == long


def test_a_superstep_that_resets_an_ephemeral_field_names_it(tmp_path: Path, made: list[bytes]) -> None:
    updates: list[Any] = [{"count": 1}, {"hint": "a", "count": 1}, {"count": 1}, {}, {"hint": "b"}, {"hint": "c"}, None]
    updates += [{"count": 1}]
    brief = stored(tmp_path / "brief.db", graph(updates, context=False, state=Hinted))
    assert len(made) == len(updates) - 3  # two that reset the field, and the last one

    assert brief == stored(tmp_path / "long.db", graph(updates, context=False, state=Hinted), sinks=[nobody])


def test_new_names_are_written_once(tmp_path: Path, made: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_meta, "PRELOADED_NAMES", 0)
    updates = UPDATES * 2
    brief = stored(tmp_path / "brief.db", graph(updates, context=False))
    assert len(UPDATES) <= len(made) < len(updates)

    assert brief == stored(tmp_path / "long.db", graph(updates, context=False), sinks=[nobody])


@pytest.mark.parametrize("times", [itertools.count(5), (1e16 * n for n in itertools.count(1))], ids=["whole", "huge"])
def test_times_are_written_alike(tmp_path: Path, times: Any) -> None:
    shown = [next(times) for _ in range(100)]
    brief = stored(tmp_path / "brief.db", graph(UPDATES, context=False), chain=False, times=shown)

    assert brief == stored(
        tmp_path / "long.db", graph(UPDATES, context=False), chain=False, sinks=[nobody], times=shown
    )


def test_bytes_decode_to_the_same_events(tmp_path: Path) -> None:
    made = graph(UPDATES, context=False)
    stored(tmp_path / "brief.db", made)
    with SqliteStore(tmp_path / "brief.db") as store:
        loaded = store.load("t", upto=2 * len(UPDATES))
        reader = Reader(store, "t", Codec([State]), meta=read_meta(loaded.meta, "t"))
        steps = FastStepReader(reader)
        found = [(steps.read(record.body), reader.body(record.body)) for record in loaded.records]

    read = [(step, batch, body) for step, (batch, body) in found if step is not None]
    assert len(read) > len(UPDATES) // 2
    for step, batch, body in read:
        done, commit = (event for _, event in batch.logged)
        assert isinstance(done, events.TaskSucceeded)
        assert isinstance(commit, events.SuperstepCommitted)
        at, run, lines, written, update, target = step
        assert (at, run, lines) == (batch.at, batch.run, body.lines)
        assert [*written] == body.written
        assert (update,) == done.updates
        assert (target,) == commit.next


@pytest.mark.parametrize("chain", [False, True], ids=["bare", "chained"])
@pytest.mark.parametrize("state", [State, Hinted], ids=["plain", "ephemeral"])
def test_a_thread_is_folded_to_the_same_state_without_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: bool, state: Any
) -> None:
    hints: list[Any] = [{"hint": "a"}, {"count": 1}, {"hint": "b"}, {"count": 1}, {"log": ["c"]}, {"log": ["d"]}]
    made = graph((hints if state is Hinted else []) + UPDATES * 2, context=False, state=state)
    stored(tmp_path / "brief.db", made, chain=chain)

    def shown() -> Any:
        with Runtime(made, store=f"sqlite:///{tmp_path / 'brief.db'}") as runtime:
            found = [runtime.state("t", at=at) for at in (2, 5, 7, 9, 10, 12, 17, 40, None)]
            return [(one.values, one.next, one.seq, one.status) for one in found]

    fast = shown()
    monkeypatch.setattr(FastStepReader, "read", no_step)

    assert fast == shown()
