"""Which ids a thread may have, and the errors about others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt.errors import InputError
from graphrt.stores.ids import check_id

RULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]{0,199}", re.ASCII)


@given(st.text(max_size=220) | st.text("abcXYZ019_.:@+=- \n\x00", max_size=220))
def test_check_id_accepts_exactly_the_ids_of_the_rule(text):
    if RULE.fullmatch(text):
        assert check_id(text) is text
        return
    with pytest.raises(InputError) as caught:
        check_id(text)
    assert caught.value.code == "bad-thread"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "must not be empty"),
        (None, "not NoneType"),
        (b"t", "not bytes"),
        (7, "not int"),
        ("x" * 201, "has 201 characters, 1 too many"),
        ("-a", "begins with '-'"),
        ("a/b", "has '/' as character 2"),
        ("ab\n", "has '\\n' as character 3"),
        ("a\x00", "has '\\x00' as character 2"),
        ("caf\u00e9", "has '\\xe9' as character 4"),
    ],
)
def test_check_id_names_the_problem(value, said):
    with pytest.raises(InputError) as caught:
        check_id(value)

    assert said in str(caught.value)
    assert "A-Z a-z 0-9" in caught.value.known
    assert caught.value.fix


def test_check_id_repeats_at_most_eighty_characters():
    with pytest.raises(InputError) as caught:
        check_id("y" * 5_000)

    assert str(caught.value).count("y") < 90


def test_check_id_refuses_a_subclass_of_str():
    """Such a value could change between two reads."""

    class Loud(str):
        __slots__ = ()

    with pytest.raises(InputError, match="not Loud"):
        check_id(Loud("t"))
