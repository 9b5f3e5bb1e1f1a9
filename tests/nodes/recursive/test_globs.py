"""A glob matches within each line, in bounded time."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt.nodes import LongText
from graphrt.nodes._recursive import globs
from graphrt.nodes._recursive.globs import Glob, PatternError, blocks_of_lines


def matches(pattern: str, text: str, start: int = 0, end: int | None = None, *, ignore_case: bool = False) -> list[str]:
    held = LongText.of(text)
    glob = Glob(pattern, ignore_case=ignore_case)
    blocks = blocks_of_lines(held, start, held.length if end is None else end)
    return [text[at + first : at + last] for at, lines in blocks for first, last in glob.spans(lines)]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("ID-[0-9]", "x ID-1 y ID-7\nID-", ["ID-1", "ID-7"]),
        ("a*b", "a b ab\na\nb", ["a b", "ab"]),
        ("error: *", "x error: disk full\r\nok\nerror: ", ["error: disk full", "error: "]),
        ("*full", "one\ndisk full, full", ["disk full", ", full"]),
        ("*disk*", "a disk b\nc", ["a disk b"]),
        ("a?c", "abc a\nc a.c", ["abc", "a.c"]),
        ("[!a-c]x", "ax dx\nx", ["dx"]),
        ("[]^]1", "]1 ^1 a1", ["]1", "^1"]),
        ("[*]", "a*b", ["*"]),
        ("a[b", "a[b", ["a[b"]),
        ("a.+", "a.+ ab", ["a.+"]),
        ("a*b*c", "a c b\na b c", ["a b c"]),
    ],
)
def test_glob_matches_within_a_line(pattern: str, text: str, expected: list[str]) -> None:
    assert matches(pattern, text) == expected


def test_glob_ignores_case_if_asked() -> None:
    assert matches("straße*!", "Straße 1! STRAßE 2!", ignore_case=True) == ["Straße 1!", "STRAßE 2!"]


def test_search_stays_in_its_range() -> None:
    assert matches("*b*", "abbba", 1, 4) == ["bbb"]
    assert matches("b", "abbba", 2, 3) == ["b"]


@given(
    pattern=st.text("ab*?", min_size=1, max_size=6).filter(lambda text: text.strip("*")),
    lines=st.lists(st.text("abc", max_size=10), max_size=4),
)
def test_glob_matches_exactly_the_lines_that_contain_a_match(pattern: str, lines: list[str]) -> None:
    expected = [line for line in lines if fnmatch.fnmatchcase(line, f"*{pattern}*")]
    hits = [line for line in lines if matches(pattern, line)]

    assert hits == expected
    assert all(fnmatch.fnmatchcase(one, pattern) for one in matches(pattern, "\n".join(lines)))
    assert bool(matches(pattern, "\n".join(lines))) == bool(expected)


def test_match_is_found_across_the_border_of_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "_BLOCK", 8)

    assert matches("o*r", "one four\nfor\nfive or\n") == ["one four", "or", "or"]


def test_glob_whose_parts_occur_everywhere_terminates_quickly() -> None:
    began = time.perf_counter()

    assert matches("a*a*a*a*a*a*a*b", "a" * 1_000_000) == []
    assert time.perf_counter() - began < 20  # a matcher that tries every position for every star would take years


@pytest.mark.parametrize("pattern", ["*", "***", "[z-a]", "a\nb", "a" * 201])
def test_invalid_glob_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Glob(pattern)
