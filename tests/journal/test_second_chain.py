"""Stored threads can be verified without graphrt, even after a line was removed."""

from __future__ import annotations

import ast
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journal import second_chain, voyage
from tests.journal.second_chain import Chain, Row, Thread, folded, thread_in, verify

from graphrt import Runtime

THREADS = ("done", "edited", "forked", "copied", "long", "pruned", "pruned-copy")
BEGAN = {"copied": "done", "pruned": "long", "pruned-copy": "long"}
RUNS = 5


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with threads of all kinds: nested graphs, edits, a fork, copies, large values, many runs, a pruned
    history.
    """
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
        runtime.copy_thread("done", "copied")
        runtime.copy_thread("long", "pruned")
        assert runtime.prune("pruned", before=60) > 20
        runtime.copy_thread("pruned", "pruned-copy")
    return path


def test_second_implementation_does_not_import_graphrt() -> None:
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
    assert found.chained == BEGAN.get(thread, thread)
    assert (found.pruned > 0) == (thread in ("pruned", "pruned-copy"))


@pytest.mark.parametrize("thread", ["done", "edited", "pruned"])
def test_every_change_of_a_row_is_detected_at_its_place(path: Path, thread: str) -> None:
    found = thread_in(path, thread)
    choose = random.Random(7)
    for at, one in enumerate(found.rows):
        for line in range(1, len(one.lines)):
            assert verify(with_row(found, at, changed_line(one, line, choose))) == at
        for salt in range(len(one.salts)):
            salts = [s if k != salt else flipped(s, choose) for k, s in enumerate(one.salts)]
            assert verify(with_row(found, at, one._replace(salts=tuple(salts)))) == at
        for part in ("kid", "state", "leaf"):
            changed = one._replace(**{part: flipped(getattr(one, part), choose)})
            assert verify(with_row(found, at, changed)) == at


def test_dropped_swapped_or_repeated_record_is_detected(path: Path) -> None:
    found = thread_in(path, "done")
    rows = found.rows
    for at in range(len(rows) - 1):
        assert verify(found._replace(rows=rows[:at] + rows[at + 1 :])) == at
        assert verify(found._replace(rows=[*rows[: at + 1], *rows[at:]])) == at + 1
        assert verify(found._replace(rows=[*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]])) == at


def test_rows_of_another_thread_do_not_match(path: Path) -> None:
    done, long = thread_in(path, "done"), thread_in(path, "long")

    assert verify(done._replace(chained="other")) == 0
    assert verify(done._replace(rows=[done.rows[0], *long.rows[1:]])) == 1


@pytest.mark.parametrize("thread", THREADS)
@given(data=st.data())
def test_every_header_is_recomputed_with_any_lines_removed(path: Path, thread: str, data: st.DataObject) -> None:
    """A line that was removed with its salt leaves its commitment, which is sufficient."""
    found = thread_in(path, thread)
    places = [(at, line) for at, one in enumerate(found.rows) for line in range(1, len(one.lines))]
    gone = data.draw(st.sets(st.sampled_from(places), min_size=1) | st.just(set(places)))
    hollow, kept = redacted(found, gone)

    assert len(places) > 5
    assert sum(one.lines.count(None) for one in hollow.rows) == len(gone)
    chain = Chain(hollow.chained, hollow.names, hollow.saved)
    for at, one in enumerate(hollow.rows):
        assert one.sealed(chain.header(one, kept[at]))


def test_wrong_commitment_of_a_removed_line_does_not_match(path: Path) -> None:
    found = thread_in(path, "done")
    [place, *_] = folded_places(found)
    hollow, kept = redacted(found, {place})
    at, line = place
    chain = Chain(hollow.chained, hollow.names)
    for index, one in enumerate(hollow.rows[: at + 1]):
        made = chain.header(one, {line: bytes(32)} if index == at else kept[index])

    assert made.leaf() != found.rows[at].leaf
    assert made.state != found.rows[at].state


def test_line_with_another_salt_does_not_match(path: Path) -> None:
    found = thread_in(path, "done")
    for at, one in enumerate(found.rows):
        if len(one.salts) > 1:
            assert verify(with_row(found, at, one._replace(salts=one.salts[::-1]))) == at


def test_salts_hide_equal_lines(path: Path) -> None:
    commitments = [one for row in thread_in(path, "long").rows for one in row.commitments()]

    assert len(set(commitments)) == len(commitments)


@pytest.mark.parametrize("thread", ["pruned", "pruned-copy"])
def test_chain_in_the_snapshot_has_to_match(path: Path, thread: str) -> None:
    """Snapshots have no seal, but the first header after one shows whether its digests are those of the chain."""
    found = thread_in(path, thread)
    assert found.saved is not None
    for name, digest in found.saved.items():
        if name == "\x00tree":  # used by proofs, not by the chain
            continue
        saved = found.saved | {name: digest[:-1] + ("0" if digest[-1] != "0" else "1")}
        assert verify(found._replace(saved=saved)) == 0

    assert verify(found._replace(saved=None)) == 0
    assert verify(found._replace(pruned=found.pruned + 1)) == 0


def test_every_kind_of_write_to_a_field_is_covered(path: Path) -> None:
    codes = set()
    for thread in THREADS:
        for one in thread_in(path, thread).rows:
            structure = second_chain.json.loads(one.lines[0] or b"")
            codes |= {entry[0] for entry in structure[5] if list(folded([0, 0, 0, 0, 0, [entry]]))}

    assert codes >= {1, 8, 14, 16}


def redacted(found: Thread, gone: set[tuple[int, int]]) -> tuple[Thread, list[dict[int, bytes]]]:
    """The thread without those lines and their salts, and the remaining commitments, by row."""
    rows, kept = list(found.rows), [dict[int, bytes]() for _ in found.rows]
    for at, line in gone:
        commitment = found.rows[at].commitments()[line]
        assert commitment is not None
        kept[at][line] = commitment
        rows[at] = rows[at]._replace(lines=without(rows[at].lines, line), salts=without(rows[at].salts, line))
    return found._replace(rows=rows), kept


def folded_places(found: Thread) -> list[tuple[int, int]]:
    """Row and line of every value that was folded into a field."""
    structures = [second_chain.json.loads(one.lines[0] or b"") for one in found.rows]
    return [(at, line) for at, structure in enumerate(structures) for _, line in folded(structure)]


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
