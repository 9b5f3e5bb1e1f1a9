"""Which classes a codec knows: those in annotations, and those that were registered by hand."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union
from zoneinfo import ZoneInfo

import pydantic
import pytest
import typing_extensions as te
from pydantic import BaseModel, Field

from graphrt._codec import Codec, NotStorable, register, registry
from graphrt.errors import InputError, StoreError


@pytest.fixture(autouse=True)
def _registry_is_put_back() -> Iterator[None]:
    before = registry.registered_classes()
    yield
    registry._replace(before)


class Leaf(enum.Enum):
    ONE = 1


class Deep(BaseModel):
    leaf: Leaf = Leaf.ONE


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    deep: Deep = Deep()


@dataclasses.dataclass
class Tree:
    branches: list[Tree] = dataclasses.field(default_factory=list)
    other: Optional["Later"] = None  # noqa: UP037, UP045 - as users write it
    unused: ClassVar[Unused | None] = None
    gone: NoSuchName | None = None  # noqa: F821 - cannot be resolved, on purpose


class Later(NamedTuple):
    deep: Deep


class Unused(BaseModel):
    pass


class State(TypedDict, total=False):
    pets: te.NotRequired[list[Annotated[Cat | Dog, Field(discriminator="kind")]]]
    tree: Tree


class Aunt(Deep):
    pass


T = TypeVar("T", bound=Deep)


class Holder(BaseModel, Generic[T]):
    value: T


@dataclasses.dataclass
class Crate(Generic[T]):
    value: T


Name = NewType("Name", Deep)
Alias = te.TypeAliasType("Alias", list[Deep])


@pytest.mark.parametrize(
    "annotation",
    [
        Deep,
        Deep | None,
        Union[int, list[dict[str, Deep]]],  # noqa: UP007 - as users write it
        tuple[Deep, ...],
        Callable[[Deep], int],
        Annotated[Deep, "x"],
        Name,
        Alias,
        T,
        Holder[Deep],
        Crate[Deep],
        Mapping[str, set[Deep]],
        type[Deep],
        Dog,
        Later,
        Tree,
        State,
        Aunt,
    ],
    ids=str,
)
def test_annotation_registers_the_class(annotation: Any) -> None:
    codec = Codec([annotation])

    assert codec.knows(Leaf)
    assert codec.load(codec.dump(Leaf.ONE)) is Leaf.ONE


def test_state_registers_all_its_classes_and_no_others() -> None:
    codec = Codec([State])

    assert all(codec.knows(cls) for cls in (Cat, Dog, Tree, Later, Deep, Leaf))
    assert not codec.knows(Unused)
    assert not codec.knows(Aunt)
    assert not Codec().knows(Deep)
    assert codec.knows(int)


def test_literal_of_enum_members_registers_the_enum() -> None:
    assert Codec([Literal[Leaf.ONE]]).knows(Leaf)


def test_generic_models_are_known_by_their_arguments() -> None:
    codec = Codec([Holder[Deep]])
    value = Holder[Deep](value=Deep())

    assert codec.load(codec.dump(value)) == value
    assert type(codec.load(codec.dump(value))) is Holder[Deep]
    with pytest.raises(NotStorable):
        codec.dump(Holder(value=Deep()))


def test_tag_is_the_qualified_name() -> None:
    class Inner(BaseModel):
        x: int = 0

    name = "test_tag_is_the_qualified_name.<locals>.Inner"
    assert Codec([Inner]).dump(Inner(x=1)) == f'{{"$t":"{name}","v":{{"x":1}}}}'.encode()


def namesake() -> Any:
    class Deep(BaseModel):
        pass

    Deep.__qualname__ = "Deep"
    return Deep


def test_two_classes_with_one_tag_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        Codec([Deep, namesake()])

    assert caught.value.code == "duplicate-tag"
    assert "Deep" in caught.value.what
    assert "register_type(Deep, tag='...')" in caught.value.fix


def test_class_with_the_tag_of_a_built_in_type_is_refused() -> None:
    class tuple(BaseModel):  # noqa: A001, N801 - the collision that is tested
        pass

    tuple.__qualname__ = "tuple"
    with pytest.raises(InputError) as caught:
        Codec([tuple])
    assert caught.value.code == "duplicate-tag"
    assert "a built-in type" in caught.value.what


def test_registered_tag_resolves_the_collision() -> None:
    other = namesake()
    register(other, tag="other")

    codec = Codec([Deep, other])

    assert codec.dump(other()) == b'{"$t":"other","v":{},"set":[]}'.replace(b',"set":[]', b"")
    assert type(codec.load(b'{"$t":"other","v":{}}')) is other


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = None


def test_registration_applies_to_codecs_created_before_and_after() -> None:
    before = Codec()
    with pytest.raises(NotStorable):
        before.dump(Money(1))

    register(Money, tag="money", encode=lambda money: (money.cents,), decode=lambda data: Money(data[0]))

    for codec in (before, Codec()):
        assert codec.load(codec.dump([Money(5)])) == [Money(5)]
        assert codec.dump(Money(5)) == b'{"$t":"money","v":{"$t":"tuple","v":[5]}}'


def test_register_decorates() -> None:
    @register
    class One(BaseModel):
        x: int = 0

    @register(tag="two")
    class Two(BaseModel):
        deep: Deep = Deep()

    codec = Codec()
    assert codec.load(codec.dump([One(), Two()])) == [One(), Two()]
    assert codec.dump(Two()).startswith(b'{"$t":"two"')
    assert codec.knows(Leaf)


def test_class_of_the_library_can_be_registered_with_functions() -> None:
    register(ZoneInfo, tag="zone", encode=str, decode=ZoneInfo)

    codec = Codec()
    assert codec.load(codec.dump(ZoneInfo("UTC"))) is ZoneInfo("UTC")


class HouseZone(dt.tzinfo):
    def __init__(self, minutes: int) -> None:
        self.minutes = minutes

    def utcoffset(self, _when: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta(minutes=self.minutes)


def test_registered_time_zone_is_stored_in_times() -> None:
    register(HouseZone, encode=lambda zone: zone.minutes, decode=HouseZone)
    when = dt.datetime(2024, 1, 1, tzinfo=HouseZone(90))

    read = Codec().load(Codec().dump([when, when.timetz()]))

    assert read == [when, when.timetz()]
    assert [type(time.tzinfo) for time in read] == [HouseZone, HouseZone]


def test_subclass_of_str_can_be_registered() -> None:
    class Name(str):
        __slots__ = ()

    register(Name, encode=str.__str__, decode=Name)

    codec = Codec()
    assert type(codec.load(codec.dump(Name("a")))) is Name


def test_second_tag_of_a_class_is_written_and_the_first_one_stays_readable() -> None:
    """Two libraries that register one class do not break each other."""
    register(Deep, tag="first")
    codec = Codec()
    stored = codec.dump(Deep())
    register(Deep, tag="second")

    assert codec.load(stored) == Deep()
    assert b"second" in codec.dump(Deep())
    assert codec.load(codec.dump(Deep())) == Deep()

    register(Deep, tag="first")  # and back
    assert b"first" in codec.dump(Deep())


def test_first_tag_of_a_class_may_be_reused_by_another_one() -> None:
    register(Deep, tag="first")
    register(Deep, tag="second")
    register(Cat, tag="first")
    codec = Codec()

    assert codec.load(codec.dump([Cat(), Deep()])) == [Cat(), Deep()]


def test_value_stored_under_the_first_tag_is_read_by_the_functions_of_its_registration() -> None:
    class Name(str):
        __slots__ = ()

    register(Name, tag="first", encode=lambda name: [*name], decode=lambda parts: Name("".join(parts)))
    stored = Codec().dump(Name("ab"))
    register(Name, tag="second", encode=str.__str__, decode=Name)

    assert Codec().load(stored) == Name("ab")


def test_class_registered_again_replaces_the_older_one() -> None:
    """A notebook cell that runs twice creates two classes with one name."""

    def cell() -> Any:
        class Note(BaseModel):
            x: int = 0

        return register(Note, tag="note")

    older, newer = cell(), cell()

    codec = Codec()
    assert type(codec.load(codec.dump(newer()))) is newer
    assert not codec.knows(older)


class Broken:
    pass


def test_encode_function_that_raises_is_a_refusal_with_the_path() -> None:
    register(Broken, encode=lambda broken: broken.nothing, decode=lambda _: Broken())

    with pytest.raises(NotStorable) as caught:
        Codec().dump({"a": Broken()})
    assert caught.value.path == "a"
    assert "AttributeError" in caught.value.why


def test_encode_function_with_an_unstorable_result_is_a_refusal_with_the_path() -> None:
    register(Broken, encode=lambda broken: [broken.__class__], decode=lambda _: Broken())

    with pytest.raises(NotStorable) as caught:
        Codec().dump({"a": Broken()})
    assert caught.value.path == "a[0]"


def test_decode_function_that_returns_another_class_or_raises_is_damage() -> None:
    for decode in (lambda _: 5, lambda data: data.nothing):
        register(Broken, encode=lambda _: None, decode=decode)
        with pytest.raises(StoreError) as caught:
            Codec().load(Codec().dump(Broken()))
        assert caught.value.code == "damaged-value"


@dataclasses.dataclass
class Mapped(dict):
    x: int = 0


@pytest.mark.parametrize(
    ("cls", "options", "code"),
    [
        (5, {}, "bad-registration"),
        (int, {}, "bad-registration"),
        (object, {"encode": str, "decode": str}, "bad-registration"),
        (ValueError, {}, "bad-registration"),
        (type, {}, "bad-registration"),
        (pydantic.SecretStr, {"encode": str, "decode": str}, "bad-registration"),
        (Broken, {}, "bad-registration"),
        (Mapped, {}, "bad-registration"),
        (Broken, {"encode": str}, "bad-registration"),
        (Broken, {"decode": str}, "bad-registration"),
        (Broken, {"encode": 1, "decode": 2}, "bad-registration"),
        (Deep, {"tag": 5}, "input"),
        (Deep, {"tag": ""}, "input"),
        (Deep, {"tag": "tuple"}, "duplicate-tag"),
        (Deep, {"tag": "blob"}, "duplicate-tag"),
        (Deep, {"tag": "start"}, "duplicate-tag"),
        (Deep, {"tag": "end"}, "duplicate-tag"),
        (Deep, {"tag": "problem"}, "duplicate-tag"),
    ],
)
def test_invalid_registration_is_refused(cls: Any, options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        register(cls, **options)

    assert caught.value.code == code


def test_tag_of_another_registered_class_is_refused() -> None:
    register(Deep, tag="deep")

    with pytest.raises(InputError) as caught:
        register(Cat, tag="deep")
    assert caught.value.code == "duplicate-tag"


@dataclasses.dataclass
class Numbers(array.array):
    """An instance of a C class that looks like a Python class since Python 3.10; deques do since 3.12."""

    x: int = 0

    def __new__(cls, x: int = 0) -> te.Self:
        return super().__new__(cls, "i", [1, 2])


@dataclasses.dataclass
class Queued(collections.deque):
    x: int = 0


@pytest.mark.parametrize("value", [Mapped(), Numbers(), Queued()], ids=lambda value: type(value).__name__)
def test_dataclass_of_a_built_in_type_is_refused_and_not_half_stored(value: Any) -> None:
    with pytest.raises(NotStorable):
        Codec([type(value)]).dump(value)
    with pytest.raises(InputError, match=r"a kind of (dict|array|deque)"):
        register(type(value))


def test_mutual_and_self_references_terminate() -> None:
    codec = Codec([Tree])
    value = Tree([Tree()], Later(Deep()))

    assert codec.load(codec.dump(value)) == value
