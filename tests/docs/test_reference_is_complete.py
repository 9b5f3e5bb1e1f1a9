"""The reference names every public name, and its tables match the code exactly."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any, get_args

import pytest

import graphrt
from graphrt import CompiledGraph, Context, GraphBuilder, Limits, RunResult, Runtime, Snapshot, Step, errors, events
from graphrt._engine.open_interrupt import KINDS
from graphrt.graph.policies import GraphPolicy
from graphrt.migrations import Migration
from graphrt.runtime import MODES, Compatibility, Divergence, InterruptInfo, InterruptKind, ThreadInfo
from graphrt.stores import Status, Store

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \|", re.MULTILINE)
NEEDS = {"graphrt.backends.dbos": "dbos", "graphrt.compat.langgraph": "langgraph"}
"""Modules that cannot be imported without a package."""
NOT_FOR_USERS = {"done", "suspended"}
"""Attributes of a Context that belong to its driver."""


def section(heading: str) -> str:
    """The text below *heading*, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"the reference has no section {heading!r}"
    return found[1]


@functools.cache  # the whole reference is searched for each public name
def words(text: str) -> frozenset[str]:
    """All identifiers inside `code`."""
    return frozenset(word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code))


def rows(heading: str) -> list[str]:
    """The identifiers that head the rows of a section's tables, in order."""
    heads = [head for head in ROW.findall(section(heading)) if "`" in head]
    return [re.split(r"\W", code)[0] for head in heads for code in re.findall(r"`([^`]+)`", head)]


def public_modules() -> list[str]:
    found = pkgutil.walk_packages(graphrt.__path__, "graphrt.", onerror=lambda _: None)  # some require an extra
    return ["graphrt", *(m.name for m in found if not any(part.startswith("_") for part in m.name.split(".")))]


def members(cls: type[Any]) -> set[str]:
    """Public names of the class and of its graphrt base classes."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("graphrt.")]
    found = {name for base in ours for name in {*vars(base), *getattr(base, "__slots__", ())}}
    return {name for name in found if not name.startswith("_")} - NOT_FOR_USERS


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in public_modules()],
)
def test_reference_names_every_public_name(name: str) -> None:
    exported = getattr(importlib.import_module(name), "__all__", ())

    assert [item for item in exported if item not in words(TEXT)] == []


@pytest.mark.parametrize(
    ("heading", "cls"),
    [
        ("`GraphBuilder[State, Update]`", GraphBuilder),
        ("`CompiledGraph[State, Update]`", CompiledGraph),
        ("`Context[Deps]`", Context),
        ("`Runtime[State]`", Runtime),
        ("`RunResult[State]`", RunResult),
        ("`Step[State]`", Step),
        ("`Snapshot[State]`", Snapshot),
        ("`InterruptInfo`", InterruptInfo),
        ("`ThreadInfo`", ThreadInfo),
        ("`Divergence`", Divergence),
        ("`Compatibility`", Compatibility),
        ("`graphrt.migrations`", Migration),
        ("The store protocol", Store),
    ],
)
def test_reference_lists_every_member(heading: str, cls: type[Any]) -> None:
    assert members(cls) - words(section(heading)) == set()


def test_methods_of_the_runtime_are_grouped_alike_in_code_docstring_and_reference() -> None:
    groups = dict(re.findall(r"^    \| ([a-z ]+) \| (`.*) \|$", Runtime.__doc__ or "", re.MULTILINE))
    named = [re.findall(r"\w+", methods) for methods in groups.values()]
    tables = re.split(r"^\*(\w[\w ]+)\*: ", section("`Runtime[State]`"), flags=re.MULTILINE)
    listed = {title.lower(): rows for title, rows in zip(tables[1::2], tables[2::2], strict=True)}

    methods = [name for group in named for name in group]
    assert [name for name in vars(Runtime) if name in {*methods}] == methods
    for title, group in zip(groups, named, strict=True):
        assert list(dict.fromkeys(re.findall(r"^\| `(\w+)\(", listed[title], re.MULTILINE))) == group


def test_reference_lists_exactly_the_members_of_the_context() -> None:
    assert sorted(rows("`Context[Deps]`")) == sorted(members(Context))


def test_reference_lists_exactly_the_policy_arguments() -> None:
    assert sorted(rows("Policy arguments")) == sorted(GraphPolicy.__annotations__)


def test_reference_lists_exactly_the_limits_and_their_defaults() -> None:
    table = {row[1]: row[2] for row in re.finditer(r"^\| `(\w+)` \| `?([\d,]+|None)", section("Limits"), re.MULTILINE)}
    known = {name: f"{value:,.12g}" if value is not None else "None" for name, value in Limits().to_dict().items()}

    assert table == known


def test_reference_lists_exactly_the_stream_modes() -> None:
    assert sorted(rows("Stream modes")) == sorted(MODES)


def test_reference_lists_exactly_the_kinds_of_questions() -> None:
    row = re.search(r"^\| `kind` \|.+$", section("`InterruptInfo`"), re.MULTILINE)

    assert row
    assert sorted(re.findall(r'`"(\w+)"`', row[0])) == sorted(get_args(InterruptKind)) == sorted(KINDS)


def test_reference_lists_exactly_the_statuses() -> None:
    assert sorted(rows("Status")) == sorted(get_args(Status))


def test_reference_lists_exactly_the_events_and_their_fields() -> None:
    listed = {
        row[1]: re.findall(r"\w+", row[2])
        for row in re.finditer(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \|", section("Events"), re.MULTILINE)
    }

    assert listed == {event.__name__: [f.name for f in dataclasses.fields(event)] for event in get_args(events.Event)}


def test_reference_lists_exactly_the_errors_and_their_codes() -> None:
    pattern = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `([a-z-]+)` \|", re.MULTILINE)
    listed = {(row[1], row[2], row[3]) for row in pattern.finditer(section("`graphrt.errors`"))}
    found = [getattr(errors, name) for name in errors.__all__]
    kinds = [cls for cls in found if issubclass(cls, BaseException)]

    assert listed == {(cls.__name__, cls.__mro__[1].__name__, cls.default_code) for cls in kinds}
