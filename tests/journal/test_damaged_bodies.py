"""A damaged body is refused with a StoreError, whatever the damage, and never read as another."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json
from tests.journal.event_forms import CODEC, PATH

from graphrt import events
from graphrt._journal.batch import Batch
from graphrt._journal.batch_format import encode
from graphrt._journal.body import Body, Names
from graphrt._journal.reader import Reader
from graphrt.errors import StoreError
from graphrt.stores import MemoryStore
from graphrt.stores.values import Record

JOIN = events.JoinStanding(node="n", sources=("a", "b"), arrived=("a",), fired=False)
STATE = events.StateSaved(
    values={"notes": ["x"], "pair": (1, b"\x00")},
    superstep=3,
    steps=3,
    visits={"n": 2},
    next=("n", "a"),
    sends={1: "arg"},
    joins=(JOIN,),
    usage=events.Usage(input_tokens=1, cost_usd=0.5),
    run="r",
    seed=7,
    names=("notes", "pair"),
    digests={"notes": "00ff"},
)
LOGGED: dict[str, list[tuple[str, Any]]] = {
    "started": [
        ("", events.RunStarted(graph="g", fingerprint="f0", thread="t", seed=7, input={"notes": ["ä"], "n": 1})),
        ("", events.TasksRouted(reason="entry", next=("n", "a"), sends={0: {"deep": [1.5, None]}}, joins=(JOIN,))),
    ],
    "superstep": [
        ("", events.TaskSucceeded(task="1.0:n", node="n", updates=({"notes": ["a\nb"]},), goto=("a",))),
        ("", events.SuperstepCommitted(superstep=1, wrote=("notes",), next=("a",), errors={0: ValueError("no")})),
    ],
    "nested": [
        (PATH, events.TaskSucceeded(task=f"{PATH}1.0:in", node="in", updates=({"notes": [(1, 2)]},))),
        (PATH, events.SuperstepCommitted(superstep=1, wrote=("notes",), next=())),
        ("", events.OutcomeDropped(task="2.0:sub", node="sub")),
    ],
    "trouble": [
        ("", events.TaskRetried(task="1.0:n", node="n", attempt=1, delay_s=0.5, error="E", message="m")),
        ("", events.InterruptRaised(id="t/1.1:a#0", task="1.1:a", node="a", payload={"q": 1}, expires_at=9.5)),
        ("", events.TaskFailed(task="1.0:n", node="n", error="E", message="m", handler="a", exception=KeyError("k"))),
        ("", events.RunFailed(error="E", message="m", node="n", folded={"notes": "0a"})),
    ],
    "forked": [("", events.ThreadForked(source="s", at=4, state=STATE))],
    "migrated": [("", events.ThreadMigrated(source="f", target="g", why="w", values={"notes": []}))],
}
ODD: list[Any] = [None, True, -1, 99, 0.5, 10**400, "", "word", [], [[]], [1, 2, 3], {}, {"a": 1}]
ODD_BYTES = (0x01, 0x04, 0x20, 0x80, 0xFF)


def made(name: str) -> bytes:
    return encode(Body(CODEC, Names()), Batch(1.5, "r", 2, LOGGED[name]))


def read(payload: bytes) -> Batch:
    """The batch, all of whose entries can be listed."""
    batch, _ = Reader(MemoryStore(), "t", CODEC).body(payload)
    assert [entry.seq for entry in batch.entries(1)] == list(range(1, len(batch.logged) + 1))
    return batch


def damaged(payload: bytes) -> None:
    with pytest.raises(StoreError) as caught:
        read(payload)
    assert caught.value.code == "store-damaged"


def mended(text: bytes) -> bytes:
    """*text* with a valid checksum, as an informed forger computes it."""
    return b"%s\n%08x" % (text, crc32(text))


def typed_error_or_batch(payload: bytes) -> Batch | None:
    try:
        return read(payload)
    except StoreError as error:
        if error.code not in {"store-damaged", "damaged-value", "unknown-type", "store-newer", "store-older"}:
            raise
        return None


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of *node*."""
    if path:
        yield path
    if isinstance(node, (list, dict)):
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(item, (*path, key))


def changed(structure: Any, path: tuple[Any, ...], odd: Any) -> Any:
    new = copy.deepcopy(structure)
    *way, last = path
    node = new
    for step in way:
        node = node[step]
    node[last] = odd
    return new


bodies = pytest.mark.parametrize("name", LOGGED)


