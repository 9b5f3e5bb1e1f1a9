"""A reply is one class, whatever the type of its output, which only type checkers see."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, replace

import pytest

from graphrt.harness import AgentReply


@dataclass(frozen=True)
class Point:
    x: int


def test_reply_of_a_type_is_a_reply_like_any_other():
    typed = AgentReply[Point](text="x", output=Point(1))

    assert type(typed) is AgentReply
    assert typed == AgentReply(text="x", output=Point(1))
    assert hash(typed) == hash(AgentReply(text="x", output=Point(1)))
    assert repr(typed) == repr(AgentReply(text="x", output=Point(1)))
    assert not hasattr(typed, "__dict__")


@pytest.mark.parametrize("reply", [AgentReply(text="x"), AgentReply[Point](output=Point(1))], ids=["plain", "typed"])
def test_reply_survives_copies(reply):
    for copied in (pickle.loads(pickle.dumps(reply)), copy.deepcopy(reply), copy.copy(reply), replace(reply)):
        assert copied == reply
        assert type(copied) is AgentReply


@pytest.mark.parametrize("name", ["text", "output", "something", "__orig_class__"])
def test_a_reply_is_frozen(name):
    reply = AgentReply(text="x")

    with pytest.raises(FrozenInstanceError):
        setattr(reply, name, 1)
    assert reply == AgentReply(text="x")
