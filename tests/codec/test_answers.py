"""Answer types as data: a small closed grammar."""

from __future__ import annotations

import datetime as dt
import enum
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, Optional, Union

import pytest
import typing_extensions as te
from pydantic import BaseModel, Field, ValidationError
from tests.codec import shapes

from graphrt._codec import Codec, NotStorable, register, registry
from graphrt._codec.answers import type_text
from graphrt.errors import InputError, StoreError

CODEC = Codec(shapes.ALL)


@pytest.fixture
def _registry_is_put_back() -> Iterator[None]:
    before = registry.registered_classes()
    yield
    registry._replace(before)


Id = NewType("Id", int)
Alias = te.TypeAliasType("Alias", list[int])


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (None, None, 1),
        (bool, True, "maybe"),
        (bool, True, "yes"),
        (bool, False, 0),
        (int, 1, "x"),
        (float, 1.5, "x"),
        (str, "a", 1),
        (bytes, b"a", 1),
        (dt.date, dt.date(2024, 1, 1), "x"),
        (dt.datetime, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "x"),
        (dt.time, dt.time(1), "x"),
        (dt.timedelta, dt.timedelta(1), "x"),
        (Decimal, Decimal(1), "x"),
        (uuid.UUID, uuid.UUID(int=1), "x"),
        (Literal["a", 1, True, None], None, "b"),  # noqa: PYI061 - both forms are tested
        (Literal[True, False], True, 1),
        (Literal[True, False], False, 0.0),
        (Literal[True, False], True, "yes"),
        (Literal[1, 2], 1, True),
        (Literal[1, True], True, 0),
        (Literal[shapes.Color.RED], shapes.Color.RED, shapes.Color.GREEN),
        (list, [1, "a"], 1),
        (list[int], [1], ["x"]),
        (set[int], {1}, {"x"}),
        (frozenset[int], frozenset({1}), {"x"}),
        (dict, {1: 2}, 1),
        (dict[str, int], {"a": 1}, {"a": "x"}),
        (tuple, (1, "a"), 1),
        (tuple[int, str], (1, "a"), (1,)),
        (tuple[int, ...], (1, 2), ("x",)),
        (tuple[()], (), (1,)),
        (int | None, None, "x"),
        (Optional[dict[str, list[int]]], {"a": [1]}, {"a": 1}),  # noqa: UP045 - as users write it
        (Union[int, Literal["no"]], "no", "yes"),  # noqa: UP007 - as users write it
        (shapes.Color, shapes.Color.RED, "x"),
        (shapes.Model, shapes.Model(x=1), 5),
        (shapes.Point, shapes.Point(1), 5),
        (shapes.Pair, shapes.Pair(1), 5),
        (shapes.Box[int], shapes.Box[int](value=1), 5),
        (Id, 1, "x"),
        (Alias, [1], "x"),
    ],
    ids=lambda value: str(value) if isinstance(value, (type, str)) else type(value).__name__,
)
def test_type_is_restored(annotation: Any, right: Any, wrong: Any) -> None:
    plain = CODEC.describe(annotation)
    adapter = CODEC.adapter(json.loads(json.dumps(plain)))

    assert adapter.validate_python(right) == right
    with pytest.raises(ValidationError):
        adapter.validate_python(wrong)
    assert CODEC.load(CODEC.dump(plain)) == plain


def test_any_accepts_any_value() -> None:
    assert CODEC.adapter(CODEC.describe(Any)).validate_python(...) is ...


def test_description_is_readable() -> None:
    assert CODEC.describe(dict[str, list[shapes.Color | None]]) == {
        "dict": ["str", {"list": {"union": [{"class": "Color"}, "none"]}}]
    }
    assert CODEC.describe(Literal["a", shapes.Color.RED]) == {"literal": ["a", {"enum": ["Color", "RED"]}]}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (bool, "bool"),
        (list[str] | None, "list[str] | none"),
        (bool | dict[Literal["approve", "reason"], Any], "bool | dict['approve' | 'reason', any]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (shapes.Model, "Model"),
    ],
)
def test_description_as_text(annotation: Any, text: str) -> None:
    assert type_text(CODEC.describe(annotation)) == text