@bodies
def test_intact_bodies_are_read(name: str) -> None:
    assert [type(event) for _, event in read(made(name)).logged] == [type(event) for _, event in LOGGED[name]]


@bodies
def test_change_of_any_byte_is_detected(name: str) -> None:
    payload = made(name)
    for at, odd in itertools.product(range(len(payload)), ODD_BYTES):
        damaged(payload[:at] + bytes([payload[at] ^ odd]) + payload[at + 1 :])


@bodies
def test_any_truncation_is_detected(name: str) -> None:
    payload = made(name)
    for at in range(len(payload)):
        damaged(payload[:at])
        damaged(payload[at + 1 :])


@bodies
def test_any_added_byte_is_detected(name: str) -> None:
    payload = made(name)
    for at, odd in itertools.product(range(len(payload) + 1), (b"\n", b"0", b" ", b"_")):
        damaged(payload[:at] + odd + payload[at:])


@bodies
def test_removed_repeated_or_added_line_is_detected(name: str) -> None:
    lines = made(name).split(b"\n")
    for at in range(len(lines)):
        damaged(b"\n".join(lines[:at] + lines[at + 1 :]))
        damaged(b"\n".join([*lines[:at], lines[at], *lines[at:]]))
        damaged(b"\n".join([*lines[:at], b'"word"', *lines[at:]]))


@bodies
def test_swapped_lines_are_detected(name: str) -> None:
    lines = made(name).split(b"\n")
    for one, other in itertools.combinations(range(len(lines)), 2):
        swapped = list(lines)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        if swapped != lines:
            damaged(b"\n".join(swapped))


@pytest.mark.parametrize("check", [b"+%07x", b" %07x", b"0x%06x", b"%08X", b"%x", b"0%08x", b"%08x ", b"%d"])
def test_checksum_has_one_spelling(check: bytes) -> None:
    """Even where another spelling means the right number."""
    texts = (made("migrated").rpartition(b"\n")[0] + b" " * n for n in range(5_000))
    text = next(text for text in texts if crc32(text) < 0x1000000 and b"%08X" % crc32(text) != b"%08x" % crc32(text))

    assert read(mended(text)).cause == 2
    damaged(text + b"\n" + check % crc32(text))


@pytest.mark.slow
@bodies
def test_structure_with_any_changed_part_is_refused_or_read(name: str) -> None:
    """With a valid checksum: only a StoreError may be raised."""
    first, *values = made(name).split(b"\n")[:-1]
    structure = from_json(first)
    results = [
        typed_error_or_batch(mended(b"\n".join([to_json(changed(structure, path, odd)), *values])))
        for path in places(structure)
        for odd in ODD
    ]

    assert results.count(None) > len(results) / 2


@bodies
def test_structure_without_any_part_is_refused_or_read(name: str) -> None:
    first, *values = made(name).split(b"\n")[:-1]
    structure = from_json(first)
    for path in places(structure):
        short = copy.deepcopy(structure)
        node = short
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]
        typed_error_or_batch(mended(b"\n".join([to_json(short), *values])))


@bodies
def test_values_on_the_wrong_lines_are_refused_or_read(name: str) -> None:
    first, *values = made(name).split(b"\n")[:-1]
    for lines in itertools.islice(itertools.permutations([*values, b"", b"{", b'{"$t":"tuple"}'], len(values)), 500):
        typed_error_or_batch(mended(b"\n".join([first, *lines])))


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab$", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=12,
)
entries = st.lists(
    st.tuples(st.integers(0, 24), st.sampled_from([0, "", PATH]), json, json, json).map(list), max_size=3
)


@given(structure=json | entries.map(lambda made: [4, 1.5, "r", 0, ["a", "b"], made]), values=st.lists(json, max_size=3))
def test_any_structure_is_refused_or_read(structure: Any, values: Any) -> None:
    typed_error_or_batch(mended(b"\n".join(map(to_json, [structure, *values]))))


@given(st.binary(max_size=40))
def test_any_bytes_are_refused(noise: bytes) -> None:
    damaged(noise)
    typed_error_or_batch(mended(noise))


