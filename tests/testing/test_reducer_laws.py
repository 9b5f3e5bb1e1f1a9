"""`check_reducer`: broken reducers are found with a small example, and correct ones pass."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

import pytest
from hypothesis import strategies as st

from graphrt import InputError, reducers
from graphrt.errors import MissingExtraError
from graphrt.reducers import add, append, merge, union
from graphrt.testing import check_reducer

LISTS = st.lists(st.integers(), max_size=3)
EXAMPLES: dict[str, Any] = {} if os.environ.get("GRAPHRT_FULL") == "1" else {"max_examples": 40}
"""Examples of each law; broken reducers are found with fewer, as the tests below show."""


@pytest.mark.slow
def test_built_in_reducers_satisfy_their_laws():
    counts = st.dictionaries(st.text("ab", max_size=2), st.integers())
    check_reducer(append, LISTS, identity=[], batch=lambda a, b: [*a, *b], **EXAMPLES)
    check_reducer(union, st.lists(st.integers(), unique=True, max_size=3), identity=[], associative=True, **EXAMPLES)
    check_reducer(add, st.integers(), identity=0, associative=True, commutative=True, **EXAMPLES)
    check_reducer(reducers.max, st.integers(), associative=True, commutative=True, **EXAMPLES)
    check_reducer(merge, counts, identity={}, associative=True, **EXAMPLES)


COUNT = itertools.count()


def changes_current(current: list[int], incoming: list[int]) -> list[int]:
    current.extend(incoming)
    return current


def changes_incoming(current: list[int], incoming: list[int]) -> list[int]:
    incoming.reverse()
    return [*current, *incoming]


def remembers(current: int, incoming: int) -> int:
    return current + incoming + next(COUNT)


def subtracts(current: int, incoming: int) -> int:
    return current - incoming


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reducer", "values", "claims", "told"),
    [
        (changes_current, LISTS, {}, r"changes_current breaks the law of purity: it changes its current value"),
        (changes_incoming, LISTS, {}, r"purity: it changes its incoming value"),
        (remembers, st.integers(), {}, r"the same arguments give different results"),
        (subtracts, st.integers(), {"associative": True}, r"associativity: one way gives .*\n  arguments: 0, 0, 1"),
        (append, LISTS, {"commutative": True}, r"append breaks the law of commutativity"),
        (add, st.integers(), {"identity": 1}, r"identity: add\(1, x\) is not x.*\n  arguments: 0"),
        (append, LISTS, {"batch": lambda a, b: b}, r"batching"),
        (lambda a, b: (*a, *b), LISTS, {"identity": []}, r"identity"),
    ],
)
def test_broken_laws_are_found_with_a_small_example(reducer: Any, values: Any, claims: Any, told: str):
    with pytest.raises(AssertionError, match=f"(?s){told}"):
        check_reducer(reducer, values, **claims)


def test_values_are_drawn_from_a_strategy():
    with pytest.raises(InputError, match="a Hypothesis strategy"):
        check_reducer(add, [1, 2])
    with pytest.raises(InputError, match="current"):
        check_reducer(add, st.integers(), current=1)


def test_missing_hypothesis_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingExtraError, match=r"graphrt\[testing\]"):
        check_reducer(add, st.integers())
