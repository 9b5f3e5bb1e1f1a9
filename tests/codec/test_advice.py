"""The advice in a refusal works for each kind of class."""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import io
import re
import threading
import types
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import pydantic
import pytest
from pydantic import BaseModel

from graphrt._codec import Codec, NotStorable, register, registry

T = TypeVar("T")


class Plain:
    pass


class Text(str):
    __slots__ = ()


class Meters(float):
    pass


class Code(int):
    pass


class Raw(bytes):
    pass


class Labels(list[str]):
    pass


class Names(dict[str, int]):
    pass


class Tags(set[str]):
    pass


class Model(BaseModel):
    x: int = 0


class Box(BaseModel, Generic[T]):
    item: T


@dataclasses.dataclass
class Note:
    text: str = ""


@dataclasses.dataclass
class Row(dict[str, int]):
    number: int = 0


class Pair(NamedTuple):
    a: int
    b: int


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Site(pydantic.AnyUrl):
    pass


def local() -> Any:
    class Inside(BaseModel):
        x: int = 0

    return Inside()


@pytest.fixture(autouse=True)
def _registry_is_put_back() -> Iterator[None]:
    before = registry.registered_classes()
    yield
    registry._replace(before)


def advice_about(value: Any) -> str:
    with pytest.raises(NotStorable) as caught:
        Codec().dump(value)
    return caught.value.why.partition(": ")[2]


def is_stored(value: Any, types: tuple[Any, ...] = ()) -> bool:
    codec = Codec(types)
    restored = codec.load(codec.dump(value))
    return type(restored) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        *(Plain(), Text("a"), Meters(1.5), Code(3), Raw(b"a"), Labels(["a"]), Names(a=1), Tags({"a"}), Row(1)),
        *(Model(), Box[int](item=1), Note(), Pair(1, 2), Color.RED, Level.LOW, Site("https://example.org"), local()),
        *(collections.Counter("aab"), collections.ChainMap({"a": 1}), collections.UserList([1]), array.array("i", [1])),
        *(types.MappingProxyType({"a": 1}), memoryview(b"a"), {"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()),
        *(threading.Lock(), io.StringIO("a"), re.compile("a")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_advice_about_a_class_works(value: Any) -> None:
    """One of three: annotate the class, convert the value, or register the class; the test follows it."""
    advice, cls = advice_about(value), type(value)
    name = re.escape(cls.__qualname__)

    if convert := re.search(r"store (\w+)\(it\)", advice):
        assert is_stored(
            {"dict": dict, "list": list, "bytes": bytes, "str": str, "int": int, "float": float, "set": set}[
                convert[1]
            ](value)
        )
    if f"use {cls.__qualname__} in the annotation" in advice:
        assert is_stored(value, (cls,))
        assert is_stored(value, (list[cls] | None,))
    if re.search(rf"register_type\({name}\)", advice):
        register(cls)
    else:
        assert re.search(rf"register_type\({name}, encode=\.\.\., decode=\.\.\.\)", advice)
        register(cls, encode=lambda _: "stored", decode=lambda _: value)
    assert is_stored(value)


def test_advice_about_a_defaultdict_works() -> None:
    counts: dict[str, int] = collections.defaultdict(int, a=1)

    assert advice_about(counts) == "store dict(it)"
    assert is_stored(dict(counts))


def test_advice_about_a_stray_attribute_works() -> None:
    note = Note()
    note.other = 1  # type: ignore[attr-defined]
    with pytest.raises(NotStorable, match=r"give graphrt.stores.register_type\(Note\) encode= and decode="):
        Codec([Note]).dump(note)

    register(Note, encode=vars, decode=lambda values: note)

    assert is_stored(note)
