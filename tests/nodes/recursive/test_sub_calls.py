"""Pieces of a range, and the combination of the answers about them."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt.nodes import LongText
from graphrt.nodes._recursive.limits import size_of
from graphrt.nodes._recursive.sub_calls import Finding, Plan, as_text, combined, cut_into_pieces, findings_of


def plan_of(answers: list[str], combine: str, failed: tuple[int, ...] = ()) -> tuple[Plan, list[Finding]]:
    plan = Plan(
        name="m1",
        question="?",
        of="text",
        combine=combine,
        bounds=list(range(0, 10 * len(answers) + 10, 10)),
        reader=False,
    )
    found = [Finding(plan="k", at=at, text=text, failed=at in failed) for at, text in enumerate(answers)]
    return plan, found


def result_of(answers: list[str], combine: str, failed: tuple[int, ...] = ()) -> list[str]:
    return combined(*plan_of(answers, combine, failed)).split("\n")


@pytest.mark.parametrize(
    ("combine", "answers", "wanted"),
    [
        ("sum", ["1", "NONE", "2.50", "1,000", "-3", ""], "sum = 1000.50"),
        ("sum", ["-$5", "\u22125", "$-5", "-US$5", "- 5", "It is -\u20ac1,000.50.", "minus 5"], "sum = -1020.50"),
        ("min", ["\u20135", "+3", "$4", "Total:2", "5%"], "min = -5"),
        ("sum", ["NONE"], "sum = 0"),
        ("sum", ["0.1"] * 10, "sum = 1.0"),
        ("sum", ["99999999999999999999", "1"], "sum = 100000000000000000000"),
        ("min", ["3", "-1 EUR"], "min = -1"),
        ("max", ["about 3.", "12"], "max = 12"),
        ("max", ["none."], "max = NONE"),
        ("count", ["yes", "none", "no"], "count = 2"),
    ],
)
def test_numbers_are_combined_exactly(combine: str, answers: list[str], wanted: str) -> None:
    assert result_of(answers, combine)[0] == wanted


@pytest.mark.parametrize(
    "answer", ["3.5 million", "$2 thousand", "35 Millionen", "1,234k", "3.5e6", "3-4", "1/2", "12:30", "1,50", "item-5"]
)
def test_answer_is_not_cut_to_a_number_that_it_does_not_mean(answer: str) -> None:
    assert result_of(["5", answer], "sum")[0] == "sum = 5"


def test_answer_that_is_not_one_number_is_skipped_and_named() -> None:
    told = result_of(["5", "between 3 and 4", "v2", "7"], "sum")

    assert told[0] == "sum = 12"
    assert told[-1] == "Not exactly one number, and left out: [10, 20), [20, 30). First: between 3 and 4"


def test_answers_are_listed_with_their_ranges_and_unique_lines_once() -> None:
    assert result_of(["a", "NONE", "b"], "list")[2:] == ["[0, 10) a", "[20, 30) b"]
    assert result_of(["a\nb", "NONE", "b\n c"], "unique")[2:] == ["a", "b", "c"]


def test_failed_pieces_are_named_and_do_not_count() -> None:
    told = result_of(["1", "lost", "2"], "sum", failed=(1,))

    assert told[0] == "sum = 3"
    assert told[2:] == ["3 pieces: 2 answers, 0 NONE, 1 failed.", "Failed: [10, 20). First: lost"]
    many = result_of(["lost"] * 9, "list", failed=tuple(range(9)))
    assert "[40, 50) and 4 more. First: lost" in many[2]


def test_single_answer_is_the_result() -> None:
    assert result_of(["an answer"], "answer") == ["an answer"]
    assert result_of(["lost"], "answer", failed=(0,)) == ["The sub-call failed: lost"]


def test_findings_are_sorted_by_their_pieces() -> None:
    plan, found = plan_of(["a", "b", "c"], "list")
    random.Random(2).shuffle(found)
    found.append(Finding(plan="other", at=0, text="x", failed=False))

    assert as_text(plan, findings_of("k", found)) == "[0, 10) a\n[10, 20) b\n[20, 30) c"


@given(
    text=st.text(alphabet="ab \né\x01", max_size=200),
    size=st.integers(1, 40),
    separator=st.sampled_from(["", "\n", " ", "ab"]),
)
def test_pieces_cover_the_range_and_fit_their_size(text: str, size: int, separator: str) -> None:
    bounds = cut_into_pieces(LongText.of(text), 0, len(text), size=size, separator=separator, max_pieces=10_000)
    assert bounds is not None
    pieces = [text[one:other] for one, other in itertools.pairwise(bounds)]

    assert "".join(pieces) == text
    assert all(pieces)
    assert all(size_of(piece) <= size or len(piece) == 1 for piece in pieces)
    for piece in pieces[:-1]:  # cut elsewhere only where there was no separator
        assert not separator or piece.endswith(separator) or separator not in piece


def test_more_pieces_than_allowed_are_refused() -> None:
    text = LongText.of("abcdef")

    assert cut_into_pieces(text, 0, 6, size=2, separator="", max_pieces=3) == [0, 2, 4, 6]
    assert cut_into_pieces(text, 0, 6, size=2, separator="", max_pieces=2) is None
