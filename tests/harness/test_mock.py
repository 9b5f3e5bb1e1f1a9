from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from graphrt.errors import InputError, ScriptError, TransientModelError
from graphrt.events import Usage
from graphrt.harness import (
    AgentReply,
    AgentRequest,
    AssistantMessage,
    MockHarness,
    StreamItem,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    ToolSpec,
    UserMessage,
    expect,
)

SEARCH = ToolSpec(name="search")
CALL = ToolCall(id="c1", name="search", arguments={"q": "cats"})


def ask(harness: MockHarness, *prompts: str) -> list[str]:
    async def go() -> list[str]:
        return [(await harness.run(prompt)).text for prompt in prompts]

    return asyncio.run(go())


async def read(harness: MockHarness, prompt: str, tools: list[ToolSpec]) -> list[StreamItem]:
    return [item async for item in harness.stream(prompt, tools=tools)]


# ------------------------------------------------------------------------------------------------- ordered script


def test_script_answers_in_order() -> None:
    with MockHarness(["one", AgentReply(text="two"), lambda request: request.text.upper()]) as harness:
        assert ask(harness, "a", "b", "c") == ["one", "two", "C"]


def test_call_after_the_end_of_the_script_raises_and_shows_expected_and_actual() -> None:
    harness = MockHarness(["one"])

    with pytest.raises(ScriptError) as caught:
        ask(harness, "a", "b")

    assert caught.value.code == "script-unexpected-call"
    assert caught.value.expected == "no more calls"
    assert caught.value.got == "b"
    assert "expected no more calls, but got a call with 'b'" in str(caught.value)


def test_script_never_starts_over() -> None:
    harness = MockHarness(["one"])
    ask(harness, "a")

    for _ in range(3):
        with pytest.raises(ScriptError):
            ask(harness, "a")


def test_expectation_that_does_not_match_raises_and_shows_expected_and_actual() -> None:
    harness = MockHarness([expect("sources", reply="x")])

    with pytest.raises(ScriptError) as caught:
        ask(harness, "write a poem")

    assert "'sources'" in str(caught.value)
    assert "'write a poem'" in str(caught.value)
    assert harness.remaining == 1


@pytest.mark.parametrize("make", [lambda: MockHarness({3: "x"}), lambda: expect(3, reply="x")])  # type: ignore[arg-type]
def test_pattern_of_a_wrong_type_is_refused(make: Any) -> None:
    with pytest.raises(InputError, match="A pattern of a script cannot be 3"):
        make()


def test_async_pattern_is_refused() -> None:
    """The coroutine that it returns would match every call."""

    async def pattern(_request: Any) -> bool:
        return False

    with pytest.raises(InputError, match=r"pattern\(request\) returned a coroutine"):
        ask(MockHarness([expect(pattern, reply="x")]), "a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pattern", ["sources on", re.compile(r"sources on \w+$"), lambda request: request.text.endswith("cats")]
)
def test_expectation_matches_by_part_search_or_function(pattern: object) -> None:
    with MockHarness([expect(pattern, reply="found")]) as harness:  # type: ignore[arg-type]
        assert ask(harness, "Find sources on cats") == ["found"]


def test_pattern_is_searched_in_the_last_message_only() -> None:
    harness = MockHarness([expect("42 results", reply="thanks")])
    called = AssistantMessage(tool_calls=(ToolCall(id="c1", name="search"),))
    conversation = [UserMessage(text="search"), called, ToolMessage(tool_call_id="c1", text="42 results")]

    reply = asyncio.run(harness.run(conversation))

    assert reply.text == "thanks"


def test_function_pattern_gets_the_whole_request() -> None:
    def is_brief(request: AgentRequest) -> bool:
        return request.system == "be brief" and request.temperature == 0

    harness = MockHarness([expect(is_brief, reply="ok")])

    assert asyncio.run(harness.run("hi", system="be brief", temperature=0)).text == "ok"


def test_scripted_exception_is_raised_to_the_caller() -> None:
    with MockHarness([TransientModelError("down"), ValueError, "up"]) as harness:
        with pytest.raises(TransientModelError, match="down"):
            ask(harness, "a")
        with pytest.raises(ValueError, match=r"^$"):
            ask(harness, "a")
        assert ask(harness, "a") == ["up"]


# ---------------------------------------------------------------------------------------------------------- rules


def test_rules_answer_in_any_order() -> None:
    with MockHarness({"cats": "meow", "dogs": "woof"}) as harness:
        assert ask(harness, "about dogs", "about cats", "about dogs") == ["woof", "meow", "woof"]


def test_rule_with_a_list_answers_as_often_as_the_list_is_long() -> None:
    harness = MockHarness({"cats": ["first", "second"]})

    assert ask(harness, "cats", "cats") == ["first", "second"]
    with pytest.raises(ScriptError, match="expected no more calls that match 'cats'"):
        ask(harness, "cats")


def test_call_without_a_matching_rule_raises_and_shows_the_rules() -> None:
    harness = MockHarness({"cats": "meow", re.compile("^dogs"): "woof"})

    with pytest.raises(ScriptError) as caught:
        ask(harness, "birds")

    assert "'cats'" in str(caught.value)
    assert "/^dogs/" in str(caught.value)
    assert "'birds'" in str(caught.value)


def test_first_matching_rule_wins() -> None:
    harness = MockHarness({"black cats": "luck", "cats": "meow"})

    assert ask(harness, "black cats", "cats") == ["luck", "meow"]


def test_call_that_matches_a_rule_does_not_advance_the_ordered_script() -> None:
    with MockHarness(["one", "two"], rules={"cats": "meow"}) as harness:
        assert ask(harness, "a", "cats", "b") == ["one", "meow", "two"]


# ------------------------------------------------------------------------------------------------- unused replies


