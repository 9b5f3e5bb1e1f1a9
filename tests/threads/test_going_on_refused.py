"""Arguments that steps and stream refuse when they continue a thread, without changing it."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Runtime
from graphrt.errors import InputError, NodeError

from .support import Fails, ask, fan, line, note, refused
from .ways import ids


def asked(world: Any) -> Runtime[Any]:
    runtime: Runtime[Any] = world.runtime(fan(("a", ask("a", answer_type=int)), ("b", ask("b"))))
    runtime.run({"notes": []}, thread="t")
    return runtime


@pytest.mark.parametrize("verb", ["steps", "stream"])
@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((), {}, "Neither"),
        ((), {"thread": None}, "Neither"),
        ((), {"answer": 1}, "no thread"),
        ((), {"answers": {}}, "no thread"),
        (({},), {"answer": None}, "An input and answers"),
        (({},), {"thread": "t", "answers": {}}, "An input and answers"),
        ((None,), {"thread": "t", "answers": {"x": 1}}, "An input and answers"),
    ],
)
def test_input_and_answers_are_mutually_exclusive(world, way, verb, given, options, words):
    runtime = asked(world)
    before = list(runtime.entries("t"))
    call = getattr(way, verb)

    refused(
        "input-or-answers", lambda: call(runtime, *given, **options), words, "thread= and answers=", error=InputError
    )
    assert list(runtime.entries("t")) == before


@pytest.mark.parametrize("verb", ["steps", "stream"])
def test_steps_and_stream_refuse_the_same_as_resume(world, way, verb):
    runtime = asked(world)
    found, before = ids(runtime), list(runtime.entries("t"))
    call = getattr(way, verb)

    refused("unknown-interrupt", lambda: call(runtime, thread="t", answers={"t/9.0:a#0": 1}), found["a"], found["b"])
    refused("ambiguous-answer", lambda: call(runtime, thread="t", answer=1), "2 interrupts")
    refused("input", lambda: call(runtime, thread="t", answers=1, answer=1), "does not go with")
    refused("no-answer", lambda: call(runtime, thread="t", answers={}), found["a"])
    refused("bad-answer", lambda: call(runtime, thread="t", answers={found["a"]: "many"}), "int")
    refused("wrong-verb", lambda: call(runtime, thread="t"), "resume('t', answers)", "thread='t' with answers=")
    refused("wrong-verb", lambda: call(runtime, {"notes": []}, thread="t"), "thread='t' with answers=")
    refused("unknown-thread", lambda: call(runtime, thread="nobody"))
    refused("unknown-thread", lambda: call(runtime, thread="nobody", answer=1))
    refused("bad-thread", lambda: call(runtime, thread="../t"))
    assert list(runtime.entries("t")) == before
    assert runtime.resume("t", {found["a"]: 1, found["b"]: 2}).status == "completed"


def test_steps_and_stream_refuse_the_same_as_retry(world, way):
    fails = Fails()
    runtime = world.runtime(line(("a", fails)))
    with pytest.raises(NodeError):
        runtime.run({"notes": []}, thread="t")
    refused("wrong-verb", lambda: way.stream(runtime, thread="t", answer=1), "retry('t')", "thread='t' alone")
    fails.broken = False
    way.stream(runtime, thread="t")
    refused("wrong-verb", lambda: way.stream(runtime, thread="t"), "run(input", "an input with thread='t'")
    refused("wrong-verb", lambda: way.stream(runtime, thread="t", answer=1), "an input with thread='t'")


@pytest.mark.parametrize("options", [{}, {"answer": 1}])
def test_continuing_requires_a_store(way, options):
    runtime = Runtime(line(("a", note("a"))))
    refused("thread-without-store", lambda: way.stream(runtime, thread="t", **options))


def test_answer_that_cannot_be_stored_is_refused(durable, way):
    runtime = asked(durable)
    refused(
        "not-storable",
        lambda: way.steps(runtime, thread="t", answers={ids(runtime)["b"]: object()}),
        error=InputError,
    )
    assert runtime.state("t").status == "interrupted"
