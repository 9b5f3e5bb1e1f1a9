"""Regular expressions require an extra; without it, the model learns which tools remain, and nothing else changes."""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any

import pytest
from tests.nodes.recursive.support import book, call, graph_of

from graphrt.nodes import LongText
from graphrt.nodes._recursive.desk import reading_tools
from graphrt.nodes._recursive.globs import PatternError, blocks_of_lines
from graphrt.nodes._recursive.regular_expressions import RegularExpression


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> list[str]:
    held = LongText.of(text)
    expression = RegularExpression(pattern, length=held.length, ignore_case=ignore_case)
    blocks = blocks_of_lines(held, 0, held.length)
    return [text[at + first : at + last] for at, lines in blocks for first, last in expression.spans(lines)]


@pytest.mark.needs("re2")
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"ID-\d+", "x ID-12 y ID-7\nID-", ["ID-12", "ID-7"]),
        ("^foo$", "foo\nfoo\r\nafoo\nfoo", ["foo", "foo", "foo"]),
        ("a[^b]+", "acd\nae", ["acd", "ae"]),
        (r"\w+\s\w+", "one two\nthree", ["one two"]),
        (r"\pL+é", "eé ß éé", ["eé", "éé"]),
    ],
)
def test_expression_matches_within_a_line(pattern: str, text: str, expected: list[str]) -> None:
    assert matches(pattern, text) == expected


@pytest.mark.needs("re2")
def test_expression_ignores_case_if_asked() -> None:
    assert matches("straße|FOO", "foo Straße", ignore_case=True) == ["foo", "Straße"]


@pytest.mark.needs("re2")
@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)*xb", "(a?){30}a{30}b", "(a|b)*a(a|b){60}c"])
def test_expression_that_makes_re_hang_terminates(pattern: str) -> None:
    began = time.perf_counter()

    assert matches(pattern, "a" * 50_000) == []
    assert time.perf_counter() - began < 20  # `re` would need longer than the age of the universe


@pytest.mark.needs("re2")
@pytest.mark.parametrize("pattern", ["a*", "(a", "(?=a)", r"(a)\1", "a{9999}", "a" * 201, "a\nb"])
def test_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError) as caught:
        RegularExpression(pattern, length=1_000)

    assert "(?m)" not in str(caught.value)


@pytest.mark.needs("re2")
def test_expression_that_is_too_large_for_the_text_names_a_searchable_range() -> None:
    with pytest.raises(PatternError, match="it is too large for 10000000 characters: search ") as caught:
        RegularExpression(r"\pL+ \pL+", length=10_000_000)

    RegularExpression(r"\pL+ \pL+", length=int(str(caught.value).split()[-4]))


@pytest.mark.parametrize("module", [None, ModuleType("re2")])
def test_model_is_informed_of_the_missing_extra(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """None: nothing is installed. A module without `Options` is another package, which may fall back to `re`."""
    monkeypatch.setitem(sys.modules, "re2", module)
    results: list[str] = []

    def reader(request: Any) -> Any:
        if request.messages[-1].role == "tool":
            results.append(request.messages[-1].text)
            return "done"
        return call("search", query="kind=(refund|fee)", syntax="regex")

    graph, _, _ = graph_of(reader)
    assert graph.run({"book": book(5_000).text}).state.answer == "done"
    assert "regular expressions are not available here" in results[0]
    assert "'literal'" in results[0]
    assert "'glob'" in results[0]


def test_tools_and_graph_are_the_same_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that started with the extra continues without it: no prompt and no fingerprint depends on the machine."""
    with_extra = [one.spec for one in reading_tools(sandbox=False)], graph_of(lambda _: "")[0].fingerprint
    monkeypatch.setitem(sys.modules, "re2", None)

    assert ([one.spec for one in reading_tools(sandbox=False)], graph_of(lambda _: "")[0].fingerprint) == with_extra
