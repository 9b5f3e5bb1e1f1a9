"""Needles and an aggregate in ten megabytes: the answer is right, prompts stay small, the text is stored once."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.events import EffectRecorded, ModelReplied, RunStarted, TaskSucceeded
from graphrt.harness import AgentReply, ModelProfile, ModelRequest
from graphrt.nodes import RecursiveLimits
from graphrt.nodes._recursive.limits import size_of_prompt

from .support import Book, book, clerk, graph_of, graph_of_models, librarian

SIZE = 10_500_000
SHORTER = SIZE if os.environ.get("GRAPHRT_FULL") == "1" else SIZE // 5
"""Enough to detect a copy of the text, in memory or in a file."""
LIMITS = RecursiveLimits()


@pytest.fixture(scope="module")
def library() -> Book:
    return book(SHORTER)


def test_needles_are_found_and_amounts_added_up_over_ten_megabytes() -> None:
    library = book(SIZE)
    graph, reader, piece = graph_of(librarian, clerk)

    result = graph.run({"book": library.text})

    assert result.state.answer == library.answer
    assert result.warnings == ()
    sizes = [size_of_prompt(request.messages, request.tools) for request in reader.calls]
    assert len(sizes) == 4
    assert max(sizes) <= LIMITS.prompt_chars
    assert max(size_of_prompt(request.messages) for request in piece.calls) <= LIMITS.bound().piece_tokens
    assert sum(request.text.count("record ") for request in piece.calls) == library.text.count("\nrecord ") + 1
    assert result.usage is not None
    assert result.usage.calls == len(reader.calls) + len(piece.calls) <= LIMITS.bound().calls
    assert result.usage.total_tokens <= LIMITS.bound().tokens


def test_text_is_stored_once(library: Book, tmp_path: Path) -> None:
    graph, reader, piece = graph_of(librarian, clerk)
    path = tmp_path / "runs.db"
    with Runtime(graph, store=f"sqlite:///{path}") as runtime:
        result = runtime.run({"book": library.text}, thread="t")
        entries = list(runtime.entries("t"))

    assert result.state.answer == library.answer
    assert len(library.text) < path.stat().st_size < 1.25 * len(library.text)
    long = [type(one.event) for one in entries if len(str(one.event)) > 1_000_000]
    assert long in ([RunStarted], [])  # events show long values shortened
    replies = [one for one in entries if isinstance(one.event, ModelReplied)]
    assert len(replies) == len(reader.calls) + len(piece.calls)
    tasks = [one for one in entries if isinstance(one.event, TaskSucceeded) and one.event.node == "piece"]
    assert len(tasks) == len(piece.calls)
    assert all(one.event.usage is not None and one.event.usage.calls == 1 for one in tasks)
    assert any(isinstance(one.event, EffectRecorded) and "search" in one.event.key for one in entries)


@pytest.mark.parametrize("kind", ["file", "documents"])
def test_file_and_documents_are_read_like_a_text(library: Book, tmp_path: Path, kind: str) -> None:
    graph, _, piece = graph_of(librarian, clerk)
    given: object = library.text.split("\n")
    if kind == "file":
        given = tmp_path / "book.txt"
        given.write_text(library.text, encoding="utf-8")
    with Runtime(graph, store=f"sqlite:///{tmp_path / 'runs.db'}", check_state=False) as runtime:
        result = runtime.run({"book": given}, thread="t")

    assert result.state.answer == library.answer
    assert len(piece.calls) > 400 * SHORTER // SIZE
    if kind == "file":
        assert (tmp_path / "runs.db").stat().st_size < 0.3 * len(library.text)


class Forgetful:
    """A model that keeps none of its requests."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        self.profile = ModelProfile(name="forgetful")
        self.calls = 0
        self._answer = answer

    async def invoke(self, request: ModelRequest, /) -> AgentReply:
        self.calls += 1
        made = self._answer(request)
        if isinstance(made, str):
            return AgentReply(text=made)
        return made if isinstance(made, AgentReply) else AgentReply(tool_calls=(made,))

    async def stream(self, request: ModelRequest, /) -> AsyncIterator[AgentReply]:
        yield await self.invoke(request)


@pytest.mark.parametrize("kind", ["text", "documents", "file"])
def test_text_is_not_copied_for_a_call(library: Book, tmp_path: Path, kind: str) -> None:
    piece = Forgetful(clerk)
    given: Any = library.text if kind == "text" else library.text.split("\n")
    if kind == "file":
        given = tmp_path / "book.txt"
        given.write_text(library.text, encoding="utf-8")
    graph = graph_of_models(Forgetful(librarian), piece)
    tracemalloc.start()
    try:
        result = graph.run({"book": given}, check_state=False)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert result.state.answer == library.answer
    assert piece.calls > 400 * SHORTER // SIZE
    assert most < 0.9 * len(library.text)
