"""What `recursive` offers a model, what it refuses, and how it handles failures."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from graphrt import START, Budget, GraphBuilder, InputError, LimitError, Runtime
from graphrt.errors import AuthenticationError, NodeError, TransientModelError
from graphrt.harness import FunctionModel, ModelRequest
from graphrt.nodes import LongText, RecursiveLimits, recursive

from .support import State, book, call, calls, clerk, graph_of, head_of, librarian

BOOK = book(60_000)
SMALL = RecursiveLimits(piece_chars=4_000, turns=6, prompt_chars=20_000, result_chars=1_500, notes_chars=1_000)


class Script:
    """Replies of readers in order; records the results of the last tool calls that each saw."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.shown: list[str] = []

    def __call__(self, request: ModelRequest) -> Any:
        self.shown.append("\n".join(one.text for one in request.messages if one.role == "tool"))
        return self.replies.pop(0) if self.replies else "done"


def shown_by(*replies: Any, text: Any = None, piece: Any = clerk, **options: Any) -> list[str]:
    """Results of tools, as each turn of a reader saw them."""
    script = Script(*replies)
    graph, _, _ = graph_of(script, piece, **{"limits": SMALL, **options})
    state = graph.run({"book": BOOK.text if text is None else text}).state
    assert state.answer == "done", state.error
    return script.shown


def test_length_of_the_text_and_its_documents_are_reported() -> None:
    assert shown_by(call("length"), text="abc")[1] == "[0, 3): 3 characters."
    told = shown_by(call("length"), text={"one": "ab", "two": "cd"})[1]
    assert "2 documents" in told
    assert "two: 3" in told


def test_range_is_read_and_cut_to_its_limit() -> None:
    assert shown_by(call("read", start=0, end=6))[1] == BOOK.text[:6]
    cut = shown_by(call("read", start=0))[1]
    assert cut.startswith(BOOK.text[:1_000])
    at = int(re.search(r"\n\[cut here: read on from (\d+)\]$", cut)[1])  # type: ignore[index]
    assert cut.partition("\n[cut here")[0] == BOOK.text[:at]
    assert SMALL.result_chars - 100 < len(cut) <= SMALL.result_chars


def test_search_reports_the_number_and_positions_of_matches() -> None:
    told = shown_by(call("search", query="kind=refund"))[1]
    number = BOOK.text.count("kind=refund")

    assert told.startswith(f"{number} matches in [0, {len(BOOK.text)}).")
    first = BOOK.text.index("kind=refund")
    assert f"[{first}, {first + 11})" in told
    assert "are shown. For more, search from start=" in told


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (call("search", query="***", syntax="glob"), "The pattern cannot be used"),
        (call("search", query=""), "Give a query"),
        (call("read", start=9_999_999), "is not a range in [0,"),
        (call("read", start=-1), "is not a range in [0,"),
        (call("read", start=0, of="m7"), "There is no text 'm7'"),
        (call("split", size=0), "A piece has 1 to 4000 characters"),
        (call("map", question="q?", size=9_999_999), "A piece has 1 to 4000 characters"),
        (call("map", question="x" * 3_000), "A question has 1 to 2000 characters"),
        (call("map", question="q?", start=5, end=5), "The range is empty"),
        (call("map", question="q?", size=10), "needs more sub-calls than the"),
        (call("note", text="x" * 1_100), "Not kept"),
        (call("read"), "start"),
        (call("shell", command="ls"), "There is no tool 'shell'"),
        (call("run_code", code="1"), "There is no tool 'run_code'"),
        (call("ask", question="Who?", of="m7"), "There is no text 'm7'"),
    ],
)
def test_impossible_call_is_explained_to_the_model(asked: Any, told: str) -> None:
    assert told in shown_by(asked)[1]


def test_pieces_end_at_separators() -> None:
    told = shown_by(call("split", size=1_000, end=3_000))[1]
    ends = [int(end) for end in re.findall(r", (\d+)\)", told)]

    assert told.startswith(f"{len(ends)} pieces")
    assert all(BOOK.text[end - 1] == "\n" for end in ends[:-1])
    assert ends[-1] == 3_000


def test_answers_of_a_map_are_a_text_that_can_be_read_searched_and_mapped() -> None:
    def piece(request: ModelRequest) -> str:
        if "of the answers 'm1'" in request.text:
            return f"saw {request.text.count(') memo')}"
        return "memo" if "memo:" in request.text else "NONE"

    shown = shown_by(
        call("map", question="Is there a memo?"),
        call("read", start=0, of="m1"),
        call("search", query="memo", of="m1"),
        call("map", question="How many memos?", of="m1"),
        piece=piece,
    )

    assert "3 answers" in shown[1]
    assert "All answers are the text 'm1'" in shown[1]
    assert shown[2].endswith(re.findall(r"\[\d+, \d+\) memo", shown[1])[-1])
    assert "3 matches" in shown[3]
    assert "saw 3" in shown[4]


