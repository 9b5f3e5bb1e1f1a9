"""What the store holds can be checked without graphrt, and goes on to hold when a line is taken out of it."""

from __future__ import annotations

import ast
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from tests.journal import second_chain, voyage
from tests.journal.second_chain import Chain, Row, Thread, folded, thread_in, verify

from graphrt import Runtime
from graphrt.stores import open_store

THREADS = ("done", "edited", "forked", "copied", "long")
RUNS = 5


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with threads of all kinds: nested graphs, edits, a fork, a copy, large values, many runs."""
    path: Path = tmp_path_factory.mktemp("chain") / "runs.db"
    numbers, ids = itertools.count(1_750_000_000), itertools.count(1)
    options: dict[str, Any] = {"clock": lambda: next(numbers) + 0.123456789, "ids": lambda: f"run-{next(ids)}"}
    with Runtime(voyage.graph(), store=f"sqlite:///{path}", **options) as runtime:
        for thread in ("done", "edited", "long"):
            runtime.run({"notes": ["größe"]}, thread=thread)
        runtime.update("edited", {"table": {"c": "x" * 70_000}, "count": 5})
        runtime.resume("done", "left")
        runtime.resume("done", answer=True)
        runtime.fork("done", at=3, to="forked")
        runtime.retry("forked")
        for number in range(RUNS):
            runtime.resume("long", "left")
            runtime.resume("long", answer=True)
            runtime.run({"count": number}, thread="long")
    with open_store(f"sqlite:///{path}") as store:
        store.copy("done", "copied", at=1.0)
    return path


def test_second_implementation_knows_nothing_of_graphrt() -> None:
    tree = ast.parse(Path(second_chain.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)} | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }

    assert not [name for name in modules if name and name.split(".")[0] in ("graphrt", "tests")]


@pytest.mark.parametrize("thread", THREADS)
def test_every_record_is_verified(path: Path, thread: str) -> None:
    found = thread_in(path, thread)

    assert len(found.rows) >= 4
    assert verify(found) == len(found.rows)
    assert found.chained == {"copied": "done", "forked": "forked"}.get(thread, thread)


@pytest.mark.parametrize("thread", ["done", "edited"])
def test_every_change_of_a_row_is_noticed_where_it_stands(path: Path, thread: str) -> None:
    found = thread_in(path, thread)
    choose = random.Random(7)
    for at, one in enumerate(found.rows):
        for line in range(1, len(one.lines)):
            assert verify(with_row(found, at, changed_line(one, line, choose))) == at
        for salt in range(len(one.salts)):
            salts = [s if k != salt else flipped(s, choose) for k, s in enumerate(one.salts)]
            assert verify(with_row(found, at, one._replace(salts=tuple(salts)))) == at
        assert verify(with_row(found, at, one._replace(header=flipped(one.header, choose)))) == at


def test_record_that_is_dropped_or_swapped_or_repeated_is_noticed(path: Path) -> None:
    found = thread_in(path, "done")
    rows = found.rows
    for at in range(len(rows) - 1):
        assert verify(found._replace(rows=rows[:at] + rows[at + 1 :])) == at
        assert verify(found._replace(rows=[*rows[: at + 1], *rows[at:]])) == at + 1
        assert verify(found._replace(rows=[*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]])) == at


def test_rows_of_another_thread_do_not_fit(path: Path) -> None:
    done, long = thread_in(path, "done"), thread_in(path, "long")

    assert verify(done._replace(chained="other")) == 0
    assert verify(done._replace(rows=[done.rows[0], *long.rows[1:]])) == 1


@pytest.mark.parametrize("thread", ["done", "edited", "forked"])
def test_header_is_recomputed_with_any_one_line_taken_out(path: Path, thread: str) -> None:
    """Two hashes of the line stay, its commitment and what its field came to: neither line nor salt is needed."""
    found = thread_in(path, thread)
    taken = 0
    for at, one in enumerate(found.rows):
        whole = after(found, at)
        for line in range(1, len(one.lines)):
            hollow = one._replace(lines=without(one.lines, line), salts=without(one.salts, line))
            commitment = one.commitments()[line]
            assert commitment is not None
            chain = Chain(found.chained, found.names)
            for other, before in enumerate(found.rows):
                made = chain.header(before) if other != at else chain.header(hollow, {line: commitment}, whole)
                assert made.packed() == before.header
            taken += 1
    assert taken > 5


def test_lines_of_many_records_may_be_taken_out_at_once(path: Path) -> None:
    found = thread_in(path, "long")
    chain = Chain(found.chained, found.names)
    for at, one in enumerate(found.rows):
        nothing = (None,) * (len(one.lines) - 1)
        hollow = one._replace(lines=(one.lines[0], *nothing), salts=(one.salts[0], *nothing))
        kept = {line: made for line, made in enumerate(one.commitments()) if made is not None}
        assert chain.header(hollow, kept, after(found, at)).packed() == one.header


def test_line_with_another_salt_does_not_fit(path: Path) -> None:
    found = thread_in(path, "done")
    for at, one in enumerate(found.rows):
        if len(one.salts) > 1:
            assert verify(with_row(found, at, one._replace(salts=one.salts[::-1]))) == at


def test_salts_hide_equal_lines(path: Path) -> None:
    commitments = [one for row in thread_in(path, "long").rows for one in row.commitments()]

    assert len(set(commitments)) == len(commitments)


def test_every_kind_of_write_to_a_field_is_among_them(path: Path) -> None:
    codes = set()
    for thread in THREADS:
        for one in thread_in(path, thread).rows:
            structure = second_chain.json.loads(one.lines[0] or b"")
            codes |= {entry[0] for entry in structure[5] if list(folded([0, 0, 0, 0, 0, [entry]]))}

    assert codes >= {1, 8, 14, 16}


def after(found: Thread, at: int) -> dict[int, bytes]:
    """What its field came to with each line of the row *at*."""
    chain = Chain(found.chained, found.names)
    for one in found.rows[: at + 1]:
        chain.header(one)
    return chain.after


def with_row(found: Thread, at: int, new: Row) -> Thread:
    return found._replace(rows=[*found.rows[:at], new, *found.rows[at + 1 :]])


def without(parts: tuple[bytes | None, ...], at: int) -> tuple[bytes | None, ...]:
    return (*parts[:at], None, *parts[at + 1 :])


def flipped(data: bytes | None, choose: random.Random) -> bytes:
    assert data is not None
    at = choose.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << choose.randrange(8))]) + data[at + 1 :]


def changed_line(one: Row, at: int, choose: random.Random) -> Row:
    lines = list(one.lines)
    lines[at] = flipped(lines[at], choose)
    return one._replace(lines=tuple(lines))
