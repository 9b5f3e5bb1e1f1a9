"""States of every kind, and their Updates: accepted values, refused values, and values that are never stored."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
import typing_extensions as te
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr

from graphrt import DELETE, GraphBuilder, InputError, UpdateError
from graphrt.commands import UNSET
from graphrt.reducers import Overwrite, add, append, merge, reduced


def run(state: Any, given: Any, *updates: Any, update: Any = None) -> Any:
    """The last state of a chain of nodes that return *updates*; a function is called with the state."""
    builder: Any = GraphBuilder(state, update, name="g")
    for n, returned in enumerate(updates):
        builder.add_node(f"n{n}", returned if callable(returned) else lambda state, returned=returned: returned)
        builder.add_edge(f"n{n - 1}", f"n{n}") if n else builder.set_entry("n0")
    if not updates:
        builder.add_node("n0", lambda state: None).set_entry("n0")
    return builder.compile().run(given).state


# -- pydantic --------------------------------------------------------------------------------------------------------


class Aliased(BaseModel):
    one: int = Field(0, alias="uno")
    two: int = Field(0, validation_alias=AliasChoices("dos", "deux"))


def test_input_takes_aliases_and_names_and_an_update_takes_names() -> None:
    assert run(Aliased, {"uno": 1, "deux": 2}).one == 1
    assert run(Aliased, {"one": 1, "two": 2}).two == 2
    assert run(Aliased, {}, {"one": 3}).one == 3
    with pytest.raises(UpdateError, match="'uno', which is not a field"):
        run(Aliased, {}, {"uno": 3})


class Address(BaseModel):
    model_config = ConfigDict(alias_generator=str.upper)
    city: str = "?"


class Letter(BaseModel):
    to: Address = Address()


def test_nested_models_are_read_by_alias_and_by_name_in_inputs_and_updates() -> None:
    for key in ("city", "CITY"):
        assert run(Letter, {"to": {key: "Bergen"}}).to.city == "Bergen"
        assert run(Letter, {}, {"to": {key: "Bergen"}}).to.city == "Bergen"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    count: Annotated[int, add] = 0


def test_frozen_model_is_a_state() -> None:
    last = run(Frozen, {"count": 1}, {"count": 2}, lambda state: {"count": state.count})

    assert last == Frozen(count=6)
    assert hash(last) == hash(Frozen(count=6))


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    count: int = 0


def test_extra_input_is_kept_and_extra_updates_are_refused() -> None:
    last = run(Extra, {"count": 1, "more": [1]}, lambda state: {"count": len(state.more) + 5})

    assert (last.count, last.more) == (6, [1])
    with pytest.raises(UpdateError, match="'more', which is not a field"):
        run(Extra, {"more": 1}, {"more": 2})


def test_extra_input_is_refused_elsewhere() -> None:
    with pytest.raises(InputError, match="not a field of the state: 'cuont'"):
        run(Frozen, {"cuont": 1})


class Private(BaseModel):
    base: int = 1
    _double: int = PrivateAttr(default=0)

    def model_post_init(self, context: Any, /) -> None:
        self._double = self.base * 2


def test_private_attributes_and_model_post_init_follow_the_values() -> None:
    seen: list[int] = []

    last = run(Private, {"base": 2}, lambda state: seen.append(state._double) or {"base": 5})

    assert (seen, last._double) == ([4], 10)


class Bounded(BaseModel):
    count: int = Field(1, gt=0)
    name: str = Field("x", max_length=3, pattern="^[a-z]+$")
    numbers: Annotated[list[Annotated[int, Field(lt=10)]], append] = []
    percent: Annotated[float, Field(ge=0, le=100)] = 0
    total: Annotated[int, add, Field(ge=0)] = 0


@pytest.mark.parametrize(
    "bad", [{"count": 0}, {"name": "long"}, {"name": "A"}, {"numbers": [10]}, {"percent": 101}, {"total": -1}]
)
def test_constraints_apply_to_inputs_and_updates(bad: dict[str, Any]) -> None:
    with pytest.raises(UpdateError) as refused:
        run(Bounded, {}, bad)
    with pytest.raises(InputError):
        run(Bounded, bad)

    assert (refused.value.code, refused.value.field) == ("wrong-type", next(iter(bad)))


def test_constraints_apply_inside_overwrite() -> None:
    with pytest.raises(UpdateError):
        run(Bounded, {}, {"count": Overwrite(0)})
    assert run(Bounded, {}, {"numbers": [1]}, {"numbers": Overwrite([2])}).numbers == [2]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Home(BaseModel):
    pet: Cat | Dog = Field(default_factory=Cat, discriminator="kind")
    pets: Annotated[list[Annotated[Cat | Dog, Field(discriminator="kind")]], append] = []


def test_discriminated_union_is_validated() -> None:
    last = run(Home, {"pet": {"kind": "dog"}}, {"pet": {"kind": "cat", "lives": 3}, "pets": [{"kind": "dog"}]})

    assert (last.pet, last.pets) == (Cat(lives=3), [Dog()])
    with pytest.raises(UpdateError, match="kind"):
        run(Home, {}, {"pet": {"kind": "cow"}})


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    count: int = 0


def test_strict_mode_is_kept_and_lax_mode_converts() -> None:
    assert run(Frozen, {}, {"count": "3"}).count == 3
    with pytest.raises(UpdateError):
        run(Strict, {}, {"count": "3"})


# -- dataclasses -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class Slotted:
    text: str
    notes: Annotated[list[str], append] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class FrozenData:
    text: str = ""
    count: Annotated[int, add] = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSlotted:
    text: str = ""
    notes: list[str] = reduced(append, default_factory=list)


@dataclasses.dataclass
class Checked:
    text: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if self.text == "bad":
            raise ValueError("bad text")
        self.size = len(self.text)


def test_slots_and_frozen_dataclasses_are_states() -> None:
    assert run(Slotted, {"text": "a"}, {"notes": ["x"]}, {"notes": ["y"]}) == Slotted("a", ["x", "y"])
    assert run(FrozenData, FrozenData("a", 1), {"count": 2}) == FrozenData("a", 3)
    assert run(FrozenSlotted, {}, {"notes": ["x"], "text": "t"}) == FrozenSlotted(text="t", notes=["x"])


def test_a_default_factory_is_called_for_each_run() -> None:
    assert run(Slotted, {"text": "a"}, {"notes": ["x"]}).notes == ["x"]
    assert run(Slotted, {"text": "a"}).notes == []
    with pytest.raises(InputError, match="no default: 'text'"):
        run(Slotted, {})


def test_post_init_runs_on_input_only() -> None:
    assert run(Checked, {"text": "abc"}).size == 3
    assert run(Checked, {"text": "abc"}, {"text": "abcdef"}).size == 3
    with pytest.raises(InputError, match="The input does not fit Checked: ValueError: bad text"):
        run(Checked, {"text": "bad"})


# -- TypedDict -------------------------------------------------------------------------------------------------------


class Inner(typing.TypedDict):
    x: int
    y: NotRequired[list[int]]


class Plain(TypedDict):
    text: str
    maybe: NotRequired[int]
    inner: NotRequired[Inner]
    inners: Annotated[list[Inner], append]
    count: Annotated[int, add]
    table: te.Required[Annotated[dict[str, int], merge]]


def test_required_not_required_and_aggregating_keys_are_validated() -> None:
    assert run(Plain, {"text": "a"}) == {"text": "a", "inners": [], "count": 0, "table": {}}
    assert run(Plain, {"text": "a"}, {"maybe": 1, "count": 2, "table": {"k": 1}}) == {
        "text": "a",
        "maybe": 1,
        "inners": [],
        "count": 2,
        "table": {"k": 1},
    }
    with pytest.raises(InputError, match="no default: 'text'"):
        run(Plain, {})


def test_a_nested_typed_dict_refuses_unknown_keys() -> None:
    assert run(Plain, {"text": "a"}, {"inner": {"x": "1", "y": ["2"]}})["inner"] == {"x": 1, "y": [2]}
    with pytest.raises(UpdateError, match=r"inner\.z"):
        run(Plain, {"text": "a"}, {"inner": {"x": 1, "z": 2}})
    with pytest.raises(UpdateError, match=r"inners\[0\]\.z"):
        run(Plain, {"text": "a"}, {"inners": [{"x": 1, "z": 2}]})
    with pytest.raises(InputError, match=r"inner\.z"):
        run(Plain, {"text": "a", "inner": {"x": 1, "z": 2}})
    with pytest.raises(UpdateError, match=r"inner\.x"):
        run(Plain, {"text": "a"}, {"inner": {}})


def test_deleting_a_key_removes_it() -> None:
    assert "maybe" not in run(Plain, {"text": "a", "maybe": 1}, {"maybe": DELETE})


# -- updates ---------------------------------------------------------------------------------------------------------


class State(BaseModel):
    text: str = "-"
    notes: list[str] = reduced(append, default_factory=list)
    count: int = reduced(add, default=0)


class TypedUpdate(TypedDict, total=False):
    text: str
    notes: list[str]


class ModelUpdate(BaseModel):
    text: str = ""
    notes: list[str] = []
    count: int = 0


@dataclasses.dataclass
class DataUpdate:
    text: str = UNSET
    notes: list[str] = UNSET
    count: int = UNSET


def test_typed_dict_update_lists_the_writable_fields() -> None:
    assert run(State, {}, {"text": "a", "notes": ["n"]}, update=TypedUpdate).notes == ["n"]
    with pytest.raises(UpdateError, match="'count', which is not a field of the update"):
        run(State, {}, {"count": 1}, update=TypedUpdate)


def test_pydantic_update_writes_only_its_set_fields() -> None:
    assert run(State, {"text": "keep"}, ModelUpdate(notes=["n"]), update=ModelUpdate) == State(text="keep", notes=["n"])
    assert run(State, {"text": "keep"}, ModelUpdate(text=""), update=ModelUpdate).text == ""


def test_dataclass_update_writes_all_but_unset_fields() -> None:
    last = run(State, {"text": "keep"}, DataUpdate(count=2), DataUpdate(notes=["n"], count=1), update=DataUpdate)

    assert last == State(text="keep", notes=["n"], count=3)


def test_unset_in_a_mapping_is_not_a_write() -> None:
    assert run(State, {"text": "keep"}, {"text": UNSET, "count": 1}) == State(text="keep", count=1)


@pytest.mark.parametrize("update", [None, TypedUpdate, ModelUpdate, DataUpdate])
def test_markers_work_with_every_update(update: Any) -> None:
    start = {"text": "keep", "notes": ["a"]}

    assert run(State, start, {"text": DELETE}, update=update).text == "-"
    assert run(State, start, {"notes": Overwrite(["z"])}, update=update).notes == ["z"]
    assert run(State, start, {"notes": DELETE}, update=update).notes == []


# -- markers are never values ----------------------------------------------------------------------------------------


class Loose(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: object = None
    anything: Any = None
    either: int | Any = None


FIELDS = ["thing", "anything", "either"]
MARKERS = [DELETE, UNSET, Overwrite(1)]


@pytest.mark.parametrize("field", FIELDS)
def test_marker_in_a_loosely_typed_field_is_applied(field: str) -> None:
    assert getattr(run(Loose, {field: 3}, {field: DELETE}), field) is None
    assert getattr(run(Loose, {field: 3}, {field: Overwrite(4)}), field) == 4
    assert getattr(run(Loose, {field: 3}, {field: UNSET}), field) == 3


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("marker", MARKERS, ids=repr)
def test_a_marker_in_overwrite_or_an_input_is_refused(field: str, marker: Any) -> None:
    with pytest.raises(UpdateError):
        run(Loose, {}, {field: Overwrite(marker)})
    with pytest.raises(InputError):
        run(Loose, {field: marker})


# -- the input is never aliased --------------------------------------------------------------------------------------


class Deep(BaseModel):
    rows: list[list[int]] = []
    cat: Dog = Dog()
    table: dict[str, list[int]] = {}
    anything: Any = None


def grow(state: Any) -> dict[str, Any]:
    return {"rows": [*state.rows, [9]]}


@pytest.mark.parametrize("as_model", [True, False])
def test_objects_of_the_caller_are_not_shared(as_model: bool) -> None:
    given: Any = {"rows": [[1]], "cat": Dog(tricks=["sit"]), "table": {"k": [1]}, "anything": [{"x": [1]}]}
    passed = Deep.model_construct(**given) if as_model else given

    last = run(Deep, passed, grow)

    given["rows"][0].append(2)
    given["cat"].tricks.append("roll")
    given["table"]["k"].append(2)
    given["anything"][0]["x"].append(2)
    assert last.model_dump() == {
        "rows": [[1], [9]],
        "cat": {"kind": "dog", "tricks": ["sit"]},
        "table": {"k": [1]},
        "anything": [{"x": [1]}],
    }
    assert given["rows"] == [[1, 2]]


def test_a_default_is_not_shared_between_runs() -> None:
    class Defaulted(BaseModel):
        rows: list[list[int]] = [[0]]

    run(Defaulted, {}).rows[0].append(1)

    assert run(Defaulted, {}).rows == [[0]]