def test_a_question_about_a_short_range_is_one_call_with_its_text() -> None:
    seen: list[str] = []

    def piece(request: ModelRequest) -> str:
        seen.append(request.text)
        return "It is a record."

    assert "It is a record." in shown_by(call("ask", question="What is it?", start=0, end=50), piece=piece)[1]
    assert seen == [f"Question: What is it?\n\nCharacters 0 to 50 of the text:\n{BOOK.text[:50]}"]


def test_a_question_about_a_long_range_is_answered_by_a_reader_below() -> None:
    def reader(request: ModelRequest) -> Any:
        if "Question: Which codes" in head_of(request):
            found = re.findall(r"vault is (\w+)", request.messages[-1].text)
            return ", ".join(found) if found else call("search", query="code word")
        if request.messages[-1].role == "tool":
            return request.messages[-1].text
        return call("ask", question="Which codes are there?", start=0, end=45_000)

    graph, model, piece = graph_of(reader, limits=SMALL)

    assert graph.run({"book": BOOK.text}).state.answer == "heron, otter"
    assert piece.calls == []
    below = [request for request in model.calls if "Question: Which codes" in head_of(request)]
    assert "The text is the range [0, 45000), 45000 characters." in head_of(below[0])


def test_reader_that_asks_itself_endlessly_ends_in_a_typed_error() -> None:
    """It is refused at once; a reader that insists runs out of turns, at every depth."""

    def same(request: ModelRequest) -> Any:
        return call("ask", question=re.search("Question: (.*)", head_of(request))[1])  # type: ignore[index]

    graph, model, _ = graph_of(same, limits=SMALL)
    assert graph.run({"book": BOOK.text}).state.error == "reading-without-answer"
    assert len(model.calls) == SMALL.turns
    assert "This is the question that you are answering" in model.calls[1].messages[-1].text
    assert [request.tool_choice for request in model.calls] == ["auto"] * (SMALL.turns - 1) + ["none"]


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_readers_that_call_readers_endlessly_are_bounded_in_depth_and_calls(depth: int) -> None:
    limits = RecursiveLimits(
        piece_chars=4_000, turns=4, prompt_chars=20_000, result_chars=1_500, depth=depth, reader_calls=20, calls=100
    )

    def other(request: ModelRequest) -> Any:
        start, end = map(int, re.search(r"range \[(\d+), (\d+)\)", head_of(request)).groups())  # type: ignore[union-attr]
        return call("ask", question=f"And {len(request.messages)}?", start=start, end=end)

    graph, model, _ = graph_of(other, limits=limits)
    result = graph.run({"book": BOOK.text})

    assert result.state.error == "reading-without-answer"
    assert len(model.calls) <= 100
    readers = {re.search("Question: (.*)", head_of(request))[1] for request in model.calls}  # type: ignore[index]
    assert len(readers) == (1 if depth == 0 else len(readers))
    told = " ".join(one.text for request in model.calls for one in request.messages)
    assert ("did not answer within turns=4" in told) == (depth > 0)
    assert "Here ask takes at most 4000 characters" in told


def test_error_of_a_reader_without_an_answer_can_be_routed_or_caught() -> None:
    node = recursive(
        State, "q", context="book", into="answer", model=FunctionModel(lambda _: call("length")), limits=SMALL
    )
    g: GraphBuilder[State, Any] = GraphBuilder(State).add_node("ask", node).add_edge(START, "ask")

    with pytest.raises(LimitError) as caught:
        g.compile().run({"book": "text"})
    assert caught.value.code == "reading-without-answer"


def test_failed_sub_call_is_reported_and_the_others_count() -> None:
    def piece(request: ModelRequest) -> str:
        if "otter" in request.text:
            raise TransientModelError("the line is down", retry_after_s=1_000)
        return "1"

    told = shown_by(call("map", question="How many?", combine="sum"), piece=piece)[1]
    number = int(re.search(r"(\d+) pieces", told)[1])  # type: ignore[index]

    assert told.startswith(f"sum = {number - 1}\n")
    assert "1 failed." in told
    assert "TransientModelError: the line is down" in told


def test_failure_outside_the_model_fails_the_run_and_retry_repeats_only_that_call() -> None:
    broken = [True]

    async def piece(request: ModelRequest) -> str:
        if "otter" in request.text and broken:
            broken.clear()
            raise AuthenticationError("the key has expired")
        return "1"

    node = recursive(
        State,
        "q",
        context="book",
        into="answer",
        model=FunctionModel(lambda request: last_line(request) or call("map", question="How many?", combine="sum")),
        piece_model=(model := FunctionModel(piece)),
        limits=SMALL,
    )
    graph = GraphBuilder(State).add_node("ask", node).add_edge(START, "ask").compile()
    with Runtime(graph, store="memory:") as runtime:
        with pytest.raises(NodeError):
            runtime.run({"book": BOOK.text}, thread="t")
        result = runtime.retry("t")

    texts = [request.text for request in model.calls]
    assert result.state.answer == f"sum = {len(set(texts))}"
    assert sorted(texts.count(text) for text in set(texts))[-2:] == [1, 2]


