"""Exceptions survive a restart: exactly if they belong to Python or graphrt, else by name and text."""

from __future__ import annotations

import builtins
import copy
import pickle
from typing import Any

import pytest

from graphrt import errors
from graphrt._codec import Codec, RecordedError
from graphrt.errors import DefinitionError, GraphrtError, HarnessError, NodeError, Problem, RefusalError, StoreError
from graphrt.events import Usage

CODEC = Codec()


def again(error: BaseException) -> Any:
    return CODEC.load_error(CODEC.dump_error(error))


class CustomError(Exception):
    pass


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1, (2,)),
        KeyError("a"),
        Exception(),
        KeyboardInterrupt(),
        SystemExit(3),
        StopIteration(5),
        OSError(2, "no file", "x.txt"),
        FileNotFoundError(2, "no file", "a", None, "b"),
        TimeoutError("late"),
        ConnectionResetError(104, "reset"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ImportError("no", name="a", path="b"),
        NameError("no", name="a"),
        AttributeError("no", name="a"),
        SyntaxError("bad", ("f", 1, 2, "x", 1, 3)),
        UserWarning("w"),
    ],
    ids=repr,
)
def test_python_error_is_restored(error: BaseException) -> None:
    back = again(error)

    assert type(back) is type(error)
    assert (back.args, str(back), repr(back)) == (error.args, str(error), repr(error))
    for name in ("errno", "filename", "filename2", "name", "path", "code", "value"):
        assert getattr(back, name, None) == getattr(error, name, None)


def test_every_error_of_graphrt_is_restored_with_its_attributes() -> None:
    count = 0
    for name in errors.__all__:
        cls = getattr(errors, name)
        if not issubclass(cls, GraphrtError):
            continue
        count += 1
        error = cls("what", code="a-code", where="there", known="this", fix="so", node="n", values={"a": (1,)})
        back = again(error)
        assert type(back) is cls
        assert str(back) == str(error)
        assert vars(back) == vars(error)
        assert back.args == error.args
    assert count > 20


def test_billed_usage_of_a_failed_call_is_restored() -> None:
    error = RefusalError("no", billed=True, usage=Usage(input_tokens=1500, calls=1, cost_usd=0.5))

    for back in (again(error), copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (back.billed, back.usage) == (True, error.usage)
    assert (again(RefusalError("no")).billed, again(RefusalError("no")).usage) == (False, None)


def test_problems_of_a_definition_are_restored() -> None:
    error = DefinitionError("2 problems", [Problem(code="a", message="b", node="c"), Problem(code="d", message="e")])

    back = again(error)

    assert back.problems == error.problems
    assert str(back) == str(error)


def test_unstorable_attribute_is_dropped_and_reads_as_none() -> None:
    back = again(NodeError("failed", node="n", value=object()))

    assert (back.node, back.value) == ("n", None)


def test_other_errors_become_records() -> None:
    for error, name, message in (
        (CustomError("a", 1), "CustomError", "('a', 1)"),
        (CustomError(), "CustomError", ""),
        (ValueError(object), "ValueError", str(object)),
        (MuteError(), "MuteError", "<its text cannot be had: RuntimeError>"),
        (CustomError("\ud800"), "CustomError", "\\ud800"),
    ):
        back = again(error)
        assert type(back) is RecordedError
        assert (back.type_name, back.message) == (name, message)
        assert str(back) == (f"{name}: {message}" if message else name)


def test_record_is_restored_unchanged_and_survives_copies() -> None:
    record = RecordedError("CustomError", "a")

    for back in (again(record), copy.copy(record), pickle.loads(pickle.dumps(record))):
        assert type(back) is RecordedError
        assert (back.type_name, back.message, str(back)) == ("CustomError", "a", "CustomError: a")


def test_groups_are_restored_with_their_members() -> None:
    error = ExceptionGroup("two", [ValueError(1), ExceptionGroup("inner", [CustomError("a"), HarnessError("h")])])

    back = again(error)

    assert type(back) is ExceptionGroup
    assert back.message == "two"
    assert repr(back.exceptions[0]) == "ValueError(1)"
    assert [type(member) for member in back.exceptions[1].exceptions] == [RecordedError, HarnessError]
    assert type(again(BaseExceptionGroup("b", [KeyboardInterrupt()]))) is BaseExceptionGroup


def test_groups_nested_too_deeply_end_in_a_record() -> None:
    error: Exception = ValueError(1)
    for _ in range(2_000):
        error = ExceptionGroup("g", [error])

    back = again(error)
    for _ in range(30):
        back = back.exceptions[0]

    assert type(back) is RecordedError


def test_causes_and_notes_are_not_stored() -> None:
    error = ValueError("a")
    error.add_note("n")
    error.__cause__ = KeyError()

    back = again(error)

    assert back.__cause__ is None
    assert not hasattr(back, "__notes__")


def test_huge_message_is_truncated() -> None:
    back = again(CustomError("x" * 5_000_000))

    assert len(back.message) == 1_000_000


@pytest.mark.parametrize(
    "record",
    [
        1,
        {},
        {"kind": "python"},
        {"kind": "python", "name": "eval", "args": ("1",), "state": {}},
        {"kind": "python", "name": "RecordedError", "args": ("1",), "state": {}},
        {"kind": "other", "name": "ValueError", "args": ("1",), "state": {}},
        {"kind": "python", "name": "ValueError", "args": ["1"], "state": {}},
        {"kind": "python", "name": "UnicodeDecodeError", "args": ("1",), "state": {}},
        {"kind": "python", "name": "OSError", "args": (2, "x"), "state": {}},
        {"kind": "graphrt", "name": "Problem", "args": (), "state": {}},
        {"kind": "recorded", "name": 1, "message": "x"},
        {"kind": "group", "message": "x", "members": []},
        {"kind": "group", "message": "x", "members": [1]},
    ],
    ids=str,
)
def test_damaged_record_is_refused(record: Any) -> None:
    with pytest.raises(StoreError) as caught:
        CODEC.load_error(CODEC.dump(record))
    assert caught.value.code == "damaged-value"


def test_every_exception_of_python_with_a_text_can_be_dumped() -> None:
    for name in dir(builtins):
        cls = getattr(builtins, name)
        if (
            isinstance(cls, type)
            and issubclass(cls, Exception)
            and not issubclass(cls, (UnicodeError, BaseExceptionGroup))
        ):
            assert type(again(cls("a"))) is cls