def test_class_with_its_own_functions_is_checked_as_an_instance() -> None:
    from graphrt._codec import register, registry

    class Money:
        pass

    before = registry.registered_classes()
    register(Money, tag="money", encode=lambda _: None, decode=lambda _: Money())
    try:
        adapter = CODEC.adapter(CODEC.describe(Money))
        money = Money()
        assert adapter.validate_python(money) is money
        with pytest.raises(ValidationError):
            adapter.validate_python(5)
    finally:
        registry._replace(before)


class Stranger(BaseModel):
    pass


class StrangeColor(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    "annotation",
    [
        Stranger,
        list[Stranger],
        complex,
        object,
        Annotated[int, Field(gt=0)],
        Literal[b"a"],
        Literal[StrangeColor.RED],
        "int",
        5,
        [],
        type[int],
    ],
    ids=str,
)
def test_type_outside_the_grammar_is_refused(annotation: Any) -> None:
    with pytest.raises(NotStorable):
        CODEC.describe(annotation)


def test_type_nested_too_deeply_is_refused() -> None:
    annotation: Any = int
    plain: Any = "int"
    for _ in range(150):
        annotation = list[annotation]
        plain = {"list": plain}

    with pytest.raises(NotStorable):
        CODEC.describe(annotation)
    with pytest.raises(StoreError):
        CODEC.adapter(plain)


@pytest.mark.parametrize(
    "plain",
    [
        None,
        5,
        [],
        {},
        "object",
        "os.system",
        {"list": "nothing"},
        {"list": "int", "set": "int"},
        {"dict": ["int"]},
        {"dict": "int"},
        {"dict": [{"literal": [[]]}, "int"]},
        {"union": []},
        {"union": "int"},
        {"literal": []},
        {"literal": [1.5]},
        {"literal": [{"enum": ["Color", "BLUE"]}]},
        {"literal": [{"enum": ["Model", "x"]}]},
        {"literal": [{"enum": []}]},
        {"literal": [{}]},
        {"nothing": []},
        {"tuple...": []},
    ],
    ids=str,
)
def test_malformed_description_is_damage(plain: Any) -> None:
    with pytest.raises(StoreError) as caught:
        CODEC.adapter(plain)
    assert caught.value.code == "damaged-value"


@pytest.mark.parametrize(
    "plain", [{"class": "Nobody"}, {"class": 5}, {"literal": [{"enum": ["Nobody", "A"]}]}], ids=str
)
def test_description_of_an_unknown_class_names_it(plain: Any) -> None:
    with pytest.raises(StoreError) as caught:
        CODEC.adapter({"list": plain})
    assert caught.value.code == "unknown-type"


@pytest.mark.usefixtures("_registry_is_put_back")
def test_member_of_an_enum_that_was_registered_with_functions_is_described() -> None:
    class Level(enum.Enum):
        HIGH = "high"

    register(Level, encode=lambda level: level.value, decode=Level)
    codec = Codec()
    adapter = codec.adapter(codec.describe(Literal[Level.HIGH]))

    assert adapter.validate_python(Level.HIGH) is Level.HIGH
    with pytest.raises(ValidationError):
        adapter.validate_python("low")


@pytest.mark.usefixtures("_registry_is_put_back")
def test_two_classes_with_one_tag_are_not_damage() -> None:
    codec = Codec(shapes.ALL)
    plain = codec.describe(int)

    class Other:
        pass

    classes = codec._current().classes
    tag = next(tag for tag, entry in classes.items() if entry.cls.__module__ == shapes.__name__)
    register(Other, tag=tag, encode=str, decode=str)
    with pytest.raises(InputError) as caught:
        codec.adapter(plain)
    assert caught.value.code == "duplicate-tag"