def test_leaving_the_block_with_unused_replies_raises_and_names_them() -> None:
    with pytest.raises(ScriptError) as caught, MockHarness(["one", "two", expect("x", reply="three")]) as harness:
        ask(harness, "a")

    assert caught.value.code == "script-left-over"
    assert "item 2: reply 'two'" in str(caught.value)
    assert "item 3: expect 'x'" in str(caught.value)


def test_rule_that_never_matched_is_unused() -> None:
    harness = MockHarness({"cats": "meow", "dogs": ["woof", "wuff"]})
    ask(harness, "dogs")

    with pytest.raises(ScriptError) as caught:
        harness.assert_done()

    assert "rule 'cats': never matched" in str(caught.value)
    assert "rule 'dogs': reply 'wuff'" in str(caught.value)
    assert harness.remaining == 2


def test_mismatch_that_the_node_swallowed_is_reported_at_the_end() -> None:
    harness = MockHarness(["one"])
    ask(harness, "a")
    with pytest.raises(ScriptError):
        ask(harness, "swallowed")

    with pytest.raises(ScriptError, match="'swallowed'"):
        harness.assert_done()


def test_exception_that_leaves_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), MockHarness(["never used"]):
        raise ZeroDivisionError


# ---------------------------------------------------------------------------------------------- tools and records


@pytest.mark.parametrize("script", [3, None, [int], ["fine", None]])
def test_impossible_script_is_refused_where_it_is_written(script: Any) -> None:
    with pytest.raises(InputError):
        MockHarness(script)


def test_reply_with_a_tool_call_calls_the_tool() -> None:
    harness = MockHarness([CALL])

    reply = asyncio.run(harness.run("find cats", tools=[SEARCH]))

    assert reply.tool_calls == (CALL,)
    assert reply.finish_reason == "tool_calls"


def test_reply_with_a_tool_that_was_not_offered_raises() -> None:
    harness = MockHarness([CALL])

    with pytest.raises(ScriptError) as caught:
        asyncio.run(harness.run("find cats", tools=[ToolSpec(name="write")]))

    assert caught.value.code == "script-unknown-tool"
    assert "'search'" in str(caught.value)
    assert "'write'" in str(caught.value)


def test_every_call_is_recorded_including_unexpected_ones() -> None:
    harness = MockHarness(["one"])
    asyncio.run(harness.run("a", tools=[SEARCH], temperature=0.0))
    with pytest.raises(ScriptError):
        ask(harness, "b")

    assert [request.text for request in harness.calls] == ["a", "b"]
    assert harness.calls[0].tools == (SEARCH,)
    assert harness.calls[0].temperature == 0.0


def test_usage_counts_words_deterministically() -> None:
    harness = MockHarness(["three words here"])

    reply = asyncio.run(harness.run("find me cats", system="be brief"))

    assert reply.usage == Usage(input_tokens=5, output_tokens=3, calls=1)


def test_usage_can_be_set_for_one_reply_for_all_or_be_unknown() -> None:
    own, same = Usage(input_tokens=9, calls=1), Usage(output_tokens=7, calls=1)

    async def usages(harness: MockHarness) -> list[Usage | None]:
        return [(await harness.run("a")).usage for _ in range(2)]

    assert asyncio.run(usages(MockHarness([AgentReply(usage=own), "b"], usage=same))) == [own, same]
    assert asyncio.run(usages(MockHarness([AgentReply(usage=own), "b"], usage=None))) == [own, None]


def test_reply_names_the_called_model() -> None:
    harness = MockHarness(["a", "b", AgentReply(model="c")], model="fake")

    async def models() -> list[str | None]:
        return [(await harness.run("x", model=model)).model for model in (None, "big", "big")]

    assert asyncio.run(models()) == ["fake", "big", "c"]


def test_script_of_one_string_is_refused() -> None:
    with pytest.raises(InputError, match="list"):
        MockHarness("hello")


# ------------------------------------------------------------------------------------------- streams and many users


def test_stream_yields_the_text_in_deltas_and_the_whole_reply_last() -> None:
    harness = MockHarness(["one  two three "])

    *deltas, reply = asyncio.run(read(harness, "hi", []))

    assert isinstance(reply, AgentReply)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert len(deltas) > 2
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == reply.text == "one  two three "


def test_stream_yields_tool_calls_in_deltas() -> None:
    harness = MockHarness([AgentReply(tool_calls=(CALL, ToolCall(id="c2", name="search")))])

    *deltas, reply = asyncio.run(read(harness, "hi", [SEARCH]))

    pieces = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert isinstance(reply, AgentReply)
    for index, call in enumerate(reply.tool_calls):
        assert "".join(piece.arguments_text for piece in pieces if piece.index == index) == call.arguments_text
    assert [piece.id for piece in pieces if piece.id] == ["c1", "c2"]


def test_stream_follows_the_same_script() -> None:
    harness = MockHarness([expect("a", reply="one"), ValueError("broken")])
    asyncio.run(read(harness, "a", []))

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(read(harness, "b", []))
    with pytest.raises(ScriptError):
        asyncio.run(read(harness, "c", []))


def test_worker_threads_with_their_own_loops_share_one_script() -> None:
    script = [f"reply {n}" for n in range(200)]

    with MockHarness(script) as harness, ThreadPoolExecutor(8) as pool:
        texts = [text for some in pool.map(lambda _: ask(harness, *"abcde"), range(40)) for text in some]

    assert sorted(texts) == sorted(script)
    assert len(harness.calls) == 200


def test_run_needs_no_event_loop() -> None:
    """It never suspends, and a driver without a loop can drive it."""
    coroutine = MockHarness(["one"]).run("a")

    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)

    assert stopped.value.value.text == "one"
