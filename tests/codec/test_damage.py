"""Data that the codec did not write is refused with StoreError, without side effects."""

from __future__ import annotations

import ast
import os
import random
import sys
import zoneinfo
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.codec import shapes
from tests.codec.test_round_trip import EXAMPLES

import graphrt._codec
from graphrt._codec import Codec
from graphrt.errors import StoreError

CODEC = Codec(shapes.ALL)
MUTATIONS = 1_000_000 if os.environ.get("GRAPHRT_FULL") == "1" else 20_000
WATCHED = (
    "import",
    "exec",
    "compile",
    "open",
    "subprocess.",
    "os.",
    "socket.",
    "ctypes.",
    "pickle.",
    "marshal.",
    "shutil.",
)


def damaged(data: bytes, code: str = "damaged-value", codec: Codec = CODEC) -> StoreError:
    with pytest.raises(StoreError) as caught:
        codec.load(data)
    assert caught.value.code == code
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense",
        b"NaN",
        b"Infinity",
        b"[1,]",
        b'"\xff"',
        b'"\\ud800"',
        b"1" * 4301,
        b'{"a":1}x',
        b'{"$t":"tuple"}',
        b'{"$t":"tuple","v":1}',
        b'{"$t":"tuple","v":[],"w":1}',
        b'{"$t":"set","v":[[]]}',
        b'{"$t":"dict","v":[1]}',
        b'{"$t":"dict","v":[[],1]}',
        b'{"$t":"float","v":"1.0"}',
        b'{"$t":"bytes","v":"a"}',
        b'{"$t":"bytes","v":1}',
        b'{"$t":"fraction","v":[1,0]}',
        b'{"$t":"fraction","v":[1,true]}',
        b'{"$t":"range","v":[1,2,0]}',
        b'{"$t":"decimal","v":"x"}',
        b'{"$t":"uuid","v":"x"}',
        b'{"$t":"date","v":"2024-13-01"}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00+01:00"}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","zone":"../../etc/passwd"}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","zone":"Mars/Base"}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","offset":99999999999999}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","zone":{"$t":"tuple","v":[]}}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","fold":7}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","more":7}',
        b'{"$t":"timedelta","v":[9999999999,0,0]}',
        b'{"$t":"deque","v":[1,2],"most":1}',
        b'{"$t":"marker","v":"START"}',
        b'{"$t":"send","v":[1,2]}',
        b'{"$t":"ipv4address","v":"x"}',
        b'{"$t":"blob","v":"abc"}',
        b'{"$t":"Color","v":"BLUE"}',
        b'{"$t":"Color","v":[]}',
        b'{"$t":"Color","v":77}',
        b'{"$t":"Point","v":{}}',
        b'{"$t":"Point","v":{"x":1,"z":2}}',
        b'{"$t":"Point","v":[]}',
        b'{"$t":"Pair","v":[]}',
        b'{"$t":"Pair","v":[1,2,3]}',
        b'{"$t":"Model","v":{}}',
        b'{"$t":"Model","v":{"x":1,"z":1}}',
        b'{"$t":"Model","v":{"x":1},"extra":{"z":1}}',
        b'{"$t":"Model","v":{"x":1},"private":{"z":1}}',
        b'{"$t":"Model","v":{"x":1},"set":["q"]}',
        b'{"$t":"Model","v":{"x":1},"set":[[]]}',
        b'{"$t":"Model","v":{"x":1},"__dict__":{}}',
    ],
    ids=str,
)
def test_damaged_data_is_refused(data: bytes) -> None:
    error = damaged(data)

    assert "cannot be read" in error.what
    assert error.fix


@pytest.mark.parametrize(
    "tag", [b'"Nobody"', b'"os.system"', b'"posix.system"', b"1", b"null", b"[]", b'{"$t":"tuple","v":[]}']
)
def test_unknown_tag_is_named(tag: bytes) -> None:
    error = damaged(b'[{"$t":' + tag + b',"v":["true"]}]', "unknown-type")

    assert "register_type" in error.fix
    assert "'Color'" in error.known


def test_escaped_tag_key_is_still_the_tag_key() -> None:
    damaged(b'{"\\u0024t":"Nobody","v":1}', "unknown-type")


