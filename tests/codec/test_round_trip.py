"""Every written value is restored exactly, type by type and at random."""

from __future__ import annotations

import datetime as dt
import ipaddress
import math
import os
import pathlib
import subprocess
import sys
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from tests.codec import shapes
from tests.codec.shapes import same
from tests.codec.strategies import TAGS, values

from graphrt import DELETE, UNSET, Overwrite, Send
from graphrt._codec import Codec, NotStorable
from graphrt.events import Usage
from graphrt.harness import AgentReply, AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage

CODEC = Codec(shapes.ALL)
FULL = os.environ.get("GRAPHRT_FULL") == "1"
VALUES = 200_000 if FULL else 500
"""Values per run of the counted test."""

BERLIN = ZoneInfo("Europe/Berlin")
EXAMPLES = [
    None,
    True,
    0,
    -(2**63),
    2**64,
    10**4299,
    1 - 10**4299,
    1.0,
    -0.0,
    0.1,
    5e-324,
    1.7976931348623157e308,
    1e16,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "a\nb\x00\x7f\u2028\U0001f600",
    [],
    [[], {}],
    {},
    {"": 0, "b": 1, "a": 2},
    (),
    (1, (2,)),
    {1, "1", (1,)},
    frozenset({1.5, None}),
    {1: "a", "1": "b", (1,): "c"},
    {True: 1},
    {"$t": "tuple", "v": [1]},
    {"$t": {"$t": {"$t": 1}}},
    b"",
    b"\x00\xff",
    bytearray(b"ab"),
    complex(-0.0, math.inf),
    dt.datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - naive on purpose
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5, seconds=1), "X")),
    dt.time(1, 2, 3, 4, fold=1),
    dt.time(1, 2, tzinfo=BERLIN),
    pydantic.TypeAdapter(list[dt.datetime]).validate_python(["2024-01-01T00:00:00Z", "2024-01-01T00:00:00-05:30"]),
    pydantic.TypeAdapter(dt.time).validate_python("01:02:00+02:00"),
    dt.date.max,
    dt.timedelta.min,
    Decimal("-0"),
    Decimal("1.10E+400"),
    Decimal("sNaN12"),
    Decimal("-Infinity"),
    Fraction(-1, 3),
    uuid.UUID(int=5),
    uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe),
    uuid.UUID(int=5, is_safe=uuid.SafeUUID.unsafe),
    pathlib.PurePosixPath("/a/../b"),
    pathlib.PureWindowsPath("c:\\a"),
    pathlib.Path("a"),
    range(5, -5, -2),
    deque([1], 3),
    deque(),
    OrderedDict(b=1, a=(2,)),
    ipaddress.ip_address("10.0.0.1"),
    ipaddress.ip_address("fe80::1%eth0"),
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_interface("fe80::1/10"),
    DELETE,
    UNSET,
    Overwrite((1,)),
    Send("node", {"a": (1,)}),
    shapes.Color.RED,
    shapes.Color.CRIMSON,
    shapes.Level.LOW,
    shapes.Rights.READ,
    shapes.Rights.READ | shapes.Rights.RUN,
    shapes.Rights(0),
    shapes.Note("a", {"x"}),
    shapes.Point((1,), b"x"),
    shapes.Pair(1),
    shapes.Model(x=shapes.Point(1)),
    shapes.Model(x=1, y=5),
    shapes.Open.model_validate({"z": (1,), "a": 1}),
    shapes.Open.model_validate({"$t": "tuple", "v": 1}),
    shapes.Picky(text="a"),
    shapes.Box[int](value=1),
    shapes.Numbers([1, (2,)]),
    UserMessage(text="hi", id="1"),
    SystemMessage(text="be brief"),
    AssistantMessage(text="so", tool_calls=(ToolCall(id="1", name="look", arguments_text='{"at": [1]}'),)),
    ToolMessage(tool_call_id="1", text="off", error=True),
    ToolCall(id="1", name="look", arguments_text="{"),
    Usage(input_tokens=1, cost_usd=0.5),
    AgentReply(text="x", usage=Usage(calls=1), output=(1,), messages=(UserMessage(text="hi"),)),
    pydantic.HttpUrl("https://example.org/a?b=ü#c"),
    pydantic.AnyUrl("urn:a"),
    pydantic.PostgresDsn("postgres://ann:x@one:1,two:2/db"),
    pydantic.NameEmail("Ann", "ann@example.org"),
    pydantic.ByteSize(1024),
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_value_is_restored_with_its_type(value: Any) -> None:
    data = CODEC.dump(value)

    assert same(CODEC.load(data), value)
    assert b"\n" not in data
    data.decode()


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_nested_value_is_restored(value: Any) -> None:
    nested = {"a": [(value, {"$t": value})], "b": [value]}

    assert same(CODEC.load(CODEC.dump(nested)), nested)


