"""Regular expressions find what `re` finds, in time linear in the text."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphrt.nodes import LongText
from graphrt.nodes._recursive import patterns
from graphrt.nodes._recursive.pattern_syntax import PatternError
from graphrt.nodes._recursive.patterns import LONGEST_MATCH, Pattern, TooMuchWorkError


def found(pattern: str, text: str, start: int = 0, end: int | None = None, *, ignore_case: bool = False) -> list[str]:
    held = LongText.of(text)
    stop = held.length if end is None else end
    spans = Pattern(pattern, ignore_case=ignore_case).spans(lambda at: held.windows(at, stop), held.read, stop, start)
    return [held.read(span.start, span.end) for span in spans]


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        (r"ID-\d+", "x ID-12 y ID-7\nID-", ["ID-12", "ID-7"]),
        ("^foo$", "foo\nfoo\r\nafoo\nfoo", ["foo", "foo", "foo"]),
        ("a.*b", "a b ab\nb", ["a b ab"]),
        ("[^a-c]+", "abcdef\nabx", ["def", "x"]),
        ("[]a]+", "]a b", ["]a"]),
        (r"[\d.]+", "v1.2 x", ["1.2"]),
        ("a{2,3}", "aaaaa a aa", ["aaa", "aa", "aa"]),
        ("(?:ab|c)+?d", "ababcd", ["ababcd"]),
        (r"\(\$\d\)", "($5)", ["($5)"]),
        (r"\w+\s\w+", "one two\nthree", ["one two"]),
        (r"\D\W\S", "a b c", ["a b"]),
        (r"x\t?y", "x\ty xy", ["x\ty", "xy"]),
    ],
)
def test_a_pattern_finds(pattern: str, text: str, wanted: list[str]) -> None:
    assert found(pattern, text) == wanted


def test_a_pattern_ignores_case_if_asked() -> None:
    assert found("straße|FOO", "foo Straße", ignore_case=True) == ["foo", "Straße"]


def test_a_search_stays_in_its_range_whose_ends_count_as_line_ends() -> None:
    assert found("^b+$", "abbba", 1, 4) == ["bbb"]
    assert found("b", "abbba", 2, 3) == ["b"]


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a\\n]", "c"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["+", "*", "?", "{1,2}"])).map(lambda two: f"(?:{two[0]}){two[1]}"),
    ),
    max_leaves=6,
)


@given(
    begin=st.sampled_from(["", "^"]),
    middle=PATTERNS,
    end=st.sampled_from(["", "$"]),
    text=st.text("abc\n", max_size=14),
)
def test_a_pattern_matches_where_re_does(begin: str, middle: str, end: str, text: str) -> None:
    pattern = f"{begin}{middle}{end}"
    assume(re.fullmatch(middle, "") is None)
    mine = found(pattern, text)

    assert bool(mine) == (re.search(pattern, text, re.MULTILINE) is not None)
    assert all(re.fullmatch(pattern, one) for one in mine)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*)*x", "(a?){30}a{30}b"])
def test_a_pattern_that_makes_re_hang_ends(pattern: str) -> None:
    began = time.perf_counter()

    assert found(pattern, "a" * 50_000) == []
    assert time.perf_counter() - began < 20  # `re` would need longer than the age of the universe


def test_a_pattern_with_too_many_states_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_MOST_WORK", 10_000)
    text = "".join(random.Random(1).choices("ab", k=5_000))

    with pytest.raises(TooMuchWorkError):
        found("(a|b)*a(a|b){60}c", text)


def test_a_match_is_reported_by_its_last_characters_if_it_is_too_long() -> None:
    (one,) = found("a+b", "a" * 5_000 + "b")

    assert one == "a" * (LONGEST_MATCH - 1) + "b"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "a*",
        "(a",
        "a)",
        "[a",
        "[z-a]",
        "*a",
        r"\bword\b",
        r"(a)\1",
        "(?=a)",
        "a{3,1}",
        "a{",
        "a{9999}",
        "a" * 201,
        "(" * 30 + "a" + ")" * 30,
        "a\nb",
        "\\",
    ],
)
def test_a_pattern_that_is_not_supported_says_so(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)
