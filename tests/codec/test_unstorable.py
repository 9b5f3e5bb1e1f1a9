"""A type without storable values is known before there is a value."""

from __future__ import annotations

import collections
import dataclasses
import logging
import re
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Protocol, TypedDict, TypeVar

import pydantic
import pytest
from pydantic import BaseModel, BeforeValidator, ByteSize, EmailStr, HttpUrl, IPvAnyAddress, PastDate, PostgresDsn

from graphrt._codec import Codec, register, registry
from graphrt.harness import Message

T = TypeVar("T")


class Client:
    pass


class Shape:
    pass


@dataclasses.dataclass
class Circle(Shape):
    radius: int = 0


class Meters(float):
    pass


class Abstract(ABC):
    @abstractmethod
    def run(self) -> None: ...


class Runs(Protocol):
    def run(self) -> None: ...


class Plain(TypedDict):
    client: Client


class Holder(BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    client: Client


class MayHold(BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    client: Client | None = None
    clients: list[Client] = []


@dataclasses.dataclass
class Node:
    value: int
    next: Node | None = None


@dataclasses.dataclass
class Chain:
    client: Client
    next: Chain | None = None


class Pair(NamedTuple):
    left: int
    right: Client


class Box(BaseModel, Generic[T]):
    item: T


Known = NewType("Known", Client)


@pytest.fixture(autouse=True)
def _registry_is_put_back() -> Iterator[None]:
    before = registry.registered_classes()
    yield
    registry._replace(before)


def why(hint: Any) -> str | None:
    return Codec([hint]).why_never(hint)


@pytest.mark.parametrize(
    ("hint", "part"),
    [
        (Client, "is an instance of Client"),
        (Client | None, "is an instance of Client"),
        (list[Client], "is an instance of Client"),
        (dict[str, list[Client]] | None, "is an instance of Client"),
        (tuple[int, Client], "is an instance of Client"),
        (tuple[Client, ...], "is an instance of Client"),
        (Sequence[Client], "is an instance of Client"),
        (Annotated[Client, "meta"], "is an instance of Client"),
        (Known, "is an instance of Client"),
        (Client | logging.Logger, "is an instance of Client"),
        (Meters, "store float(it)"),
        (collections.Counter[str], "a subclass of dict"),
        (collections.defaultdict[str, int], "store dict(it)"),
        (re.Pattern[str], "is an instance of Pattern"),
        (pydantic.SecretStr, "secrets are never stored"),
        (ValueError | None, "is an exception (ValueError)"),
        (type[Client], "is a class, which is code"),
        (types.FunctionType, "is a function, which is code"),
        (types.ModuleType, "is a module, which is code"),
        (Holder, "has the field 'client' of Holder, which is an instance of Client"),
        (list[Chain], "has the field 'client' of Chain"),
        (Pair, "has the field 'right' of Pair"),
        (dict[str, Holder], "has the field 'client' of Holder"),
    ],
    ids=str,
)
def test_type_without_a_storable_value_is_refused(hint: Any, part: str) -> None:
    found = why(hint)

    assert found is not None
    assert part in found


@pytest.mark.parametrize(
    "hint",
    [
        *(Any, object, int | Client, str, None, Literal["a"], list[Any], dict[str, Any], T, list[T], Box, Box[int]),
        *(Shape | Circle, Abstract, Runs, Callable[[], int], Iterator[int], Plain, MayHold, Node, list[Node], Message),
        *(HttpUrl | None, PostgresDsn, EmailStr, IPvAnyAddress, PastDate, ByteSize, Mapping[str, int], "unknown"),
        Annotated[Client, BeforeValidator(str)] | int,
        Annotated[Client, pydantic.PlainValidator(str)],
    ],
    ids=str,
)
def test_type_with_a_storable_value_is_accepted(hint: Any) -> None:
    """Also if that is uncertain: values of an abstract class, a protocol or a converted type may be of other types."""
    assert why(hint) is None


def test_registered_class_and_bases_of_known_classes_have_values() -> None:
    register(Client, encode=lambda _: 1, decode=lambda _: Client())

    assert why(list[Client]) is None
    assert Codec([Circle]).why_never(Shape) is None