def test_fields_that_were_added_later_get_their_defaults() -> None:
    assert CODEC.load(b'{"$t":"Point","v":{"x":1}}') == shapes.Point(1, 0)
    assert CODEC.load(b'{"$t":"Note","v":{"text":"a"}}').tags == set()
    assert CODEC.load(b'{"$t":"Pair","v":[1]}') == shapes.Pair(1, None)
    model = CODEC.load(b'{"$t":"Model","v":{"x":1}}')
    assert (model.y, model.model_fields_set) == (5, {"x"})
    assert CODEC.load(b'{"$t":"Open","v":{"x":1},"extra":{}}')._seen == 0


# -- mutations ---------------------------------------------------------------------------------------------------


class Watch:
    """Records Python's audit events while it is on; a hook cannot be removed."""

    def __init__(self) -> None:
        self.on = False
        self.events: list[str] = []
        sys.addaudithook(self.note)

    def note(self, event: str, _args: tuple[Any, ...]) -> None:
        if self.on and event.startswith(WATCHED):
            self.events.append(event)

    def __enter__(self) -> None:
        self.on = True

    def __exit__(self, *_: object) -> None:
        self.on = False


def mutated(rng: random.Random, seeds: list[bytes]) -> bytes:
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] = rng.randrange(256)
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.randrange(1, 5)]
            case 3:
                other = rng.choice(seeds)
                begin = rng.randrange(len(other))
                data[at:at] = other[begin : begin + rng.randrange(1, 20)]
            case 4:
                data[at:at] = bytes([rng.choice(b'{}[]",:\\0123456789eE.-$tv')])
            case _:
                other = rng.choice(seeds)
                data[at : at + rng.randrange(20)] = other
    return bytes(data)


def loaded(codec: Codec, data: bytes, *, as_error: bool) -> str:
    """`read`, or the code of the StoreError."""
    try:
        if as_error:
            codec.load_error(data)
        else:
            codec.load(data)
    except StoreError as error:
        return error.code
    return "read"


@pytest.mark.slow
def test_mutated_data_is_refused_or_read_without_side_effects(record_property: Callable[[str, object], None]) -> None:
    """1,000,000 inputs with GRAPHRT_FULL=1, else 20,000; an audit hook sees no import, file or process."""
    seeds = [CODEC.dump(value) for value in EXAMPLES]
    seeds = [data for data in seeds if len(data) < 1_000]
    seeds.append(CODEC.dump_error(OSError(2, "x", "y")))
    seeds.append(CODEC.dump_error(ExceptionGroup("g", [StoreError("x", known="y"), ImportError("a", name="b")])))
    zones = [zoneinfo.ZoneInfo(key) for key in sorted(zoneinfo.available_timezones())]  # read before, and kept
    for data in seeds:
        loaded(CODEC, data, as_error=False)
    rng = random.Random(20_240)
    found: Counter[str] = Counter()
    watch = Watch()

    for at in range(MUTATIONS):
        data = mutated(rng, seeds)
        with watch:
            found[loaded(CODEC, data, as_error=at % 8 == 0)] += 1

    record_property("found", dict(found))
    assert zones
    assert watch.events == []
    assert set(found) == {"read", "damaged-value", "unknown-type"}
    assert min(found["read"], found["damaged-value"]) > MUTATIONS // 50
    with watch:
        list(Path().iterdir())
    assert watch.events, "the hook sees what happens"


# -- source ------------------------------------------------------------------------------------------------------

FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "breakpoint", "globals"}
FORBIDDEN_MODULES = {
    "pickle",
    "marshal",
    "importlib",
    "shelve",
    "dill",
    "copyreg",
    "runpy",
    "os",
    "subprocess",
    "socket",
}


def test_source_contains_no_way_to_execute_data() -> None:
    files = sorted(Path(graphrt._codec.__file__).parent.glob("*.py"))
    assert len(files) > 8
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not FORBIDDEN_MODULES & {alias.name.partition(".")[0] for alias in node.names}, file
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in FORBIDDEN_MODULES, file
            elif isinstance(node, ast.Name):
                assert node.id not in FORBIDDEN_NAMES, file
            elif isinstance(node, ast.Attribute):
                assert node.attr not in FORBIDDEN_NAMES - {"compile"}, file
