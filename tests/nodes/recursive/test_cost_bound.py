"""The announced cost bound holds for every run, whatever the models do."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from graphrt import InputError
from graphrt.events import Usage
from graphrt.harness import AgentReply, FunctionModel, ModelRequest, ToolCall
from graphrt.nodes import RecursiveLimits
from graphrt.nodes._recursive.limits import clipped, size_of, size_of_prompt

from .support import graph_of

TEXT = "".join(random.Random(3).choices('abcdefg \n\n\té漢𝄞\x01"\\', k=30_000))
ODD = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def greedy(chance: random.Random, request: ModelRequest) -> Any:
    """A model that calls tools at random, with good and bad arguments and long texts, and hardly ever answers."""
    if chance.random() < 0.03:
        return "an answer"
    wide = chance.choice([3, 40, 400, 1_900, 8_000])
    words = "".join(chance.choices('ab \n"\\é漢\x02', k=wide))
    at, other = sorted((chance.randrange(-10, 32_000), chance.randrange(0, 32_000)))
    span = {"start": at, "end": other} if chance.random() < 0.7 else {}
    of = chance.choice(["text", "text", "text", "m1", "m2"])
    made = [
        ("length", {}),
        ("read", {"start": at, "of": of}),
        (
            "search",
            {
                "query": chance.choice(["a", "bc", words[:50], "[a-c]+x?"]),
                "syntax": chance.choice(["literal", "glob", "regex"]),
                **span,
            },
        ),
        ("split", {"size": chance.choice([10, 500, 2_000]), **span}),
        ("note", {"text": words, "replace": chance.random() < 0.5}),
        (
            "map",
            {"question": words, "combine": chance.choice(["list", "sum", "unique", "max", "count"]), "of": of, **span},
        ),
        ("map", {"question": "How many?", "size": chance.choice([300, 1_000, 2_000]), **span}),
        ("ask", {"question": words, **span}),
        ("ask", {"question": "Why?", "start": 0, "end": 20_000}),
        ("nonsense", {"x": words}),
        ("map", {"question": 3}),
    ]
    several = chance.choices(made, k=chance.choice([1, 1, 2, 5, 9]))
    said = words if chance.random() < 0.3 else ""
    tool_calls = tuple(ToolCall(id="same", name=name, arguments=given) for name, given in several)
    return AgentReply(text=said, tool_calls=tool_calls)


def costly(seed: int, answer: Any) -> FunctionModel:
    """A model at its limits: every byte of its prompt is a token, and its answer is as long as allowed.

    Its reply depends on the request alone: the order of calls does not matter.
    """

    def reply(request: ModelRequest) -> AgentReply:
        digest = sha256(to_json([seed, request.messages], fallback=repr)).digest()
        made = answer(random.Random(digest), request)
        read = size_of_prompt(request.messages, request.tools)
        used = Usage(input_tokens=read, output_tokens=request.max_tokens or 0, calls=1)
        given = made if isinstance(made, AgentReply) else AgentReply(text=made)
        return AgentReply(text=given.text, tool_calls=given.tool_calls, usage=used)

    return FunctionModel(reply)


def terse(chance: random.Random, request: ModelRequest) -> str:
    return chance.choice(["NONE", "7", "seven", "x" * 5_000, "é\x01\n" * 800, str(len(request.text))])


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    depth=st.integers(0, 2),
    calls=st.integers(2, 60),
    turns=st.integers(1, 7),
    reader_calls=st.integers(2, 20),
)
def test_cost_bound_holds_for_every_run(seed: int, depth: int, calls: int, turns: int, reader_calls: int) -> None:
    limits = RecursiveLimits(
        depth=depth,
        calls=calls,
        turns=turns,
        reader_calls=reader_calls,
        prompt_chars=22_000,
        piece_chars=2_000,
        result_chars=1_500,
        notes_chars=2_000,
    )
    graph, reader, piece = graph_of(costly(seed, greedy), costly(seed, terse), limits=limits)
    bound = limits.bound()

    result = graph.run({"book": TEXT})

    assert (result.state.answer != "") != (result.state.error != "")
    assert result.state.error in (
        "",
        "reading-without-answer",
    )  # planning keeps within the budget: the budget never refuses a call
    for request in reader.calls:
        assert size_of_prompt(request.messages, request.tools) <= bound.prompt_tokens
    for request in piece.calls:
        assert size_of_prompt(request.messages, request.tools) <= bound.piece_tokens
    assert result.usage is not None
    assert result.usage.calls == len(reader.calls) + len(piece.calls) <= bound.calls
    assert result.usage.total_tokens <= bound.tokens


def test_cost_bound_is_data_and_decreases_with_smaller_limits() -> None:
    default, small = RecursiveLimits().bound(), RecursiveLimits(calls=10, depth=0, tokens=50_000).bound()

    assert default.calls == 1_000
    assert default.tokens == 1_000 * (40_000 + 2_000)
    assert (small.calls, small.tokens, small.depth) == (10, 50_000, 0)
    flat = RecursiveLimits(depth=0, calls=100, turns=10).bound()
    assert flat.tokens == 10 * 42_000 + 90 * (flat.piece_tokens + 500)


@pytest.mark.parametrize(
    "wrong", [{"turns": 0}, {"calls": 1}, {"depth": -1}, {"tokens": 0}, {"turns": True}, {"calls": 9.5}]
)
def test_values_that_are_not_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        RecursiveLimits(**wrong)

    assert caught.value.code == "bad-limit"


@given(text=st.one_of(ODD, ODD.map(lambda part: part * 50)), room=st.integers(0, 300))
def test_clipped_text_fits_its_limit(text: str, room: int) -> None:
    cut = clipped(text, room)

    assert size_of(cut) <= room
    assert cut == text or size_of(text) > room or len(text) > room
