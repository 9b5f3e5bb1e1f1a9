"""Values that cannot be written exactly are refused, with their path and a fix."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import enum
import gc
import io
import sys
import threading
import time
import types
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pydantic
import pytest
from pydantic import BaseModel
from tests.codec import shapes

from graphrt import Overwrite, Send
from graphrt._codec import MAX_BYTES, MAX_DEPTH, Codec, NotStorable
from graphrt.errors import StoreError

CODEC = Codec(shapes.ALL)


def refusal(value: Any, path: str = "", codec: Codec = CODEC) -> NotStorable:
    with pytest.raises(NotStorable) as caught:
        codec.dump(value, path)
    return caught.value


class Stranger:
    pass


class StrangeText(str):
    __slots__ = ()


class StrangeModel(BaseModel):
    x: int = 0


class StrangeColor(enum.Enum):
    RED = 1


class StrangeModelKind(shapes.Model):
    pass


class StrangePair(NamedTuple):
    a: int


@dataclasses.dataclass
class StrangeNote:
    a: int = 0


class HouseZone(dt.tzinfo):
    def utcoffset(self, _when: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(0)


class Liar:
    """Pretends to be a list."""

    @property
    def __class__(self) -> Any:
        return list


def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (Stranger, "is the class Stranger"),
        (int, "is the class int"),
        (generator, "is the function generator"),
        (lambda: 1, "is the function <lambda>"),
        (len, "is the function len"),
        ([].append, "is the function append"),
        (generator(), "is a generator, which is code that runs"),
        (threading.Lock(), "is an instance of lock"),
        (object(), "is an instance of object"),
        (sys, "is the module sys"),
        (io.StringIO(), "is an instance of StringIO"),
        (ValueError("x"), "is an exception (ValueError)"),
        (pydantic.SecretStr("s"), "secrets are never stored"),
        (pydantic.SecretBytes(b"s"), "secrets are never stored"),
        (pydantic.Secret[int](1), "secrets are never stored"),
        (defaultdict(list), "is a defaultdict"),
        (collections.Counter("a"), "a subclass of dict"),
        (StrangeText("a"), "a subclass of str"),
        (types.MappingProxyType({}), "store dict(it), or call graphrt.stores.register_type(mappingproxy, encode="),
        (memoryview(b"a"), "is an instance of memoryview"),
        (Stranger(), "not know: call graphrt.stores.register_type(Stranger, encode=..., decode=...)"),
        (StrangeModel(), "register_type(StrangeModel)"),
        (StrangeColor.RED, "register_type(StrangeColor)"),
        (StrangePair(1), "a subclass of tuple that the store does not know"),
        (StrangeNote(), "register_type(StrangeNote)"),
        (StrangeModelKind(x=1), "register_type(StrangeModelKind)"),
        (Liar(), "is an instance of Liar"),
        (10**4300, "more than 4,300 characters"),
        (-(10**4299), "more than 4,300 characters"),
        (Send(3, 1), "not the name of a node"),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_value_is_refused_with_its_path(value: Any, part: str) -> None:
    why = refusal({"notes": [1, 2, 3, {"when": value}]})

    assert why.path == "notes[3].when"
    assert part in why.why
    assert str(why) == f"The value at notes[3].when cannot be stored: it {why.why}."


def test_coroutine_is_refused() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    running = work()
    try:
        assert "code that runs" in refusal(running).why
    finally:
        running.close()


X = Stranger()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (X, ""),
        ([X], "[0]"),
        ((1, X), "[1]"),
        (deque([1, 2, X]), "[2]"),
        ({"a": X}, "a"),
        ({"a b": X}, "['a b']"),
        ({1: X}, "[1]"),
        ({(1, 2): X}, "[tuple]"),
        ({X: 1}, "{key}"),
        ({"$t": X}, "['$t']"),
        ({X}, "{...}"),
        (OrderedDict(a=X), "a"),
        (shapes.Point(1, X), "y"),
        (shapes.Pair(X), "left"),
        (shapes.Model(x=[X]), "x[0]"),
        (shapes.Open.model_validate({"more": X}), "more"),
        (shapes.Numbers([X]), "root[0]"),
        (Send("a", X), "arg"),
        (Overwrite([X]), "[0]"),
        ({"a": [{"b": (shapes.Point({"c": X}),)}]}, "a[0].b[0].x.c"),
        (["\ud800"], "[0]"),
        ({"a": {"\ud800": 1}}, "a{key}"),
        ({1: "\ud800"}, "[1]"),
        ({"a": {"x", "\ud800"}}, "a{...}"),
        ([["x"] * 3, ["x", "\ud800"]], "[1][1]"),
        ([10**4300], "[0]"),
        ([range(10**4300)], "[0][1]"),
        ({"k" * 60: X}, f"{'k' * 60}"),
        ({"k " * 60: X}, f"['{'k ' * 19}k...]"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else type(value).__name__,
)
def test_refusal_names_the_path(value: Any, path: str) -> None:
    assert refusal(value).path == path
    assert refusal(value, "notes").path == (f"notes.{path}" if path[:1].isalpha() else f"notes{path}")


# -- depth and size ----------------------------------------------------------------------------------------------

WRAPPERS: dict[str, Any] = {
    "list": lambda inner: [inner],
    "dict": lambda inner: {"a": inner},
    "pairs": lambda inner: {1: inner},
    "tuple": lambda inner: (inner,),
    "deque": lambda inner: deque([inner]),
    "point": shapes.Point,
    "pair": shapes.Pair,
    "model": lambda inner: shapes.Model(x=inner),
    "extra": lambda inner: shapes.Open.model_validate({"more": inner}),
    "overwrite": Overwrite,
    "send": lambda inner: Send("a", inner),
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_hundred_levels_are_stored_and_one_more_is_refused(kind: str) -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = WRAPPERS[kind](value)
    assert CODEC.dump(CODEC.load(CODEC.dump(value))) == CODEC.dump(value)

    why = refusal(WRAPPERS[kind](value))

    assert "more than 100 levels deep" in why.why


@pytest.mark.parametrize("kind", ["list", "dict", "tuple", "deque"])
def test_endless_nesting_is_refused_fast(kind: str) -> None:
    value: Any = 1
    for _ in range(50_000):
        value = WRAPPERS[kind](value)
    began = time.thread_time()

    why = refusal(value)

    assert "levels deep" in why.why
    assert time.thread_time() - began < 5
    while isinstance(value, (list, dict, tuple, deque)):  # dismantled by hand: freeing it recurses
        value = value["a"] if isinstance(value, dict) else value[0]


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 50_000,
        b"[" * 50_000 + b"]" * 50_000,
        b'{"a":' * 50_000,
        b'{"$t":"tuple","v":[' * 50_000,
        b"[" * 101 + b"]" * 101,
        b"[" * 150 + b"]" * 150,
        b'{"a":' * 101 + b"1" + b"}" * 101,
        b'{"$t":"tuple","v":[' * 101 + b"]}" * 101,
        b'{"$t":"overwrite","v":' * 101 + b"1" + b"}" * 101,
    ],
    ids=lambda data: f"{data[:12]!r}-{len(data)}",
)
def test_data_nested_too_deeply_is_damaged(data: bytes) -> None:
    with pytest.raises(StoreError) as caught:
        CODEC.load(data)

    assert caught.value.code == "damaged-value"


def test_values_that_contain_themselves_are_refused_at_the_cycle() -> None:
    plain: list[Any] = [1]
    plain.append({"a": (plain,)})
    named: dict[str, Any] = {}
    named["b"] = named
    model = shapes.Model(x=1)
    model.x = [model]

    for value, path in ((plain, "[1].a[0]"), (named, "b"), (model, "x[0]")):
        why = refusal(value)
        assert (why.path, why.why) == (path, "contains itself")


def test_same_value_twice_is_not_a_cycle() -> None:
    inner = [1]
    deep: Any = inner
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]

    assert CODEC.load(CODEC.dump([inner, inner])) == [[1], [1]]
    assert "levels deep" in refusal([inner, [deep]]).why


def test_dump_near_the_recursion_limit_is_refused() -> None:
    def dive() -> BaseException:
        try:
            return dive()
        except RecursionError:
            with pytest.raises((NotStorable, RecursionError)) as caught:
                CODEC.dump([[[[[[[[[[object()]]]]]]]]]])
            return caught.value

    gc.collect()  # garbage of other tests is not finalized at that depth
    gc.disable()
    try:
        assert isinstance(dive(), (NotStorable, RecursionError))
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [str, bytes, bytearray, list], ids=lambda kind: kind.__name__)
def test_huge_values_are_refused_before_they_are_encoded(kind: type) -> None:
    value: Any = {
        str: lambda: "x" * 300_000_000,
        bytes: lambda: bytes(300_000_000),
        bytearray: lambda: bytearray(300_000_000),
        list: lambda: ["x" * 30_000_000] * 10,
    }[kind]()
    began = time.thread_time()

    why = refusal({"a": [value]})

    assert why.path == ("a[0][8]" if kind is list else "a[0]")
    assert "256 MiB" in why.why
    assert time.thread_time() - began < 5


@pytest.mark.slow
def test_limit_applies_to_the_encoded_bytes() -> None:
    value = "\x01" * (MAX_BYTES // 5)  # each becomes six characters

    assert "256 MiB" in refusal(value).why


# -- instances with more than their fields -----------------------------------------------------------------------


def test_dataclass_with_a_stray_attribute_is_refused() -> None:
    note = shapes.Note("a")
    note.other = 1  # type: ignore[attr-defined]

    assert "with the attribute 'other', which is not a field of it" in refusal([note]).why


def test_dataclass_without_a_value_for_a_field_is_refused() -> None:
    note = shapes.Note("a")
    del note.text

    assert "without a value for its field 'text'" in refusal(note).why


def test_model_without_a_value_for_a_field_is_refused() -> None:
    assert "without a value for its field 'x'" in refusal(shapes.Model.model_construct()).why


def test_model_with_a_stray_attribute_is_refused() -> None:
    model = shapes.Model(x=1)
    model.__dict__["other"] = 1

    assert "'other'" in refusal(model).why


def test_model_with_an_invalid_assigned_value_is_refused() -> None:
    model = shapes.Model.model_construct({"nobody"}, x=1)

    assert "'nobody' was set" in refusal(model).why


def test_model_without_a_private_attribute_that_has_a_default_is_refused() -> None:
    model = shapes.Open()
    del model._seen

    assert "private attribute '_seen'" in refusal(model).why


def test_time_zone_of_an_unknown_class_is_refused_with_its_path() -> None:
    why = refusal({"when": dt.datetime(2024, 1, 1, tzinfo=HouseZone())})

    assert why.path == "when.tzinfo"
    assert "use datetime.timezone or zoneinfo.ZoneInfo, or call graphrt.stores.register_type(HouseZone, " in why.why


def test_time_zone_without_a_name_is_refused() -> None:
    import importlib.resources
    import zoneinfo

    names = [f"{folder}/Europe/Berlin" for folder in zoneinfo.TZPATH]
    found = next((name for name in names if __import__("pathlib").Path(name).is_file()), None)
    if found is None:
        found = str(importlib.resources.files("tzdata") / "zoneinfo/Europe/Berlin")
    with open(found, "rb") as file:  # noqa: PTH123 - required by from_file
        zone = ZoneInfo.from_file(file)

    assert "read from a file" in refusal(dt.datetime(2024, 1, 1, tzinfo=zone)).why


def test_numbers_at_the_bounds_are_stored() -> None:
    for number in (10**4300 - 1, 1 - 10**4299, Decimal(10) ** 400):
        assert CODEC.load(CODEC.dump(number)) == number


def test_path_with_an_incomplete_text_is_refused() -> None:
    """The beginning of a network share, on Pythons that read its own text as another path."""
    path = PureWindowsPath("\\\\share\\")

    if PureWindowsPath(str(path)).parts == path.parts:
        assert CODEC.load(CODEC.dump(path)) == path
    else:
        assert "its own text" in refusal(path).why
