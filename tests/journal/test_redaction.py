"""Once a line and its salt are gone, the remaining data cannot confirm a guess of the line."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Annotated, Any

import pytest
from tests.journal.second_chain import Chain, Row, Thread, folded, rolled, sha, thread_in
from typing_extensions import TypedDict

from graphrt import END, START, GraphBuilder, Runtime
from graphrt.reducers import append

SECRET = "no"
GUESSES = [b'"yes"', b'"no"', b"true", b"false", b"null"]
LABELS = (b"", b"graphrt/commit/v1\x00", b"graphrt/field/v1\x00", b"\x00")


class State(TypedDict, total=False):
    consent: str
    notes: Annotated[list[str], append]


def graph() -> Any:
    g = GraphBuilder(State, name="form")
    g.add_node("ask", lambda _: {"consent": SECRET, "notes": ["asked"]})
    g.add_node("again", lambda _: {"consent": "later", "notes": ["asked"]})
    g.add_edge(START, "ask").add_edge("ask", "again").add_edge("again", END)
    return g.compile()


def written(path: Path, *, seed: int | None) -> Thread:
    with Runtime(graph(), store=f"sqlite:///{path}", seed=seed, clock=lambda: 1.75e9, ids=lambda: "run-1") as runtime:
        runtime.run({"notes": []}, thread="t")
    return thread_in(path, "t")


def states(found: Thread) -> list[dict[str, bytes]]:
    """The fields' digests after each row."""
    chain, after = Chain(found.chained, found.names), []
    for one in found.rows:
        assert one.sealed(chain.header(one))
        after.append(dict(chain.digests))
    return after


def place_of_secret(found: Thread) -> tuple[int, int]:
    line = json.dumps(SECRET).encode()
    [place] = [(at, one.lines.index(line)) for at, one in enumerate(found.rows) if line in one.lines]
    assert place[1] in [at for _, at in folded(json.loads(found.rows[place[0]].lines[0] or b""))]
    return place


def with_salt(one: Row, line: int, salt: bytes) -> Row:
    return one._replace(salts=(*one.salts[:line], salt, *one.salts[line + 1 :]))


def test_fields_of_two_unseeded_runs_have_different_digests(tmp_path: Path) -> None:
    """Although the same values were folded into them: a thread's digest reveals no values of other threads."""
    one, other = (written(tmp_path / f"{number}.db", seed=None) for number in range(2))

    assert [row.lines[1:] for row in one.rows] == [row.lines[1:] for row in other.rows]
    for a, b in zip(states(one), states(other), strict=True):
        assert a.keys() == b.keys() != set()
        assert not set(a.values()) & set(b.values())


def test_fields_of_two_seeded_runs_have_equal_digests(tmp_path: Path) -> None:
    one, other, third = (written(tmp_path / f"{number}.db", seed=seed) for number, seed in enumerate((7, 7, 8)))

    assert one == other
    assert states(one) == states(other)
    assert not set(states(one)[-1].values()) & set(states(third)[-1].values())


@pytest.mark.parametrize("seed", [None, 7])
def test_right_guess_with_another_salt_is_as_wrong_as_any(tmp_path: Path, seed: int | None) -> None:
    found = written(tmp_path / "runs.db", seed=seed)
    at, line = place_of_secret(found)
    one, true = found.rows[at], states(found)[at]["consent"]
    salts = [bytes(16), os.urandom(16), *[salt for row in found.rows for salt in row.salts if salt != one.salts[line]]]
    for salt in salts:
        chain = Chain(found.chained, found.names)
        for before in found.rows[:at]:
            chain.header(before)
        made = chain.header(with_salt(one, line, salt or b""))

        assert chain.digests["consent"] != true
        assert made.state != one.state


def test_remaining_data_confirms_no_guess(tmp_path: Path) -> None:
    """All remaining hashes are compared with all that can be computed from a guess and the remaining data, two deep."""
    found = written(tmp_path / "runs.db", seed=None)
    at, line = place_of_secret(found)
    salt = found.rows[at].salts[line]
    assert salt is not None
    after = states(found)
    left = {one for row in found.rows for one in row.commitments() if one is not None}
    left |= {digest for state in after for digest in state.values()}
    left |= {one for row in found.rows for one in (row.state, row.leaf)}
    salts = {one for row in found.rows for one in row.salts if one not in (None, salt)}
    before = [b"", *left, *(one for one in salts if one is not None)]

    def told(guess: bytes, known: list[bytes]) -> bool:
        for label, first in itertools.product(LABELS, known):
            made = sha(label, first, guess)
            if made in left or any(rolled(digest, made) in left for digest in [b"", *left]):
                return True
        return False

    assert not any(told(guess, before) for guess in GUESSES)
    assert told(json.dumps(SECRET).encode(), [salt])
