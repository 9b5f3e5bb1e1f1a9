"""Pieces of a text that come together are one item, of which a reader gets the pieces that it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import Runtime
from graphrt._runs.live_items import Again, Heading, Sent, batch, opened, texts
from graphrt._runs.numbered_items import NumberedItems
from graphrt.harness import TextDelta
from graphrt.runtime import MessageItem

from .speaking import speaking

NEW = Heading("run")


def sent(*numbers: int, heading: Heading = NEW) -> list[Sent]:
    """Return the items of a batch with a piece of text for each number."""
    pieces = [(n, MessageItem(node="speak", task_id="1.0:speak", item=TextDelta(text=f"w{n} "))) for n in numbers]
    with Runtime(speaking()) as runtime:
        return opened(runtime._config.plan.codec, batch(heading, [texts(3, pieces)]))[1]


def shown(items: Any) -> list[tuple[int, str, int]]:
    """Return number, text and missed items of each item."""
    return [(item.number, item.item.item.text, item.missed) for item in items]


def test_consecutive_pieces_are_one_item() -> None:
    items = sent(4, 5, 6, 9, 10, 12)

    assert shown(items) == [(6, "w4 w5 w6 ", 0), (10, "w9 w10 ", 0), (12, "w12 ", 0)]
    assert [item.first for item in items] == [4, 9, 12]


@pytest.mark.parametrize("known", range(7))
def test_reader_gets_the_pieces_after_those_that_it_has(known: int) -> None:
    rest = "".join(f"w{n} " for n in range(known + 1, 7))

    items = NumberedItems(number=known).new(NEW, sent(1, 2, 3, 4, 5, 6), lambda: None)

    assert shown(items) == ([(6, rest, 0)] if rest else [])


def test_missing_pieces_are_counted_before_the_first_one() -> None:
    assert shown(NumberedItems(number=2).new(NEW, sent(6, 7), lambda: None)) == [(7, "w6 w7 ", 3)]


def test_gap_is_filled_from_a_repetition_up_to_the_first_new_piece() -> None:
    again = Again(last=8, seq=3, lost=0)
    repeated = sent(1, 2, 3, 4, 5, 6, 7, 8, heading=Heading("run", again=again, begins=True))

    items = NumberedItems(number=2).new(NEW, sent(7, 8, 9), lambda: (again, repeated))

    assert shown(items) == [(6, "w3 w4 w5 w6 ", 0), (9, "w7 w8 w9 ", 0)]


def test_text_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        texts(3, [(1, MessageItem(node="speak", task_id="1.0:speak", item=TextDelta(text="\ud800")))])
