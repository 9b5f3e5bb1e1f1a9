"""Checks of an agent: functions that reject its input before the first call, or an answer, to get another one.

The result of a check is recorded as an effect of the task, so a restart does not run it again. A check may call agents;
their usage counts towards the run. An error of the check itself is not recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, final

from graphrt._ambient import inside, surroundings
from graphrt._arguments import each
from graphrt._usage.stored_form import usage_from, usage_to
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.agents import INPUT_REFUSED
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, WRONG_RETURN_VALUE
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._host import Place, number
from graphrt.harness.agent.events import CheckEnded
from graphrt.harness.messages import Message, ToolCall
from graphrt.harness.tools._invoke import invoke
from graphrt.harness.tools.protocol import ToolResult

__all__ = ["Check", "CheckContext", "Retry"]


class Retry(Exception):  # noqa: N818 - it asks for something, as the user of it says: `raise Retry("why")`
    """Raised by a check or a tool: the model gets the reason, and may try again within the limits of the agent.

    Args:
        why: What is wrong, written for the model.
    """

    def __init__(self, why: str, /) -> None:
        super().__init__(why)
        self.why: Final = why


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """The second argument of a check that takes two."""

    agent: str
    """Name of the agent."""
    messages: tuple[Message, ...]
    """The conversation so far: 1..n messages; for an answer, that answer is the last one."""
    deps: Any = None
    """The `deps` that the caller passed; None without."""
    node: str | None = None
    """Name of the graph node that the agent works for; None outside of a graph."""
    thread: str | None = None
    """Id of the thread; None without one."""


Check: TypeAlias = Callable[[Any], object] | Callable[[Any, CheckContext], object]
"""A check: a function, sync or async, of a value, or of a value and a CheckContext. It returns None, or raises."""
Subject: TypeAlias = Literal["input", "answer"]


@final
@dataclass(frozen=True, slots=True)
class NamedCheck:
    """A check as an agent calls it."""

    name: str
    fn: Callable[..., Any]
    takes_context: bool


def checked_checks(option: str, given: Any) -> tuple[NamedCheck, ...]:
    """Return the checks passed to an agent as *option*: None, one function, or several.

    Raises:
        InputError: One is not a function of one or two arguments (`input`).
    """
    several: Sequence[Any] = () if given is None else (given,) if callable(given) else each(option, given)
    return tuple(_named(option, one) for one in several)


def _named(option: str, given: Any) -> NamedCheck:
    name: str = getattr(given, "__name__", None) or type(given).__name__
    if not callable(given) or isinstance(given, type):
        raise _not_a_check(option, given)
    for count in (2, 1):
        try:
            inspect.signature(given).bind(*[None] * count)
        except TypeError:
            continue
        except ValueError:  # written in C, without a signature
            return NamedCheck(name, given, takes_context=False)
        return NamedCheck(name, given, takes_context=_second_is_required(given) if count == 2 else False)
    raise _not_a_check(option, given)


def _not_a_check(option: str, given: Any) -> InputError:
    return INVALID_ARGUMENT(
        argument=f"{option} of an agent",
        value=given,
        wanted="a function of the value, or of the value and a CheckContext, such as `def polite(answer): ...`",
    )


def _second_is_required(fn: Callable[..., Any]) -> bool:
    """Return whether the second parameter of *fn* is the context: like a node's, if it has no default."""
    second = list(inspect.signature(fn).parameters.values())[1:2]
    return (
        bool(second) and second[0].default is inspect.Parameter.empty and second[0].kind.name.startswith("POSITIONAL")
    )


@final
class Checks:
    """The checks of one run of an agent.

    Args:
        of_input: Checks of the text that the model is to answer, and of messages that come later.
        of_answer: Checks of the answer.
        place: Place of the run among the others.
        agent: Name of the agent.
    """

    def __init__(
        self, of_input: Sequence[NamedCheck], of_answer: Sequence[NamedCheck], place: Place, agent: str
    ) -> None:
        self._of_input = of_input
        self._of_answer = of_answer
        self._place = place
        self._agent = agent

    async def check_input(self, text: str, messages: tuple[Message, ...]) -> None:
        """Check the input *text*, the last of *messages*.

        Raises:
            CheckError: A check rejected it with `Retry`.
            Exception: Any other exception raised by a check.
        """
        for check in self._of_input:
            why = await self._asked(check, "input", text, text, messages)
            if why is not None:
                raise INPUT_REFUSED(check=check.name, name=self._agent, why=why, messages=messages)

    async def refusal(self, value: Any, text: str, messages: tuple[Message, ...]) -> str | None:
        """Return why a check refuses the answer *value*, whose text is *text*; None if none does.

        Raises:
            Exception: An exception of a check other than `Retry`.
        """
        for check in self._of_answer:
            why = await self._asked(check, "answer", value, text, messages)
            if why is not None:
                return why
        return None

    async def _asked(
        self, check: NamedCheck, subject: Subject, value: Any, text: str, messages: tuple[Message, ...]
    ) -> str | None:
        """Return why *check* refuses *value*, recorded or now; None if it does not."""
        place = self._place
        name = f"check/{subject}/{check.name}/{of_arguments({'agent': place.names, 'text': text})}"
        key = f"{name}#{number(place.host, name)}"
        context = CheckContext(
            agent=self._agent,
            messages=messages,
            deps=place.host.deps,
            node=place.host.node,
            thread=place.host.thread,
        )

        async def judge() -> ToolResult:
            try:
                with inside(agent=below):
                    returned = await invoke(check.fn, (value, context) if check.takes_context else (value,), {})
            except Retry as refused:
                return ToolResult(text=refused.why, error=True)
            if returned is not None:
                raise WRONG_RETURN_VALUE(
                    function=f"Check {check.name!r}",
                    returned=type(returned).__name__,
                    wanted='None, or raise Retry("why") to refuse the value',
                    value=returned,
                )
            return ToolResult(text="")

        async def make() -> dict[str, Any]:
            watcher = surroundings().watcher
            if watcher is None:
                judged = await judge()
            else:  # in a separate span
                judged = await watcher.tool_call(ToolCall(id=key, name=f"check {check.name}"), judge)
            used = {"usage": usage_to(sum(below.took[1:], below.took[0]))} if below.took else {}
            wrote = {"wrote": [dict(update) for update in below.wrote]} if below.wrote else {}
            return {"why": judged.text if judged.error else None, **used, **wrote}

        # The place from which the check may call agents.
        below = replace(place, path=f"{key}/", took=[], wrote=[], seen=(*place.seen, *place.wrote))
        about = {"check": check.name, "subject": subject}
        try:
            recorded: Any = await place.host.effect(key, make, "idempotent", about)
        except Exception as error:
            text = error.what if isinstance(error, GraphrtError) else f"{type(error).__name__}: {error}"
            self._show(check, subject, text)
            raise
        if "usage" in recorded:
            place.took.append(usage_from(recorded["usage"]))
        place.wrote.extend(recorded.get("wrote", ()))  # by tools of these agents
        why: str | None = recorded["why"]
        self._show(check, subject, why)
        return why

    def _show(self, check: NamedCheck, subject: Subject, why: str | None) -> None:
        if self._place.emit is not None:
            self._place.emit(CheckEnded(check=check.name, subject=subject, passed=why is None, text=why or ""))
