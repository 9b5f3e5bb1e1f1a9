"""A crash anywhere in a reading leads to the same end, and no finished call is paid twice."""

from __future__ import annotations

import os
import re
from typing import Any

from graphrt.harness import ModelRequest
from graphrt.nodes import RecursiveLimits
from graphrt.testing import explore_crashes

from .support import book, call, clerk, graph_of, head_of, librarian

LIMITS = RecursiveLimits(piece_chars=4_000, prompt_chars=20_000, result_chars=2_000, reader_calls=20)
SIZE, PIECES = (20_000, 6) if os.environ.get("GRAPHRT_FULL") == "1" else (8_000, 3)
"""Characters of the book, and the pieces that are read."""


def manager(request: ModelRequest) -> Any:
    """Delegates the work to a reader below, which delegates it to readers of pieces."""
    if "vault, and" in head_of(request):
        told = request.messages[-1]
        return told.text if told.role == "tool" else call("ask", question="Which codes, and what refunds?")
    return librarian(request)


def test_crash_anywhere_leads_to_the_same_end_and_pays_once() -> None:
    text = book(SIZE)
    graph, reader, piece = graph_of(manager, clerk, limits=LIMITS)
    assert graph.run({"book": text.text}).state.answer == text.answer
    assert len(piece.calls) == PIECES
    assert re.search(r"ask \{", head_of(reader.calls[-1])) is None

    found = explore_crashes(graph, {"book": text.text}, options=lambda: {"check_state": True, "clock": lambda: 0.0})

    # An interrupted call is still counted, because it may have been paid: the usage is then higher (decision 0030).
    assert {one.kind for one in found.findings} <= {"budget-differs"}, str(found)
    assert found.tried > 30