@pytest.mark.parametrize(
    ("structure", "code"),
    [
        (b"[" * 5_000 + b"]" * 5_000, "store-damaged"),
        (b'[4,1e999,"r",0,[],[]]', "store-damaged"),
        (b'[4,NaN,"r",0,[],[]]', "store-damaged"),
        (b'[4,%s,"r",0,[],[]]' % (b"9" * 400), "store-damaged"),
        (b'[4,1.5,"r",0,[],[[99,0]]]', "store-damaged"),
        (b'[4,1.5,"r",0,[],[[20,7]]]', "store-damaged"),
        (b'[4,1.5,"r",0,[],[[20,["a"]]]]', "store-damaged"),
        (b'[4,1.5,"r",0,[1],[]]', "store-damaged"),
        (b"[4,1.5,null,0,[],[]]", "store-damaged"),
        (b'[4,1.5,"r",0,[]]', "store-damaged"),
        (b'[4,1.5,"r",0,[],[],[]]', "store-damaged"),
        (b'[4,1.5,"r",0,["n"],[[10,0,[1,0,-1]]]]', "store-damaged"),
        (b'[4,1.5,"r",0,[],[[7,0]]]', "store-damaged"),
        (b'[5,1.5,"r",0,[],[]]', "store-newer"),
        (b'[2,1.5,"r",0,[],[]]', "store-older"),
        (b'["3",1.5,"r",0,[],[]]', "store-damaged"),
    ],
    ids=lambda part: part[:24].decode() if isinstance(part, bytes) else part,
)
def test_invalid_structure_is_named(structure: bytes, code: str) -> None:
    with pytest.raises(StoreError) as caught:
        read(mended(structure))

    assert caught.value.code == code
    assert "Fix:" in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "right", "wrong"),
    [
        ("[8,0,[1,0,0],[[%d,1]]]", 0, (-1, 1)),
        ("[8,0,[1,0,0],[[0,%d]]]", 1, (0, -1, -2, 3)),
        ("[14,0,[0,%d]]", 1, (0, -1, -2, 3)),
        ("[14,0,[%d,1]]", 0, (-1, 1)),
        ('[7,0,[1,0,0],"key",%d]', 1, (0, -1, -2, 3)),
        ('[9,0,[1,0,0],"E",%d]', 1, (0, -1, -2, 3)),
        ('[9,0,[1,0,0],"E",1,0,%d]', 2, (0, -1, -2, 3)),
        ("[12,0,1,null,null,[0,%d]]", 1, (0, -1, -2, 3)),
        ("[12,0,1,null,null,null,[0,%d]]", 2, (0, -1, -2, 3)),
    ],
)
def test_names_and_lines_are_counted_from_the_first_and_never_back(
    entry: str, right: int, wrong: tuple[int, ...]
) -> None:
    """Line 0 is the structure, not a value."""
    error = CODEC.dump_error(ValueError("no"))

    def body(number: int) -> bytes:
        structure = b'[4,1.5,"r",0,["n"],[%b]]' % (entry % number).encode()
        return mended(b"\n".join([structure, b'"x"', error]))

    assert read(body(right)).logged
    for number in wrong:
        damaged(body(number))


@pytest.mark.parametrize("kept", [{}, {"other": b"1"}])
def test_missing_large_value_is_detected(kept: dict[str, bytes]) -> None:
    body = Body(CODEC, Names())
    event = events.ThreadUpdated(values={"a": "x" * 70_000}, as_node=None)
    payload = encode(body, Batch(1.0, "r", 0, [("", event)]))
    [name] = body.blobs
    reader = Reader(MemoryStore(), "t", CODEC)
    for found in ({name: b'"y"'}, {**kept, name: body.blobs[name][:-1]}, {**kept, name: b""}):
        reader._blobs = dict(found)
        with pytest.raises(StoreError) as caught:
            reader.body(payload)
        assert caught.value.code == "damaged-value"


def test_other_data_in_a_snapshot_is_refused() -> None:
    reader = Reader(MemoryStore(), "t", CODEC)
    with pytest.raises(StoreError, match="snapshot"):
        reader.saved(made("superstep"), 1)
    with pytest.raises(StoreError):
        reader.saved(encode(Body(CODEC, Names()), Batch(0.0, "", 0, [])), 1)


def test_fork_drops_only_entries_after_its_own() -> None:
    def fix(call: Any) -> str:
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.code == "store-damaged"
        return caught.value.fix

    def reads(count: int, seq: int) -> list[str]:
        record, reader = Record(seq, count, made("started")[:-1], b""), Reader(MemoryStore(), "t", CODEC)
        return [fix(lambda: reader.batch(record)), fix(lambda: reader.checked(record, None))]

    backup = "Restore the database from a backup"
    assert reads(2, 2) == [f"{backup}."] * 2
    assert reads(2, 4) == [f"{backup}, or fork the thread from an earlier entry."] * 2
