"""The threads of the corpus that wait for an answer: how each was written, and how it may go on.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt.migrations import Migration

from . import graphs_that_pause as graphs
from . import graphs_that_stop as stops
from .hand import Case, Hand
from .world import world


def run(hand: Hand) -> None:
    hand.run()


def yes(hand: Hand) -> None:
    hand.answer("yes")


def paused(name: str, graph: Any, way: Any = yes, *, write: Any = run, **more: Any) -> Case:
    """A case with one plain way to go on, and *more*: other ways by name, or options of a Case."""
    fields = {key: more.pop(key) for key in tuple(more) if key in Case.__dataclass_fields__}
    return Case(name, graph, write, {"answered": way, **more}, **fields)


# ------------------------------------------------------------------------------------------------- ways of writing


def _keyed(hand: Hand) -> None:
    hand.run()
    hand.answer("blue")


def _answered(*answers: Any) -> Any:
    def write(hand: Hand) -> None:
        hand.run()
        for answer in answers:
            hand.answer(answer)

    return write


def _one_send_answered(hand: Hand) -> None:
    hand.run()
    hand.answer(one=["first"])


def _half_answered(hand: Hand) -> None:
    hand.run()
    hand.answer(p="P", s=True, u="U")


def _second_run(hand: Hand) -> None:
    hand.run()
    hand.answer("first")
    hand.run({"notes": ["second input"], "n": 5})


def _edited(hand: Hand) -> None:
    hand.run()
    hand.update({"x": "edited", "notes": ["edited"]})


def _forked(hand: Hand) -> None:
    """Fork a paused thread; the thread of the case is the fork."""
    hand.thread = f"{hand.thread}-source"
    hand.run()
    hand.fork(to=hand.thread.removesuffix("-source"))


def _copied(hand: Hand) -> None:
    hand.thread = f"{hand.thread}-source"
    hand.run()
    hand.thread = hand.runtime.copy_thread(hand.thread, hand.thread.removesuffix("-source"))


def _pruned(hand: Hand) -> None:
    _second_run(hand)
    hand.runtime.prune(hand.thread)


def _pruned_and_edited(hand: Hand) -> None:
    hand.run()
    hand.update({"notes": ["edited"]})
    hand.runtime.prune(hand.thread)


def _unsure_asked(hand: Hand) -> None:
    hand.run()
    hand.retry(mended=False)


def _failed_after_the_answer(hand: Hand) -> None:
    hand.run()
    hand.answer("given")


def _migrated(hand: Hand) -> None:
    """Written with the graph of one release, gone on with that of the next, and paused there again."""
    hand.run()
    with hand.other(graphs.named("confirm", "b"), migrations=[TO_CONFIRM]) as runtime:
        runtime.update(hand.thread, {"notes": ["migrated"]})


TO_CONFIRM: Final = Migration(
    source=graphs.named("ask", "b").fingerprint,
    nodes={"ask": "confirm"},
    values=lambda values: {**values, "x": "by the migration"},
    name="ask is confirm now",
)


# ------------------------------------------------------------------------------------------------- ways of going on


def _late(hand: Hand) -> None:
    hand.later(4_000)
    hand.answer("too late")
    hand.retry()
    hand.answer("in time")


def _wrong_then_right(hand: Hand) -> None:
    hand.answer("many")
    hand.answer(3)


def _again(hand: Hand) -> None:
    hand.answer("ask again")
    hand.answer("enough")


def _two(hand: Hand) -> None:
    hand.answer("two")
    hand.answer("three")


def _one_by_one(hand: Hand) -> None:
    hand.answer(one=["only the first"])
    hand.answer(one=["only the second"])


def _all_sends(hand: Hand) -> None:
    hand.answer(one=["first", "second"])


def _all(hand: Hand) -> None:
    hand.answer_all()


def _edit_first(hand: Hand) -> None:
    hand.update({"x": "edited"})
    hand.answer_all()


def _unsure(answer: Any) -> Any:
    def way(hand: Hand) -> None:
        world.ran["pay"] = 1  # the call of the process that asked
        hand.answer(answer)

    return way


def _unsure_failed(hand: Hand) -> None:
    hand.answer("fail")
    hand.retry()


def _mended(hand: Hand) -> None:
    hand.retry()


def _still_broken(hand: Hand) -> None:
    hand.retry(mended=False)
    hand.retry()


UNSURE: Final[dict[str, Any]] = {
    "taken": _unsure({"result": "paid by hand"}),
    "failed": _unsure_failed,
    "wrong_answer": lambda hand: (hand.answer("perhaps"), hand.answer("run")),
}

CASES: Final = [
    paused("ask-ordinal", graphs.ordinal, edited=_edit_first),
    paused("ask-keyed", graphs.keyed, lambda hand: hand.answer("red") or hand.answer(2)),
    paused("ask-keyed-half", graphs.keyed, _wrong_then_right, write=_keyed),
    paused("ask-typed", graphs.typed, lambda hand: hand.answer({"ok": True, "why": "good"})),
    paused("ask-expiring", graphs.expiring, late=_late),
    paused("ask-returned", graphs.returned, lambda hand: hand.answer(value=False)),
    paused("ask-returned-again", graphs.returned_again, _again),
    paused(
        "ask-returned-twice", graphs.returned_again, lambda hand: hand.answer("enough"), write=_answered("ask again")
    ),
    paused("ask-several", graphs.several, _two, write=_answered("one")),
    paused("ask-looping", graphs.loops),
    paused("before", graphs.before, edited=_edit_first),
    paused("after", graphs.after, _all, edited=_edit_first),
    paused("after-last", graphs.after_last, _all),
    paused("after-routed", graphs.after_routed, _all),
    paused("after-command", graphs.after_command, _all),
    paused("around-before", graphs.around, _all),
    paused("around-inside", graphs.around, _all, write=_answered("before")),
    paused("around-after", graphs.around, _all, write=_answered("before", "inside")),
    paused("after-beside", graphs.after_beside, _all),
    paused("after-beside-half", graphs.after_beside, _all, write=lambda hand: (hand.run(), hand.answer(p=True))),
    paused("after-beside-others", graphs.after_beside, _all, write=lambda hand: (hand.run(), hand.answer(q="Q"))),
    paused("sends", graphs.sends, _all_sends, one_by_one=_one_by_one),
    paused("sends-half", graphs.sends, lambda hand: hand.answer("second"), write=_one_send_answered),
    paused("mixed", graphs.mixed, _all),
    paused("mixed-half", graphs.mixed, _all, write=_half_answered),
    paused("unsure", graphs.unsure, _unsure("run"), write=_unsure_asked, **UNSURE),
    paused("nested", graphs.nested, edited=_edit_first),
    paused("nested-after", graphs.nested_after, _all),
    paused("nested-after-self", graphs.nested_after, _all, write=_answered("inside")),
    paused("nested-after-last", graphs.nested_after_last, _all),
    paused("handled", graphs.handled),
    paused("join-all-half", lambda: graphs.joins("all")),
    paused("join-any-fired", lambda: graphs.joins("any")),
    paused("join-two-half", lambda: graphs.joins(2)),
    paused("second-run", graphs.ordinal, write=_second_run),
    paused("edited", graphs.ordinal, write=_edited),
    paused("edited-mixed", graphs.mixed, _all, write=_edited),
    paused("forked", graphs.ordinal, _all, write=_forked),
    paused("forked-sends", graphs.sends, _all, write=_forked),
    paused("copied", graphs.mixed, _all, write=_copied),
    paused("pruned", graphs.ordinal, write=_pruned),
    paused("pruned-mixed", graphs.mixed, _all, write=_pruned_and_edited),
    paused("fields", graphs.fields),
    paused(
        "bulky",
        graphs.bulky,
        lambda hand: hand.answer("tail "),
        write=lambda hand: hand.run({"notes": [], "x": graphs.large("x")}),
        bulky=True,
        flavours=("plain", "chained"),
    ),
    paused("tired", stops.tired),
    paused("values", stops.values),
    paused("lengthy", stops.lengthy, flavours=("plain", "chained")),
    paused(
        "to-migrate",
        lambda: graphs.named("ask", "b"),
        later=lambda: graphs.named("confirm", "b"),
        later_options=lambda: {"migrations": [TO_CONFIRM]},
    ),
    paused("migrated", lambda: graphs.named("ask", "b"), write=_migrated, later=lambda: graphs.named("confirm", "b")),
    paused("compatible", lambda: graphs.named("ask", "b"), later=lambda: graphs.named("ask", "b", "c")),
    paused(
        "answered-failed", graphs.asks_then_fails, _mended, write=_failed_after_the_answer, still_broken=_still_broken
    ),
]
