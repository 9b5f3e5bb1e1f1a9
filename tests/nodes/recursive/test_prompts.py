"""A reader's prompt is bounded, and has the newest turns in full and a line for each older call."""

from __future__ import annotations

from typing import Any

from graphrt.harness import AssistantMessage, ModelRequest, ToolMessage
from graphrt.nodes import RecursiveLimits
from graphrt.nodes._recursive.desk import reading_tools
from graphrt.nodes._recursive.limits import size_of_prompt
from graphrt.nodes._recursive.prompts import Situation, Turn, reader_prompt

from .support import book, call, graph_of, head_of

TOOLS = [one.spec for one in reading_tools(sandbox=True)]
LIMITS = RecursiveLimits(prompt_chars=20_000)


def turn(number: int, size: int = 1_500, arguments: int = 0) -> Turn:
    made = call("search", query=f"word {number}", more="x" * arguments)
    results = [ToolMessage(tool_call_id=made.id, text=f"result {number} " + "y" * size)]
    return Turn(said=AssistantMessage(tool_calls=(made,)), results=results)


def prompt_of(turns: list[Turn], **changed: Any) -> list[Any]:
    given: dict[str, Any] = {
        "question": "Why?",
        "start": 0,
        "end": 10**9,
        "documents": 3,
        "notes": ["- a note"],
        "turns": turns,
        "derived": {"m1": 40},
        "left": 7,
        "reads_deeper": False,
        "last": False,
        **changed,
    }
    prompt = reader_prompt(Situation(**given), TOOLS, LIMITS, "")
    assert size_of_prompt(prompt, TOOLS) <= LIMITS.prompt_chars
    return prompt


def test_newest_turns_are_shown_in_full_and_older_ones_as_a_line() -> None:
    prompt = prompt_of([turn(number) for number in range(12)])
    shown = [one.text.split(" y")[0] for one in prompt if one.role == "tool"]

    assert shown == [f"result {number}" for number in range(12 - len(shown), 12)]
    assert 2 <= len(shown) < 10
    head = prompt[1].text
    assert f'search {{"query": "word {11 - len(shown)}"' in head
    assert "- a note" in head
    assert "m1 (40 characters)" in head


def test_lines_of_the_oldest_calls_are_dropped_when_there_are_too_many() -> None:
    head = prompt_of([turn(number) for number in range(60)])[1].text

    assert "older ones are not shown" in head
    assert '"word 0"' not in head


def test_results_of_the_newest_turn_are_cut_to_the_remaining_room() -> None:
    prompt = prompt_of([turn(1), turn(2, size=30_000)])

    assert [one.role for one in prompt] == ["system", "user", "assistant", "tool"]
    assert prompt[-1].text.startswith("result 2 yyy")
    assert "[cut: " in prompt[-1].text


def test_turn_whose_calls_alone_are_too_long_is_shown_as_a_line() -> None:
    prompt = prompt_of([turn(1, arguments=30_000)])

    assert [one.role for one in prompt] == ["system", "user"]
    assert "word 1" in prompt[1].text


def test_last_prompt_announces_that_it_is_the_last() -> None:
    assert "Answer now" in prompt_of([turn(1)], last=True)[-1].text


def test_long_loop_never_exceeds_the_bound() -> None:
    """With any number of turns, results and notes."""

    def reader(request: ModelRequest) -> Any:
        number = len(sizes)
        sizes.append(size_of_prompt(request.messages, request.tools))
        if number == 59:
            return "done"
        return (
            call("note", text=f"{number}: " + "é\n" * 40) if number % 3 else call("search", query="kind", start=number)
        )

    sizes: list[int] = []
    graph, model, _ = graph_of(reader, limits=RecursiveLimits(turns=60, prompt_chars=20_000))

    assert graph.run({"book": book(50_000).text}).state.answer == "done"
    assert len(sizes) == 60
    assert max(sizes) <= 20_000
    assert "Not kept: the notes would have" in " ".join(one.text for one in model.calls[-1].messages) + head_of(
        model.calls[-1]
    )