@pytest.mark.slow
def test_random_values_are_restored_exactly(record_property: Callable[[str, object], None]) -> None:
    """200,000 values with GRAPHRT_FULL=1, else 500; every one of them has to be storable."""
    sizes: list[int] = []
    kinds: set[type] = set()

    @settings(
        max_examples=VALUES // 20 + VALUES // 100,  # Hypothesis truncates some
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not FULL,
        phases=[Phase.generate],
    )
    @given(st.lists(values(), min_size=20, max_size=20))
    def check(many: list[Any]) -> None:
        if len(sizes) >= VALUES:
            return
        for value in many:
            data = CODEC.dump(value)
            again = CODEC.load(data)
            assert same(again, value), (value, again)
            assert CODEC.dump(again) == data
            sizes.append(len(data))
            kinds.add(type(value))

    check()

    record_property("values", f"{len(sizes)} values, {sum(sizes)} bytes, {len(kinds)} types")
    assert len(sizes) >= VALUES
    assert len(kinds) > 20


@given(st.text(), st.lists(st.text(st.characters(), max_size=5), max_size=5))
def test_text_is_restored_or_refused(text: str, many: list[str]) -> None:
    """Lone surrogates are the only text that is refused."""
    for value in (text, many, {text: many}):
        try:
            data = CODEC.dump(value)
        except NotStorable:
            assert any("\ud800" <= c <= "\udfff" for c in text + "".join(many))
        else:
            assert CODEC.load(data) == value


@pytest.mark.slow
@given(values(4), st.lists(st.sampled_from(TAGS), min_size=3, max_size=3))
@example(1, ["blob", "blob", "blob"])
def test_dicts_that_look_like_the_form_are_restored_as_dicts(value: Any, tags: list[str]) -> None:
    for tag in tags:
        value = {"$t": tag, "v": value}

    assert same(CODEC.load(CODEC.dump(value)), value)


def test_models_are_restored_without_their_validators() -> None:
    model = shapes.Picky(text="a")
    assert model.size == 2  # the cached property is recomputed, not stored

    again = CODEC.load(CODEC.dump(model))

    assert again.text == "a!"
    assert again.size == 2


def test_model_keeps_private_attributes_and_its_set_fields() -> None:
    model = shapes.Open.model_validate({"more": 1})
    model._seen = (1,)

    again = CODEC.load(CODEC.dump(model))

    assert (again._seen, again.model_fields_set, again.model_extra) == ((1,), {"more"}, {"more": 1})
    assert again == model
    with pytest.raises(AttributeError):
        _ = again._late


def test_restored_model_is_usable() -> None:
    for model in (shapes.Model(x=1), shapes.Open(x=1), shapes.Numbers([1]), shapes.Box[int](value=1)):
        again = CODEC.load(CODEC.dump(model))

        assert again.model_copy(deep=True) == model
        assert again.model_dump_json() == model.model_dump_json()
        assert repr(again) == repr(model)


def test_data_is_not_shared_with_the_value() -> None:
    inner = [1]
    value = {"a": inner, "b": (inner,)}

    CODEC.dump(value)

    assert value == {"a": [1], "b": ([1],)}
    assert value["a"] is inner


SCRIPT = """
import hashlib
from graphrt._codec import Codec
print(hashlib.sha256(Codec().dump([{str(i) for i in range(50)}, frozenset({("a", 1), "b", None, 2.5})])).hexdigest())
"""


@pytest.mark.slow
def test_sets_give_the_same_bytes_for_any_hash_seed() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(found) == 1


def test_plain_values_stay_plain_json() -> None:
    assert CODEC.dump({"a": [1, 2.0, None, True, "é"]}) == '{"a":[1,2.0,null,true,"é"]}'.encode()
    assert CODEC.dump((1,)) == b'{"$t":"tuple","v":[1]}'
