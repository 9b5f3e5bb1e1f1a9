"""Threads whose journal has what models answered, what budgets reserved and what people granted, as 0.1 kept it.

0.1 kept it as results of effects, under keys with prefixes. The database was written by the last commit that did so
(c4b7ae2). Never changed once that was done: only additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from graphrt import Context
from graphrt.errors import HarnessError
from graphrt.events import Usage
from graphrt.harness import Agent, AgentReply, Budget, FunctionModel, ModelProfile, ModelRequest

from .hand import Case, Hand
from .shapes import Talk, line, note
from .world import world

PROFILE: Final = ModelProfile(
    name="corpus", count_tokens=lambda _request: 10, input_usd_per_token=1e-6, output_usd_per_token=2e-6
)
USAGE: Final = Usage(input_tokens=10, output_tokens=20, cached_tokens=4, calls=1)


async def _said(request: ModelRequest) -> AgentReply:
    prompt = request.text
    world.count(f"model {prompt}")
    if prompt == "dies":
        await world.dies()
    if prompt == "refuses" and not world.mended:
        raise HarnessError("The model refuses.")
    return AgentReply(text=f"{prompt}: yes", usage=USAGE)


def speaking() -> Agent:
    return Agent(FunctionModel(_said, profile=PROFILE), max_tokens=80)


def _asking(*prompts: str) -> Callable[[], Any]:
    """A graph whose node asks its model for each of *prompts*; `?text` asks a person, `!` fails until it is mended."""

    async def node(_state: Any, ctx: Context) -> Any:
        world.count("q")
        said: list[str] = []
        for prompt in prompts:
            if prompt.startswith("?"):
                said.append(str(ctx.interrupt(prompt[1:])))
            elif prompt == "!":
                world.fault("broken behind the model")
            elif prompt.startswith("effect"):
                said.append(ctx.effect(prompt.removeprefix("effect "), world.count, prompt))
            else:
                said.append((await ctx.harness.run(prompt)).text)
        return {"notes": said}

    return lambda: line(
        "-".join(["asking", *(p.strip("?!") or "fault" for p in prompts)]), ("q", node), ("b", note("b")), state=Talk
    )


def _options(**more: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"harness": speaking(), **more}


def _talk(hand: Hand) -> None:
    hand.run({"notes": [], "talk": []})


def _granted(hand: Hand) -> None:
    _talk(hand)
    hand.answer(1)


def _failed_twice(hand: Hand) -> None:
    _talk(hand)
    hand.retry(mended=False)


def _yes(hand: Hand) -> None:
    hand.answer("yes")


def _one(hand: Hand) -> None:
    hand.answer(1)


def _three(hand: Hand) -> None:
    hand.answer({"calls": 2, "tokens": 500})


def _none(hand: Hand) -> None:
    hand.answer(0)


def _retried(hand: Hand) -> None:
    hand.retry()


def _resumed(hand: Hand) -> None:
    hand.do("resume", hand.thread)


def _retried_and_answered(hand: Hand) -> None:
    hand.retry()
    hand.answer_all(1)


_MORE_CALLS: Final = Budget(calls=2, on_exceeded="interrupt")

CASES: Final[list[Case]] = [
    # A reply in an open superstep, which a resume does not ask for again; a user's effect beside it.
    Case(
        "reply-remembered",
        _asking("one", "effect model/0/mine", "?go on", "two"),
        _talk,
        {"answered": _yes},
        options=_options(),
    ),
    # A question for more budget that is open, and one that was answered: a grant.
    Case(
        "budget-asked",
        _asking("one", "two", "three", "four"),
        _talk,
        {"granted": _three, "refused": _none},
        options=_options(budget=_MORE_CALLS),
    ),
    Case(
        "budget-granted",
        _asking("one", "two", "three", "four", "five"),
        _granted,
        {"granted": _three, "refused": _none},
        options=_options(budget=_MORE_CALLS),
    ),
    # The process died during a call: what was reserved for it counts as used.
    Case(
        "reservation-lost",
        _asking("one", "dies", "three"),
        _talk,
        {"retried": _retried, "resumed": _resumed},
        options=_options(budget=Budget(tokens=200)),
        later_options=_options(budget=Budget(tokens=300)),
        dies=3,
    ),
    Case(
        "reservation-lost-asks",
        _asking("one", "dies"),
        _talk,
        {"retried": _retried_and_answered},
        options=_options(budget=_MORE_CALLS),
        dies=3,
    ),
    # A call that failed gave its reservation back.
    Case(
        "reservation-released",
        _asking("one", "refuses", "three"),
        _talk,
        {"retried": _retried},
        options=_options(budget=Budget(usd=0.01)),
    ),
    # Attempts that failed behind their calls: the next one asks its model anew, and all of them count.
    Case("asked-anew", _asking("one", "!", "two"), _failed_twice, {"retried": _retried}, options=_options()),
    # All of it in a superstep that is committed.
    Case(
        "replies-committed", _asking("one", "two"), _talk, {"answered": _talk}, options=_options(budget=Budget(calls=9))
    ),
]