def last_line(request: ModelRequest) -> str:
    return request.text.partition("\n")[0] if request.messages[-1].role == "tool" else ""


def test_budget_that_is_too_small_stops_the_reading() -> None:
    limits = RecursiveLimits(piece_chars=4_000, prompt_chars=20_000, tokens=14_000)
    graph, reader, _ = graph_of(librarian, clerk, limits=limits)
    result = graph.run({"book": BOOK.text})

    assert result.state.error == "budget-exceeded"
    assert result.usage is not None
    assert result.usage.total_tokens <= 14_000
    assert len(reader.calls) == 3


def test_budget_of_the_run_applies_inside() -> None:
    graph, _, _ = graph_of(librarian, clerk, limits=SMALL)

    assert graph.run({"book": BOOK.text}, budget=Budget(calls=5)).state.error == "budget-exceeded"


def test_sub_calls_are_shown_live() -> None:
    graph, _, piece = graph_of(librarian, clerk, limits=SMALL)
    items = list(graph.stream({"book": BOOK.text}, modes="live"))

    started = [item.task_id for item in items if item.node == "piece" and item.what == "started"]
    ended = [item for item in items if item.node == "piece" and item.what == "ended"]
    assert len(set(started)) == len(ended) == len(piece.calls)
    assert all(item.path == "1.0:ask/1.0:read" for item in ended)
    assert not any(BOOK.text[:200] in str(item.value) for item in items)


def test_recorded_run_can_be_replayed() -> None:
    graph, reader, piece = graph_of(librarian, clerk, limits=SMALL)
    with Runtime(graph, store="memory:") as runtime:
        done = runtime.run({"book": BOOK.text}, thread="t")
        asked = len(reader.calls) + len(piece.calls)
        runtime.replay("t")

    assert done.state.answer == BOOK.answer
    assert len(reader.calls) + len(piece.calls) == asked


def test_text_that_changed_since_it_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text(BOOK.text, encoding="utf-8")

    def piece(request: ModelRequest) -> str:
        raise ZeroDivisionError

    node = recursive(
        State,
        "q",
        context=lambda _: path,
        into="answer",
        model=FunctionModel(Script(call("map", question="q?"))),
        piece_model=FunctionModel(piece),
        limits=SMALL,
    )
    graph = GraphBuilder(State).add_node("ask", node).add_edge(START, "ask").compile()
    with Runtime(graph, store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime, pytest.raises(NodeError):
        runtime.run({}, thread="t")
    path.write_text("other", encoding="utf-8")
    with Runtime(graph, store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime, pytest.raises(InputError) as caught:
        runtime.retry("t")

    assert caught.value.code == "long-text-changed"


# ------------------------------------------------------------------------------------------------------ the sandbox


class Counting:
    """A sandbox that knows one word."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(self, code: str, text: LongText, /) -> str:
        self.ran.append(code)
        if code != "len":
            raise ValueError("unknown word")
        return str(text.length) + "!" * 99_999


def test_code_runs_only_in_the_sandbox_of_the_caller() -> None:
    sandbox = Counting()
    shown = shown_by(call("run_code", code="len"), call("run_code", code="rm"), sandbox=sandbox)

    assert sandbox.ran == ["len", "rm"]
    assert shown[1].startswith(f"{len(BOOK.text)}!!!")
    assert len(shown[1]) <= SMALL.result_chars
    assert "unknown word" in shown[2]


@pytest.mark.parametrize("verb", ["arun", "astream"])
def test_recursive_node_runs_on_an_event_loop_of_the_user(verb: str) -> None:
    graph, _, _ = graph_of(librarian, clerk, limits=SMALL)

    async def go() -> Any:
        if verb == "arun":
            return await graph.arun({"book": BOOK.text})
        stream = graph.astream({"book": BOOK.text}, modes="live")
        async for _ in stream:
            pass
        return stream.result

    assert asyncio.run(go()).state.answer == BOOK.answer


def test_several_calls_of_one_turn_are_answered_in_order() -> None:
    script = Script(
        calls(call("map", question="How many?", combine="count"), call("length"), call("ask", question="q?", end=10))
    )
    graph, model, _ = graph_of(script, lambda _: "yes", limits=SMALL)
    graph.run({"book": BOOK.text})

    results = [one.text for one in model.calls[1].messages if one.role == "tool"]
    assert results[0].startswith("count = ")
    assert results[1].endswith("characters.")
    assert results[2] == "yes"
