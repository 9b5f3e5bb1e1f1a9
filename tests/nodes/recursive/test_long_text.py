"""A LongText reads any range of its source, of every kind."""

from __future__ import annotations

import copy
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import InputError
from graphrt.nodes import LongText
from graphrt.nodes._recursive import long_text

TEXTS = st.text(alphabet=st.sampled_from("ab \néß漢𝄞"), max_size=60)


def file_of(text: str, folder: Path) -> LongText:
    path = folder / "text"
    path.write_text(text, encoding="utf-8", newline="")
    return LongText.of(path)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows and blocks of a few characters: every border is tested."""
    monkeypatch.setattr(long_text, "_WINDOW", 5)


@given(text=TEXTS, start=st.integers(-5, 70), end=st.integers(-5, 70))
def test_range_equals_a_slice(text: str, start: int, end: int) -> None:
    wanted = text[max(0, start) : max(0, end)]

    assert LongText.of(text).read(start, end) == wanted
    assert LongText.of(text.split("\n")).read(start, end) == wanted
    assert LongText.of(io.BytesIO(text.encode())).read(start, end) == wanted


@pytest.mark.usefixtures("narrow")
def test_file_is_read_across_its_blocks(tmp_path: Path) -> None:
    text = "aé漢𝄞b\n" * 7
    found = file_of(text, tmp_path)

    assert found.length == len(text)
    assert all(found.read(a, b) == text[a:b] for a in range(len(text)) for b in range(a, len(text) + 1))


@pytest.mark.usefixtures("narrow")
def test_bytes_that_are_not_utf_8_are_read_as_replacement_characters() -> None:
    data = b"abc\xff\x80\x80\x80\x80\x80def" * 3
    text = LongText.of(io.BytesIO(data))

    assert text.read(0, text.length).startswith("abc�")
    assert "".join(text.read(at, at + 1) for at in range(text.length)) == text.read(0, text.length)


@pytest.mark.usefixtures("narrow")
@given(text=TEXTS, literal=st.text(alphabet="ab é\n", min_size=1, max_size=7))
def test_literal_is_found_at_the_position_of_str_find(text: str, literal: str) -> None:
    wanted, at = [], text.find(literal)
    while at >= 0:
        wanted.append(at)
        at = text.find(literal, at + len(literal))

    assert list(LongText.of(text).find(literal, 0, len(text))) == wanted


def test_case_insensitive_literal_is_found_at_the_right_offset() -> None:
    """The lower case of İ has two characters, which must not shift later offsets."""
    text = LongText.of("İİ Straße STRASSE straße")

    assert list(text.find("STRAßE", 0, text.length, ignore_case=True)) == [3, 18]
    assert list(text.find("strasse", 4, text.length, ignore_case=True)) == [10]


def test_lone_surrogate_is_read_as_a_replacement_character() -> None:
    assert LongText.of("a\ud800é").read(0, 3) == "a\ufffdé"


def test_documents_are_separated_by_a_line_break_and_have_names() -> None:
    text = LongText.of({"one": "ab", "empty": "", "two": "cd"})

    assert text.read(0, text.length) == "ab\n\ncd"
    assert list(text.documents) == [("one", 0), ("empty", 3), ("two", 4)]
    assert LongText.of([]).length == 0


def test_file_is_mapped_and_indexed_once_until_it_changes(tmp_path: Path) -> None:
    first = file_of("one", tmp_path)

    assert LongText.of(tmp_path / "text") is first
    assert file_of("another", tmp_path) is not first
    assert file_of("", tmp_path).length == 0


def test_repr_of_a_long_text_has_its_length_and_ends() -> None:
    middle = "x" * 20_000

    assert LongText.of("a" + middle).mark != LongText.of("b" + middle).mark
    assert LongText.of("a" + middle).mark == LongText.of(["a" + middle]).mark


def test_copies_of_a_container_share_its_text() -> None:
    text = LongText.of("abc")

    assert LongText.of(text) is text
    assert copy.copy([text])[0] is text


@pytest.mark.parametrize("given", [42, None, b"bytes", ["a", 1], {"a": 2}])
def test_value_that_is_not_a_string_is_refused(given: object) -> None:
    with pytest.raises(InputError) as caught:
        LongText.of(given)

    assert caught.value.code == "not-a-long-text"
