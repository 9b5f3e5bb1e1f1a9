"""The threads of the corpus that failed, were cancelled, lost their process, or ended: how written, and how they go on.

Never changed once a release has written with it: only additions.
"""

from __future__ import annotations

from typing import Any, Final

from graphrt import Limits

from . import graphs_that_pause as pausing
from . import graphs_that_stop as graphs
from . import graphs_with_agents as agents
from .cases_paused import paused
from .hand import Case, Hand


def mended(hand: Hand) -> None:
    hand.retry()


def _resumed(hand: Hand) -> None:
    hand.do("resume", hand.thread)


def _input(hand: Hand) -> None:
    hand.run({"notes": ["more"], "n": 1})


def stopped(name: str, graph: Any, way: Any = mended, **more: Any) -> Case:
    """A case that is retried; *more* as for `paused`."""
    made = paused(name, graph, way, **more)
    first, *others = made.ways.items()
    return Case(**{**vars_of(made), "ways": {"retried" if way is mended else "went_on": first[1], **dict(others)}})


def vars_of(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in Case.__dataclass_fields__}


def died(name: str, graph: Any, dies: int, **more: Any) -> Case:
    """A case whose process is killed."""
    return stopped(name, graph, dies=dies, resumed=_resumed, **more)


def done(name: str, graph: Any, **more: Any) -> Case:
    """A case that ended, and takes a new input."""
    return stopped(name, graph, _input, **more)


def _answered(hand: Hand) -> None:
    hand.run()
    hand.answer("given")


def _twice(hand: Hand) -> None:
    hand.run()
    hand.run({"notes": ["second input"]})


def _forked_back(hand: Hand) -> None:
    """Fork a completed thread from an entry in the middle: the fork has something to do, and nobody does it."""
    hand.thread = f"{hand.thread}-source"
    hand.run()
    middle = hand.runtime.history(hand.thread)[2]
    hand.fork(at=middle.seq, to=hand.thread.removesuffix("-source"))


def _pruned(hand: Hand) -> None:
    _twice(hand)
    hand.runtime.prune(hand.thread)


def _updated(hand: Hand) -> None:
    hand.run()
    hand.update({"notes": ["edited"], "x": 1})
    hand.runtime.bulk_update(hand.thread, [({"n": 1}, None), ({"notes": ["as a"]}, "a")])


def _retried_and_seen(hand: Hand) -> None:
    hand.retry()
    hand.answer_all()


def _once_answered(hand: Hand) -> None:
    hand.retry()
    hand.answer("run")


def _once_fails(hand: Hand) -> None:
    hand.retry()
    hand.answer("fail")
    hand.retry()


def _more_budget(hand: Hand) -> None:
    hand.answer(9)


def _talk(hand: Hand) -> None:
    hand.run({})


def in_turn() -> dict[str, Any]:
    """One task after another, so that it is known which had finished."""
    return {"limits": Limits(max_concurrency=1)}


def harness(make: Any, **more: Any) -> Any:
    return lambda: {"harness": make(), **more}


def _two_payments(hand: Hand) -> None:
    hand.answer(q=[True, {"approve": False, "reason": "too much"}])


def _two_payments_in_turn(hand: Hand) -> None:
    hand.answer(q=[True])
    hand.answer(value={"approve": True, "arguments": {"amount": 41}})


FAILED: Final = [
    stopped(
        "broken", graphs.broken, options=in_turn, still_broken=lambda hand: (hand.retry(mended=False), hand.retry())
    ),
    stopped("broken-for-good", graphs.broken_for_good),
    stopped("broken-router", graphs.broken_router),
    stopped("broken-reducer", graphs.broken_reducer),
    stopped("conflict", graphs.conflict),
    stopped("bad-update", graphs.bad_update),
    stopped("step-limit", graphs.rounds, options=lambda: {"limits": Limits(max_steps=4)}, later_options=dict),
    stopped("fatigue", graphs.rounds, options=lambda: {"limits": Limits(max_visits=4)}, later_options=dict),
    stopped("starved", graphs.starved, as_node=lambda hand: (hand.update({"notes": ["B"]}, as_node="b"), hand.retry())),
    stopped("broken-send", graphs.broken_send, options=in_turn),
    stopped("after-broken", pausing.after_broken, _retried_and_seen, options=in_turn),
    stopped("broken-inside", graphs.broken_inside, options=in_turn),
    stopped("cancelled", graphs.cancelled),
]

DIED: Final = [
    died("died-fan", graphs.dying_fan, 11),
    died("died-line", graphs.dying_line, 4),
    died("died-once", graphs.dying_once, 1, way=_once_answered, unsure_failed=_once_fails),
    died("died-inside", graphs.dying_inside, 5),
    died("died-answered", graphs.dying_answered, 3, write=_answered),
    died("died-retry", graphs.dying_retry, 2),
    died("died-after", graphs.dying_after, 1, way=_retried_and_seen),
    died("died-bulky", graphs.dying_bulky, 2, bulky=True, flavours=("plain", "chained")),
]

DONE: Final = [
    done("done", graphs.plain),
    done("done-twice", graphs.plain, write=_twice),
    done("done-pruned", graphs.plain, write=_pruned),
    stopped("updated-as-node", graphs.plain, write=_updated),
    stopped("forked-back", graphs.plain, write=_forked_back, resumed=_resumed),
    done("done-travels", graphs.travels),
    done("done-async", graphs.travels, options=lambda: {"durability": "async"}),
    done("done-exit", graphs.travels, options=lambda: {"durability": "exit"}),
    done("done-bulky", graphs.grows, write=_twice, bulky=True),
]

AGENTS: Final = [
    paused("agent-converses", agents.converses, write=_talk, options=harness(agents.searching)),
    paused("agent-asks-between", agents.asks_between, write=_talk, options=harness(agents.scripted)),
    paused(
        "agent-approval",
        agents.settles,
        lambda hand: hand.answer(value=True),
        write=_talk,
        options=harness(agents.paying_once),
        refused=lambda hand: hand.answer(value={"approve": False, "reason": "no"}),
    ),
    paused(
        "agent-approvals",
        agents.settles,
        _two_payments,
        write=_talk,
        options=harness(agents.paying),
        in_turn=_two_payments_in_turn,
    ),
    paused(
        "agent-approvals-half",
        agents.settles,
        lambda hand: hand.answer(value=False),
        write=lambda hand: (hand.run({}), hand.answer(q=[True])),
        options=harness(agents.paying),
    ),
    paused(
        "budget-question",
        agents.spends,
        _more_budget,
        write=_talk,
        options=harness(agents.answering, budget=agents.ASKS_FOR_MORE),
        refused=lambda hand: hand.answer(0),
    ),
    paused(
        "budget-answered",
        agents.spends,
        lambda hand: hand.answer(0),
        write=lambda hand: (hand.run({}), hand.answer(1)),
        options=harness(agents.answering, budget=agents.ASKS_FOR_MORE),
    ),
    paused("budget-in-state", agents.thrifty, write=_talk, options=harness(agents.answering)),
    stopped(
        "budget-exceeded",
        agents.spends_and_fails,
        write=_talk,
        options=harness(agents.answering, budget=agents.STOPS),
        later_options=harness(agents.answering, budget=agents.ENOUGH),
    ),
    stopped("agent-failed", agents.fails_between, write=_talk, options=harness(agents.searching)),
    died("agent-died", agents.dying_agent, 8, write=_talk, options=harness(agents.searching, budget=agents.ROOMY)),
]

CASES: Final = [*FAILED, *DIED, *DONE, *AGENTS]
