"""State classes of all three kinds: how their fields are read, inputs are converted, and nodes see them."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import pydantic
import pytest
import typing_extensions as te
from pydantic import AfterValidator, AliasChoices, AliasPath, BaseModel, ConfigDict, Field, PrivateAttr

from graphrt import InputError, reducers
from graphrt._plan.fields import ABSENT
from graphrt._plan.state import EXTRA, StateSchema
from graphrt.reducers import add, append, ephemeral, first, merge, messages, overwrite, reduced, union, untracked

T = TypeVar("T")


def read(cls: Any, **localns: Any) -> StateSchema:
    schema = StateSchema(cls, localns)
    assert [problem.message for problem in schema.problems] == []
    return schema


def initial(cls: Any, given: Any, **localns: Any) -> Any:
    return read(cls, **localns).initial(given, where="here")


def view_of(cls: Any, given: Any) -> Any:
    schema = read(cls)
    return schema.view(schema.initial(given, where="here"))


# -- reading -----------------------------------------------------------------------------------------------------


class Model(BaseModel):
    text: str
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0
    flash: Annotated[str, ephemeral] = ""
    client: Annotated[Any, untracked] = None


@dataclasses.dataclass
class Data:
    text: str
    notes: Annotated[list[str], append] = dataclasses.field(default_factory=list)
    calls: Annotated[int, add] = 0
    flash: Annotated[str, ephemeral] = ""
    client: Annotated[Any, untracked] = None


class Dict(typing.TypedDict):
    text: str
    notes: Annotated[list[str], append]
    calls: Annotated[int, add]
    flash: typing.NotRequired[Annotated[str, ephemeral]]
    client: typing.NotRequired[Annotated[Any, untracked]]


class Reduced(BaseModel):
    text: str
    notes: list[str] = reduced(append, default_factory=list)
    calls: int = reduced(add, default=0)
    flash: str = reduced(overwrite, ephemeral, default="")
    client: Any = reduced(overwrite, untracked, default=None)


@dataclasses.dataclass
class ReducedData:
    text: str
    notes: list[str] = reduced(append, default_factory=list)
    calls: int = reduced(add, default=0)
    flash: str = reduced(overwrite, ephemeral, default="")
    client: Any = reduced(overwrite, untracked, default=None)


@pytest.mark.parametrize("cls", [Model, Data, Dict, Reduced, ReducedData])
def test_fields_of_all_kinds_are_read_alike(cls: Any) -> None:
    fields = read(cls).fields

    assert {name: field.reducer_name for name, field in fields.items()} == {
        "text": "overwrite",
        "notes": "append",
        "calls": "add",
        "flash": "overwrite",
        "client": "overwrite",
    }
    assert [name for name, field in fields.items() if field.required] == ["text"]
    assert [name for name, field in fields.items() if field.aggregates] == ["notes", "calls"]
    assert [name for name, field in fields.items() if field.ephemeral] == ["flash"]
    assert [name for name, field in fields.items() if field.untracked] == ["client"]


@pytest.mark.parametrize("cls", [Model, Data, Reduced, ReducedData])
def test_defaults_are_fresh_each_time(cls: Any) -> None:
    field = read(cls).fields["notes"]

    field.default().append("x")

    assert field.default() == []


def test_default_that_needs_other_fields_cannot_be_restored() -> None:
    class Derived(BaseModel):
        one: int = 1
        two: int = Field(default_factory=lambda data: data["one"] + 1)

    schema = read(Derived)

    assert schema.initial({"one": 4}, where="") == {"one": 4, "two": 5}
    assert (schema.fields["two"].has_default, schema.fields["two"].default()) == (False, ABSENT)


def test_restored_defaults_are_validated_if_the_class_says_so() -> None:
    class Validated(BaseModel):
        model_config = ConfigDict(validate_default=True)
        numbers: tuple[int, ...] = cast("tuple[int, ...]", ["1"])
        made: tuple[int, ...] = Field(default_factory=lambda: cast("tuple[int, ...]", [2]))
        as_it_is: Annotated[int, Field(validate_default=False)] = cast("int", "3")

    schema = read(Validated)

    assert {name: field.default() for name, field in schema.fields.items()} == schema.initial({}, where="")


@pytest.mark.parametrize(
    ("hint", "start"),
    [
        (Annotated[list[str], append], []),
        (Annotated[tuple[str, ...], append], ()),
        (Annotated[int, add], 0),
        (Annotated[float, add], 0.0),
        (Annotated[str, add], ""),
        (Annotated[set[int], union], set()),
        (Annotated[dict[str, int], merge], {}),
        (Annotated[list[dict[str, str]], messages], []),
        (Annotated[typing.Sequence[str], append], []),
    ],
)
def test_reducer_with_an_identity_starts_from_the_empty_value_of_its_type(hint: Any, start: Any) -> None:
    cls: Any = te.TypedDict("cls", {"field": hint})  # type: ignore[operator]

    assert initial(cls, {}) == {"field": start}


@pytest.mark.parametrize("hint", [Annotated[int, reducers.max], Annotated[int, first], Annotated[Any, add], int])
def test_reducer_without_an_identity_requires_a_value(hint: Any) -> None:
    cls: Any = te.TypedDict("cls", {"field": hint})  # type: ignore[operator]

    with pytest.raises(InputError):
        initial(cls, {})


class Notes(list[str]):
    pass


class Part(te.TypedDict):
    n: int


@pytest.mark.parametrize(
    ("reducer", "hint"),
    [
        (append, collections.deque[int]),
        (append, Notes),
        (append, collections.deque[int] | None),
        (union, collections.deque[int]),
        (messages, collections.deque[Any]),
        (merge, collections.OrderedDict[str, int]),
        (merge, collections.Counter[str]),
        (add, collections.OrderedDict[str, int]),
        (add, Part),
    ],
)
def test_reducer_that_would_change_the_type_of_a_container_is_a_problem(reducer: Any, hint: Any) -> None:
    schema = StateSchema(te.TypedDict("cls", {"field": Annotated[hint, reducer]}), {})  # type: ignore[operator]

    assert [problem.code for problem in schema.problems] == ["bad-reducer"]
    assert "cannot fold" in schema.problems[0].message


@pytest.mark.parametrize(
    ("reducer", "hint"),
    [
        (append, typing.Sequence[int]),
        (append, typing.Iterable[int]),
        (append, object),
        (add, collections.deque[int]),
        (merge, typing.MutableMapping[str, int]),
        (merge, Part),
    ],
)
def test_reducer_fits_types_that_its_result_has(reducer: Any, hint: Any) -> None:
    read(te.TypedDict("cls", {"field": Annotated[hint, reducer]}))  # type: ignore[operator]


def test_a_custom_reducer_may_name_its_identity() -> None:
    def longest(current: str, incoming: str) -> str:
        return max(current, incoming, key=len)

    longest.identity = lambda: "none"  # test_operator_add_is_a_known_reducer
    cls: Any = te.TypedDict("cls", {"field": Annotated[str, longest]})  # type: ignore[operator]

    assert initial(cls, {}) == {"field": "none"}


def test_the_plus_of_the_operator_module_is_known() -> None:
    import operator

    cls: Any = te.TypedDict("cls", {"notes": Annotated[list[str], operator.add], "n": Annotated[int, operator.add]})  # type: ignore[operator]

    assert initial(cls, {}) == {"notes": [], "n": 0}


# -- unusual classes ---------------------------------------------------------------------------------------------


def test_slots_frozen_and_mixed_dataclasses_are_complete() -> None:
    @dataclasses.dataclass(slots=True, frozen=True)
    class Slots:
        one: int = 1

    @dataclasses.dataclass
    class SlotsBase:
        __slots__ = ("one",)
        one: int

    @dataclasses.dataclass
    class Mixed(SlotsBase):
        two: int = 2

    assert view_of(Slots, {"one": 3}) == Slots(3)
    assert view_of(Mixed, {"one": 3}) == Mixed(3, 2)


def test_fields_without_init_are_computed_once() -> None:
    @dataclasses.dataclass
    class Computed:
        one: int
        factor: dataclasses.InitVar[int] = 2
        two: int = dataclasses.field(init=False)

        def __post_init__(self, factor: int) -> None:
            self.two = self.one * factor

    assert initial(Computed, {"one": 3}) == {"one": 3, "two": 6}
    assert initial(Computed, {"one": 3, "factor": 5}) == {"one": 3, "two": 15}
    assert initial(Computed, {"one": 3, "two": 1}) == {"one": 3, "two": 1}


def test_a_pydantic_dataclass_keeps_its_constraints_and_defaults() -> None:
    @pydantic.dataclasses.dataclass
    class Strict:
        notes: Annotated[list[str], append] = Field(default_factory=list)
        level: int = Field(default=3, gt=0)

    assert initial(Strict, {}) == {"notes": [], "level": 3}
    with pytest.raises(InputError, match="greater than 0"):
        initial(Strict, {"level": 0})
    with pytest.raises(ValueError, match="greater than 0"):
        read(Strict).fields["level"].check(0)


def test_aliases_are_names_of_the_input_only() -> None:
    class Aliased(BaseModel):
        text: str = Field(alias="Text")
        other: int = Field(0, validation_alias=AliasChoices("o", "O"))

    assert initial(Aliased, {"Text": "a", "O": 3}) == {"text": "a", "other": 3}
    assert initial(Aliased, {"text": "a", "other": 3}) == {"text": "a", "other": 3}
    assert list(read(Aliased).fields) == ["text", "other"]
    with pytest.raises(InputError) as caught:
        initial(Aliased, {"Text": "a", "o2": 3})
    assert caught.value.code == "unknown-key"


def test_an_update_from_outside_may_use_the_aliases_that_pydantic_reads() -> None:
    class Aliased(BaseModel):
        text: str = Field("", alias="Text")
        other: int = Field(0, validation_alias=AliasChoices("o", AliasPath("deep", 0)))
        shown: int = Field(0, alias="ignored", validation_alias="Shown")

    named = read(Aliased).by_names

    assert named({"Text": "a", "deep": [3], "Shown": 1, "more": 2}) == {"text": "a", "other": 3, "shown": 1, "more": 2}
    with pytest.raises(InputError, match="not a field of the state: 'ignored'"):
        initial(Aliased, {"ignored": 1})


def test_extra_fields_are_kept() -> None:
    class Open(BaseModel, extra="allow"):
        one: int = 1

    assert initial(Open, {"two": [2]}) == {"one": 1, EXTRA: {"two": [2]}}
    assert view_of(Open, {"two": 2}) == Open.model_validate({"two": 2})
    assert view_of(Open, Open.model_validate({"two": 2})).two == 2


def test_private_attributes_and_post_init_are_available() -> None:
    class Private(BaseModel):
        one: int = 1
        _cache: dict[str, int] = PrivateAttr(default_factory=dict)
        _double: int = 0

        def model_post_init(self, context: Any) -> None:
            self._double = self.one * 2

    seen, again = view_of(Private, {"one": 4}), view_of(Private, {"one": 4})

    assert (seen._cache, seen._double) == ({}, 8)
    assert seen._cache is not again._cache


def test_view_is_a_full_instance() -> None:
    seen = view_of(Model, {"text": "a"})

    assert seen == Model(text="a")
    assert seen.model_fields_set == set(Model.model_fields)
    assert seen.model_dump() == Model(text="a").model_dump()
    assert seen.model_copy(update={"text": "b"}).text == "b"


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class BoxDict(te.TypedDict, Generic[T]):
    content: T
    more: te.NotRequired[list[T]]


@dataclasses.dataclass
class BoxData(Generic[T]):
    content: T
    more: list[T] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize("cls", [Box[int], BoxDict[int], BoxData[int]])
def test_generic_states_are_validated_with_their_arguments(cls: Any) -> None:
    assert initial(cls, {"content": "3", "more": ["4"]}) == {"content": 3, "more": [4]}
    with pytest.raises(InputError):
        initial(cls, {"content": "x"})


def test_forward_references_are_resolved_in_the_defining_function() -> None:
    class Item(BaseModel):
        n: int

    class Later(BaseModel):
        items: list[Item] = []
        inner: Late | None = None

    class Late(BaseModel):
        n: int

    class Typed(te.TypedDict, total=False):
        inner: Late

    @dataclasses.dataclass
    class Classed:
        inner: Late | None = None

    for cls in (Later, Typed, Classed):
        assert initial(cls, {"inner": {"n": "3"}}, Late=Late, Item=Item)["inner"] == Late(n=3)


def test_class_in_the_body_of_the_state_is_resolved() -> None:
    class Outer:
        class Kind(enum.Enum):
            ONE = 1

        kind: Kind

    cls = dataclasses.dataclass(Outer)

    assert initial(cls, {"kind": 1}) == {"kind": Outer.Kind.ONE}


def test_unresolvable_annotation_is_one_problem() -> None:
    @dataclasses.dataclass
    class Broken:
        one: Missing  # type: ignore[name-defined]  # noqa: F821
        two: int = 0

    schema = StateSchema(Broken, {})

    assert [problem.code for problem in schema.problems] == ["bad-annotation"]
    assert schema.fields == {}


class Nested(typing.TypedDict):
    n: int
    deeper: typing.NotRequired[Deeper]


class Deeper(typing.TypedDict, total=False):
    nested: Nested
    x: Literal["a", "b"]


class WithNested(typing.TypedDict):
    nested: Nested
    several: list[Nested]


def test_nested_typed_dicts_are_validated_and_closed() -> None:
    """pydantic refuses typing.TypedDict below 3.12, and drops unknown keys."""
    good = {"nested": {"n": "1", "deeper": {"x": "a"}}, "several": [{"n": 2}]}

    assert initial(WithNested, good) == {"nested": {"n": 1, "deeper": {"x": "a"}}, "several": [{"n": 2}]}
    for bad in ({"n": 1, "m": 2}, {"n": 1, "deeper": {"x": "c"}}, {}):
        with pytest.raises(InputError):
            initial(WithNested, {"nested": bad, "several": []})


class Part(typing.TypedDict):
    n: int
    parts: typing.NotRequired[list[Part]]
    other: typing.NotRequired[Counterpart]


class Counterpart(typing.TypedDict, total=False):
    part: Part


class Whole(typing.TypedDict):
    root: Part


@pytest.mark.parametrize("bad", [{"n": "x"}, {"n": 1, "typo": 1}, {}])
def test_recursive_typed_dicts_are_validated_at_every_level(bad: dict[str, Any]) -> None:
    def around(part: dict[str, Any]) -> dict[str, Any]:
        return {"root": {"n": 0, "parts": [{"n": 0, "other": {"part": part}}]}}

    assert initial(Whole, around({"n": "1"})) == around({"n": 1})
    with pytest.raises(InputError):
        initial(Whole, around(bad))


@dataclasses.dataclass
class Small:
    n: int = 0


@dataclasses.dataclass
class Large:
    small: Small = dataclasses.field(default_factory=Small)


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="ignore"))
class Lenient:
    n: int = 0


def test_dataclasses_in_fields_refuse_unknown_keys_unless_their_settings_say_otherwise() -> None:
    """pydantic drops them, so that a misspelt key would vanish."""

    class State(te.TypedDict, total=False):
        one: Small
        maybe: Small | None
        several: list[Small]
        inside: Large
        lenient: Lenient

    misspelt = {"m": 1}
    for bad in ({"one": misspelt}, {"maybe": misspelt}, {"several": [misspelt]}, {"inside": {"small": misspelt}}):
        with pytest.raises(InputError, match=r"\.m: Unexpected keyword argument, got 1"):
            initial(State, bad)
    assert initial(State, {"inside": {"small": {"n": "1"}}, "one": Small(2)}) == {
        "inside": Large(Small(1)),
        "one": Small(2),
    }
    assert initial(State, {"lenient": misspelt}) == {"lenient": Lenient()}


def test_arbitrary_class_inside_a_typed_dict_is_checked_by_isinstance() -> None:
    class Client:
        pass

    class Inner(te.TypedDict):
        client: Client

    class State(te.TypedDict):
        inner: Inner

    client = Client()

    assert initial(State, {"inner": {"client": client}}, Client=Client, Inner=Inner)["inner"]["client"] is client
    with pytest.raises(InputError):
        initial(State, {"inner": {"client": 3}}, Client=Client, Inner=Inner)


def test_a_strict_model_converts_nothing() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        n: int = 0

    with pytest.raises(InputError):
        initial(Strict, {"n": "3"})
    with pytest.raises(ValueError, match="valid integer"):
        read(Strict).fields["n"].check("3")


def test_an_instance_without_all_attributes_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        initial(Model, Model.model_construct(text="a", calls=3).model_copy(update={}).__class__.__new__(Model))
    assert caught.value.code in ("missing-field", "bad-input")


def test_values_that_pydantic_validated_are_not_converted_a_second_time() -> None:
    class Price(BaseModel):
        cents: Annotated[int, AfterValidator(lambda euros: euros * 100)] = 0
        parts: pydantic.Json[list[int]] = pydantic.Field(default_factory=list)
        unchecked_default: int = cast("int", None)

    price = Price.model_validate({"cents": 5, "parts": "[1]"})

    assert initial(Price, price) == {"cents": 500, "parts": [1], "unchecked_default": None}


def test_values_assigned_to_an_instance_are_checked() -> None:
    changed = Model(text="a")
    changed.notes.append(cast("str", 1))

    with pytest.raises(InputError, match="Input should be a valid string, got 1"):
        initial(Model, changed)


def test_fields_that_only_a_subclass_of_the_state_has_are_refused() -> None:
    class More(Model):
        urgent: bool = False

    @dataclasses.dataclass
    class MoreData(Data):
        urgent: bool = False

    for cls, instance in ((Model, More(text="a")), (Data, MoreData("a"))):
        with pytest.raises(InputError, match="not a field of the state: 'urgent'"):
            initial(cls, instance)


def test_validator_that_raises_another_error_is_an_input_error() -> None:
    class Fussy(BaseModel):
        n: int = 0

        @pydantic.model_validator(mode="before")
        @classmethod
        def look(cls, data: Any) -> Any:
            return data["missing"]

    with pytest.raises(InputError, match="The input does not fit Fussy: KeyError"):
        initial(Fussy, {"n": 1})
