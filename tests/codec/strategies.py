"""Values of every kind that the codec writes, for Hypothesis."""

from __future__ import annotations

import datetime as dt
import ipaddress
import pathlib
from collections import OrderedDict, deque
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st
from tests.codec import shapes

from graphrt import DELETE, UNSET, Overwrite, Send
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AssistantMessage,
    ProviderPart,
    SystemMessage,
    ThinkingBlock,
    ToolCall,
    ToolMessage,
    UserMessage,
)

ZONES = [ZoneInfo(key) for key in ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC")]
TAGS = [
    "graphrt:UserMessage",
    "graphrt:Usage",
    "tuple",
    "set",
    "dict",
    "blob",
    "marker",
    "Point",
    "Model",
    "bytes",
    "nothing",
    "float",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.one_of(TEXT, st.sampled_from(["$t", "v", "set", "extra", "fold", "a"]))

offsets = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))
zones = st.one_of(
    st.none(),
    st.sampled_from(ZONES),
    st.builds(dt.timezone, offsets),
    st.builds(dt.timezone, offsets, TEXT),
    st.just(dt.UTC),
)


def says_all(path: pathlib.PurePath) -> bool:
    """Whether the text of *path* is the whole path: not for some beginnings of network shares, which are refused."""
    return type(path)(str(path)).parts == path.parts


def with_fold(value: Any, fold: int) -> Any:
    return value.replace(fold=fold)


def note(text: str, tags: set[str], made: int | None) -> shapes.Note:
    made_note = shapes.Note(text, tags)
    if made is not None:
        made_note.made = made
    return made_note


hashable_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**62, max_value=2**70),
    st.floats(),
    TEXT,
    st.binary(max_size=20),
    st.complex_numbers(allow_nan=False),
    st.builds(with_fold, st.datetimes(timezones=zones, allow_imaginary=True), st.integers(0, 1)),
    st.builds(with_fold, st.times(timezones=zones), st.integers(0, 1)),
    st.dates(),
    st.timedeltas(),
    st.decimals().filter(lambda d: not d.is_snan()),
    st.fractions(),
    st.uuids(allow_nil=True),
    st.builds(pathlib.PurePosixPath, st.text("ab/.", max_size=6)),
    st.builds(pathlib.PureWindowsPath, st.text("ab\\.", max_size=6)).filter(says_all),
    st.builds(pathlib.Path, st.text("ab/.", max_size=6)),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
    st.ip_addresses(),
    st.sampled_from(
        [
            ipaddress.ip_network("10.0.0.0/8"),
            ipaddress.ip_network("fe80::/10"),
            ipaddress.ip_interface("10.0.0.1/8"),
            ipaddress.ip_interface("fe80::1/10"),
        ]
    ),
    st.sampled_from([*shapes.Color, *shapes.Level]),
    st.builds(shapes.Rights, st.integers(0, 7)),
    st.sampled_from([DELETE, UNSET]),
)
USAGES = st.builds(Usage, input_tokens=st.integers(0), cost_usd=st.none() | st.floats(0, 9))
leaves = st.one_of(
    hashable_leaves,
    st.builds(SystemMessage, text=TEXT),
    st.builds(UserMessage, text=TEXT, id=st.none() | TEXT),
    st.builds(ToolMessage, tool_call_id=TEXT, text=TEXT, error=st.booleans()),
    USAGES,
    st.builds(bytearray, st.binary(max_size=20)),
    st.sampled_from([Decimal("sNaN"), Decimal("-NaN12")]),
    st.builds(note, TEXT, st.sets(TEXT, max_size=3), st.none() | st.integers()),
    st.builds(shapes.Picky, text=TEXT),
    st.builds(shapes.Box[int], value=st.integers()),
)


def hashables() -> st.SearchStrategy[Any]:
    return st.recursive(
        hashable_leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner),
            st.frozensets(inner, max_size=3),
            st.builds(shapes.Pair, inner, inner),
            st.builds(shapes.Point, inner),
        ),
        max_leaves=3,
    )


def seen(model: shapes.Open, late: Any) -> shapes.Open:
    model._late = late
    return model


def said(text: str, value: Any) -> AssistantMessage:
    made = ToolCall(id=text, name="look", arguments={}, arguments_text="{")  # damaged, as models may write it
    object.__setattr__(made, "arguments", {"x": value})  # text that is not JSON is valid here
    calls = (made, ToolCall(id="2", name="look", arguments={"n": 1}))
    thinking = (ThinkingBlock(text=text, signature="s"), ThinkingBlock(provider="openai", id=text, data={text: [1]}))
    parts = (ProviderPart(provider="openai", type=text, data={"a": text}),)
    return AssistantMessage(text=text, tool_calls=calls, thinking=thinking, provider_parts=parts)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    names = st.from_regex(r"[a-z]{2,6}", fullmatch=True).filter(lambda name: name not in ("x", "y"))
    return st.one_of(
        lists,
        st.dictionaries(KEYS, inner, max_size=4),
        lists.map(tuple),
        st.dictionaries(hashables(), inner, max_size=3),
        st.sets(hashables(), max_size=4),
        st.frozensets(hashables(), max_size=4),
        st.builds(OrderedDict, st.lists(st.tuples(TEXT, inner), max_size=3)),
        st.builds(deque, lists, st.none() | st.integers(0, 5)),
        st.builds(shapes.Point, inner, inner),
        st.builds(shapes.Pair, inner, inner),
        st.builds(shapes.Model, x=inner),
        st.builds(shapes.Model, x=inner, y=inner),
        st.builds(shapes.Numbers, lists),
        st.dictionaries(names, inner, max_size=2).map(shapes.Open.model_validate),
        st.builds(seen, st.builds(shapes.Open, x=inner), inner),
        st.builds(Overwrite, inner),
        st.builds(Send, TEXT, inner),
        st.builds(said, TEXT, inner),
        st.builds(AgentReply, text=TEXT, usage=st.none() | USAGES, output=inner),
        forged(inner),
    )


def forged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Dicts that look like the codec's own form."""
    return st.one_of(
        st.fixed_dictionaries({"$t": st.sampled_from(TAGS), "v": inner}),
        st.fixed_dictionaries({"$t": inner, "v": st.fixed_dictionaries({"$t": st.sampled_from(TAGS), "v": inner})}),
    )


def values(max_leaves: int = 8) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, containers, max_leaves=max_leaves)
