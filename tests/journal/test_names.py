"""Names are written once, in the order of their first use, and referred to by number in every later commit."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json
from tests.journal import voyage
from tests.journal.event_forms import CODEC, alike, logged

from graphrt import Runtime, events
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode
from graphrt._journal.body import Body, Names
from graphrt._journal.reader import Reader
from graphrt._journal.staging import encode_staged
from graphrt._journal.thread_meta import PRELOADED_NAMES, preload, read_meta, renewed
from graphrt.errors import StoreError
from graphrt.stores import MemoryStore, open_store

some = st.lists(st.text("abcäö", max_size=2))


def new_names(body: bytes) -> list[str]:
    names: list[str] = from_json(body.split(b"\n")[0])[4]
    return names


def committed(names: Names, *batch: tuple[str, Any]) -> bytes:
    return encode(Body(CODEC, names), Batch(0.0, "r", 0, list(batch)))


def done(node: str, *fields: str) -> tuple[str, Any]:
    update = dict.fromkeys(fields, 1)
    return "", events.TaskSucceeded(task=f"1.0:{node}", node=node, updates=(update,))


@given(some)
def test_numbers_are_assigned_in_order_of_first_use_and_never_reused(used: list[str]) -> None:
    names = Names()
    numbers = [names.put(name) for name in used]

    assert names.known == list(dict.fromkeys(used))
    assert [names.known[number] for number in numbers] == used
    assert [names.number(name) for name in used] == numbers
    assert names.number("other") is None
    assert Names(names.known).known == names.known


@given(some, some)
def test_names_of_another_table_are_taken_over_in_its_order(mine: list[str], others: list[str]) -> None:
    names = Names()
    names.add(mine)
    names.add(others)

    assert names.known == list(dict.fromkeys(mine + others))


@pytest.mark.parametrize("other", [1, None, b"a", ["a"]])
def test_name_that_is_not_text_is_refused(other: Any) -> None:
    with pytest.raises(TypeError):
        Names().add(["a", other])


@given(some, some)
def test_dropped_names_are_numbered_again(kept: list[str], gone: list[str]) -> None:
    names = Names()
    names.add(kept)
    length = len(names.known)
    names.add(gone)
    names.forget(length)

    assert names.known == list(dict.fromkeys(kept))
    assert names.put("new") == length
    assert [names.number(name) for name in gone if name not in kept] == [None] * sum(n not in kept for n in gone)


def test_each_commit_has_only_the_new_names() -> None:
    names = Names()
    bodies = [
        committed(names, done("n", "b", "a")),
        committed(names, done("n", "a")),
        committed(names, done("m", "a", "c"), ("", events.NodeFatigued(node="n", visits=1, route="z"))),
        committed(names, ("", events.RunCompleted(steps=1))),
    ]

    assert [new_names(body) for body in bodies] == [["n", "b", "a"], [], ["m", "c", "z"], []]
    assert bodies[1].split(b"\n")[0] == b'[4,0.0,"r",0,[],[[8,0,[1,0,0],[[2,1]]]]]'


def test_bodies_are_read_with_the_earlier_names_and_not_without() -> None:
    names = Names()
    first, second = committed(names, done("n", "a")), committed(names, done("n", "a"))
    reader = Reader(MemoryStore(), "t", CODEC)
    with pytest.raises(StoreError):
        reader.body(second)

    assert [reader.body(body)[0].logged[0] for body in (first, second)] == [done("n", "a"), done("n", "a")]


def test_names_in_the_meta_precede_those_in_the_bodies() -> None:
    names = Names(("a", "n"))
    bodies = [committed(names, done("n", "a")), committed(names, done("n", "b")), committed(names, done("n", "b"))]
    reader = Reader(MemoryStore(), "t", CODEC, ("a", "n", "b"))

    assert [new_names(body) for body in bodies] == [[], ["b"], []]
    assert [reader.body(body)[0].logged[0] for body in bodies] == [done("n", "a"), done("n", "b"), done("n", "b")]
    assert reader.names.known == ["a", "n", "b"]


@pytest.mark.slow
@given(st.lists(logged(), min_size=1, max_size=3))
def test_staged_body_has_its_own_names(batch: Any) -> None:
    body = Body(CODEC, Names())
    payload = encode_staged(body, {}, "k", batch)
    reader = Reader(MemoryStore(), "t", CODEC, ("some", "others"))
    reader._blobs = body.blobs

    assert alike(list(reader.staged("k", payload)), batch)
    assert reader.names.known == ["some", "others"]


def test_staged_and_snapshot_bodies_are_read_without_the_names_of_the_thread(tmp_path: Path) -> None:
    numbers = itertools.count(1)
    with (
        open_store(f"sqlite:///{tmp_path / 'runs.db'}") as store,
        Runtime(voyage.graph(), store=store, clock=lambda: float(next(numbers)), seed=7) as runtime,
    ):
        runtime.run({"notes": []}, thread="t")
        staged = store.load("t").staged
        reader = Reader(store, "t", CODEC, meta={"chained": "t"})
        nodes = {getattr(event, "node", "") for key, body in staged for _, event in reader.staged(key, body)}
        meta = read_meta(store.load("t").meta, "t")

        assert {"shaky", "look", "ask"} <= nodes
        assert reader.names.known == []
        assert "look" not in meta["names"]  # written nowhere else until the superstep is committed


def test_names_of_the_graph_are_known_before_they_are_used() -> None:
    plan = voyage.graph().__graphrt_plan__
    names = Names()
    preload(names, plan)

    assert names.known == [*plan.state.fields, *plan.by_name]
    assert len(names.known) < PRELOADED_NAMES


def test_meta_is_written_only_when_a_name_is_new_or_the_graph_changed() -> None:
    plan = voyage.graph().__graphrt_plan__
    names = Names(("a",))
    meta = renewed({"chained": "t"}, names, 0, "f", plan)

    assert meta is not None
    assert (meta["names"], meta["fingerprint"], meta["chained"]) == (["a"], "f", "t")
    assert meta["topology"]
    assert renewed(meta, names, 1, "f", plan) is None
    names.put("b")
    more, other = renewed(meta, names, 1, "f", plan), renewed(meta, names, 2, "g", plan)
    assert more is not None
    assert more["names"] == ["a", "b"]
    assert other is not None
    assert other["fingerprint"] == other["topology_of"] == "g"


@pytest.mark.parametrize("meta", [b"", b"{", b"\xff", b"nonsense"])
def test_meta_that_is_not_json_is_refused(meta: bytes) -> None:
    with pytest.raises(StoreError, match="meta"):
        read_meta(meta, "t")


@pytest.mark.parametrize(
    "joins",
    [
        5,
        ["last"],
        [{}],
        [{"node": 1, "before": [], "now": []}],
        [{"node": "last", "before": "ab", "now": []}],
        [{"node": "last", "before": [], "now": [1]}],
    ],
)
def test_meta_whose_changed_joins_have_another_form_is_refused(joins: object) -> None:
    with pytest.raises(StoreError, match="meta"):
        read_meta(json.dumps({"joins": joins}).encode(), "t")
