"""Recorded fingerprints: the same on every interpreter and with every version of pydantic (rule R14).

A thread that was stored with one of them must not get another fingerprint because a process was updated. Only a change
of what a fingerprint covers may change these, and then all stored threads count as changed once.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

import annotated_types
import pydantic
import pytest
import typing_extensions as te
from pydantic import BaseModel, Field

from graphrt import GraphBuilder
from graphrt.reducers import add, append, ephemeral, merge, messages, untracked

T = TypeVar("T")
Alias = te.TypeAliasType("Alias", "list[int] | None")
Number = typing.NewType("Number", int)


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T
    more: list[Box[T]] = dataclasses.field(default_factory=list)


class Half(te.TypedDict, total=False):
    a: te.Required[int]
    b: te.NotRequired[str]


class Item(BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    price: Annotated[decimal.Decimal, Field(ge=0)] = decimal.Decimal(0)
    _seen: int = pydantic.PrivateAttr(0)


class Page(BaseModel, Generic[T]):
    items: list[T] = []
    after: Page[T] | None = None


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


TYPES: dict[str, tuple[Any, str]] = {
    "int": (int, "e55b96a65e4fd448"),
    "bare containers": (dict[str, list], "c8a3ee24383e24cd"),
    "typing's containers": (typing.Dict[str, typing.List[int]], "6a02d38c7b134814"),  # noqa: UP006 - the older spelling is tested
    "containers": (dict[str, list[int]], "6a02d38c7b134814"),
    "tuples": (tuple[tuple[int, ...], tuple[str, int], tuple[()]], "f09c1b1603348bf6"),
    "sets": (set[int] | frozenset[str], "ee6c8ba07ada7550"),
    "abstract": (Sequence[int] | Mapping[str, int], "1a976f0e96126a2c"),
    "optional": (Optional[int], "f5f85e66feb466b6"),  # noqa: UP045 - the older spelling is tested
    "or none": (int | None, "f5f85e66feb466b6"),
    "union": (Union[int, str, None], "f19dbeb19a9e4a4c"),  # noqa: UP007 - the older spelling is tested
    "union of spellings": (int | str | None, "f19dbeb19a9e4a4c"),
    "literal": ((Literal["a", 1, b"x", True] | None), "8bbc5af7f383a39e"),
    "literal of an enum": (Literal[Colour.RED], "8aaa1b28f7908f77"),
    "any": (Any, "ac460dda42be5c4f"),
    "object": (object, "9b32c0d9a8587d9b"),
    "a function": (Callable[[int], str] | None, "4ccf9381ea8d0b74"),
    "a class": (type[Item], "d95b46f8ea8a8abe"),
    "dates": (dt.datetime | dt.date | dt.time | dt.timedelta, "f434aa58b239a978"),
    "numbers": (decimal.Decimal | complex | float, "2d917c41ef69a195"),
    "uuid and path": (uuid.UUID | pathlib.Path, "3ca57afe95542ce0"),
    "constraints": (Annotated[int, Field(gt=0), annotated_types.Lt(9)], "e55b96a65e4fd448"),
    "constrained text": (pydantic.constr(min_length=1), "30e836ca3844869e"),
    "pydantic's own": (pydantic.AnyUrl | pydantic.SecretStr, "b2f8e73c4451932d"),
    "strict": (pydantic.StrictInt, "e55b96a65e4fd448"),
    "alias": (Alias, "50e0b392c751eadb"),
    "new type": (Number, "86b4b384b71ddcc7"),
    "enums": (Colour | Word, "53bb85f9481f92cc"),
    "flag": (Right, "143c3e230aeaa847"),
    "named tuple": (Point, "7546b53e1b9ca92d"),
    "generic dataclass": (Box[int], "c242f4d2c1c323ae"),
    "typed dict": (Half, "df00179869ac4ecf"),
    "model": (Item, "3867ce3310f1389f"),
    "generic model": (Page[Item], "db7f6a248fa269cb"),
    "discriminated": (Annotated[Cat | Dog, Field(discriminator="kind")], "44f5d0d2990e9212"),
    "forward": (list["Item"], "caab8026fe4c5f3d"),
    "reducers": (Annotated[list[Item], append], "5dbbfbf3b421e079"),
    "added": (Annotated[int, add], "60efd853d4f4a6e6"),
    "merged": (Annotated[dict[str, Any], merge], "7794fd6047228f74"),
    "ephemeral": (Annotated[str | None, ephemeral], "f2d7df6bbfeb474c"),
    "untracked": (Annotated[Any, untracked], "de1bc12a378df41c"),
    "messages": (Annotated[list[dict[str, Any]], messages], "f2829ed32f77bebb"),
}


def fingerprint(annotation: Any) -> str:
    state = pydantic.create_model("State", __module__=__name__, field=(annotation, None))
    g: Any = GraphBuilder(state, name="stays")
    g.add_node("work", lambda state: None).set_entry("work")
    return str(g.compile().fingerprint[:16])


@pytest.mark.parametrize("name", TYPES)
def test_recorded_fingerprint_is_unchanged(name: str) -> None:
    annotation, written = TYPES[name]

    assert fingerprint(annotation) == written
