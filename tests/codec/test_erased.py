"""`Erased()` is a singleton, and is stored as the replacement of an erased line."""

from __future__ import annotations

import copy
import pickle

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from graphrt import Erased
from graphrt._codec import Codec
from graphrt._journal.body import ERASED_LINE
from graphrt._plan.fields import own

GONE = Erased()


class Open(BaseModel):
    name: str | Erased
    notes: list[str | Erased]


def test_there_is_one_erased_value() -> None:
    for same in (Erased(), copy.copy(GONE), copy.deepcopy([GONE])[0], pickle.loads(pickle.dumps(GONE)), own([GONE])[0]):
        assert same is GONE
    assert not GONE
    assert repr(GONE) == "Erased()"
    assert {GONE, Erased()} == {GONE}


def test_codec_writes_the_line_of_an_erased_value() -> None:
    codec = Codec()
    for value in (GONE, [GONE, 1], {"a": GONE}, {GONE}, (GONE,)):
        assert codec.load(codec.dump(value)) == value
    assert codec.dump(GONE) == ERASED_LINE


def test_types_that_include_it_allow_it_and_others_do_not() -> None:
    assert Open(name=GONE, notes=["a", GONE]).notes[1] is GONE
    assert Open(name=GONE, notes=[]).model_dump_json() == '{"name":"Erased()","notes":[]}'
    assert TypeAdapter(str | Erased).json_schema()["anyOf"][1] == {"const": "Erased()", "type": "string"}
    with pytest.raises(ValidationError):
        TypeAdapter(list[str]).validate_python([GONE])
    with pytest.raises(ValidationError):
        TypeAdapter(Erased).validate_python("Erased()")
