"""The description of a tool from its docstring, with griffe and without it."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from graphrt.harness.tools.function import tool


class Filter(BaseModel):
    name: str


GOOGLE = """Search the shop.

Slow on Sundays.

Note:
    Prices are in
    crowns.

Args:
    query: What to look for,
        in plain words.
    filters: Only these.
    stranger: Is no parameter.

Returns:
    What was found.
"""
NUMPY = """Search the shop.

Parameters
----------
query : str
    What to look for.
"""
SPHINX = """Search the shop.

:param query: What to look for.
"""


def search(query: str, filters: Filter | None = None, most: Annotated[int, Field(description="mine")] = 3) -> None: ...


def described(docstring: str | None) -> tuple[str, dict[str, str]]:
    search.__doc__ = docstring
    spec = tool(search).spec
    told = {name: schema.get("description", "") for name, schema in spec.parameters["properties"].items()}
    return spec.description, told


@pytest.mark.needs("griffe")
def test_sections_of_a_docstring_describe_the_parameters(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert described(GOOGLE) == (
            "Search the shop.\n\nSlow on Sundays.\n\nNote: Prices are in crowns.",
            {"query": "What to look for, in plain words.", "filters": "Only these.", "most": "mine"},
        )
    assert caplog.records == []


@pytest.mark.needs("griffe")
@pytest.mark.parametrize("docstring", [NUMPY, SPHINX], ids=["numpy", "sphinx"])
def test_other_styles_are_also_parsed(docstring: str) -> None:
    description, told = described(docstring)

    assert description == "Search the shop."
    assert told["query"] == "What to look for."


@pytest.mark.needs("griffe")
def test_description_of_a_field_wins_over_the_docstring() -> None:
    assert described("Search.\n\nArgs:\n    most: theirs\n")[1]["most"] == "mine"


def test_first_paragraph_is_the_description_without_griffe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)

    assert described(GOOGLE) == ("Search the shop.", {"query": "", "filters": "", "most": "mine"})


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, "Search.\n\n:param query: What.\n"])
def test_unread_parameter_descriptions_give_one_warning(
    text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)

    made = tool(search_with(text))
    assert [made.spec, made.spec]

    assert [record.name for record in caplog.records] == ["graphrt.harness"]
    assert "graphrt[tools]" in caplog.text


def test_docstring_without_parameters_gives_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "griffe", None)

    assert tool(search_with("Search the shop.\n\nThe Args are many.")).spec

    assert caplog.records == []


def search_with(text: str) -> Any:
    def lookup(query: str) -> str:
        return query

    lookup.__doc__ = text
    return lookup


def test_missing_docstring_is_not_a_description() -> None:
    assert described(None)[0] == ""
    assert described("   ")[0] == ""


def test_explicit_description_wins() -> None:
    search.__doc__ = GOOGLE
    assert tool(description="Mine.")(search).spec.description == "Mine."
    assert tool(description="")(search).spec.description == ""
