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
        why: What is wrong, written for the model: not empty.

    Raises:
        InputError: *why* is not such a text (`input`).
    """

    def __init__(self, why: str, /) -> None:
        super().__init__(why)
        self.why: Final = _reason(why)


def reason_of(retry: Retry) -> str:
    """Return the reason of *retry*, which a subclass may have set itself or not at all.

    Raises:
        InputError: It is not a non-empty text: None would read as if nothing were refused (`input`).
    """
    return _reason(getattr(retry, "why", None))


def _reason(why: Any) -> str:
    if not isinstance(why, str) or not why.strip():
        raise INVALID_ARGUMENT(
            argument="The reason of a Retry",
            value=why,
            wanted='a text that says what is wrong, such as Retry("Leave out the name.")',
        )
    return why


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


def checked_checks(option: str, value: Any) -> tuple[NamedCheck, ...]:
    """Return the checks passed to an agent as *option*: None, one function, or several.

    Raises:
        InputError: One is not a function of one or two arguments (`input`).
    """
    checks: Sequence[Any] = () if value is None else (value,) if callable(value) else each(option, value)
    return tuple(_named(option, check) for check in checks)


def _named(option: str, check: Any) -> NamedCheck:
    name: str = getattr(check, "__name__", None) or type(check).__name__
    if not callable(check) or isinstance(check, type):
        raise _not_a_check(option, check)
    for count in (2, 1):
        try:
            inspect.signature(check).bind(*[None] * count)
        except TypeError:
            continue
        except ValueError:  # written in C, without a signature
            return NamedCheck(name, check, takes_context=False)
        return NamedCheck(name, check, takes_context=_second_is_required(check) if count == 2 else False)
    raise _not_a_check(option, check)


def _not_a_check(option: str, value: Any) -> InputError:
    return INVALID_ARGUMENT(
        argument=f"{option} of an agent",
        value=value,
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
        self, input_checks: Sequence[NamedCheck], answer_checks: Sequence[NamedCheck], place: Place, agent: str
    ) -> None:
        self._of_input = input_checks
        self._of_answer = answer_checks
        self._place = place
        self._agent = agent

    async def check_input(self, text: str, messages: tuple[Message, ...]) -> None:
        """Check the input *text*, the last of *messages*.

        Raises:
            CheckError: A check rejected it with `Retry`.
            Exception: Any other exception raised by a check.
        """
        for check in self._of_input:
            reason = await self._asked(check, "input", text, text, messages)
            if reason is not None:
                raise INPUT_REFUSED(check=check.name, name=self._agent, why=reason, messages=messages)

    async def refusal(self, value: Any, text: str, messages: tuple[Message, ...]) -> str | None:
        """Return why a check refuses the answer *value*, whose text is *text*; None if none does.

        Raises:
            Exception: An exception of a check other than `Retry`.
        """
        for check in self._of_answer:
            reason = await self._asked(check, "answer", value, text, messages)
            if reason is not None:
                return reason
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
                with inside(agent=inner):
                    returned = await invoke(check.fn, (value, context) if check.takes_context else (value,), {})
            except Retry as retry:
                return ToolResult(text=reason_of(retry), error=True)
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
                result = await judge()
            else:  # in a separate span
                result = await watcher.tool_call(ToolCall(id=key, name=f"check {check.name}"), judge)
            used = {"usage": usage_to(sum(inner.took[1:], inner.took[0]))} if inner.took else {}
            wrote = {"wrote": [dict(update) for update in inner.wrote]} if inner.wrote else {}
            return {"why": result.text if result.error else None, **used, **wrote}

        # The place from which the check may call agents.
        inner = replace(place, path=f"{key}/", took=[], wrote=[], seen=(*place.seen, *place.wrote))
        details = {"check": check.name, "subject": subject}
        try:
            recorded: Any = await place.host.effect(key, make, "idempotent", details)
        except Exception as error:
            text = error.what if isinstance(error, GraphrtError) else f"{type(error).__name__}: {error}"
            self._show(check, subject, text)
            raise
        if "usage" in recorded:
            place.took.append(usage_from(recorded["usage"]))
        place.wrote.extend(recorded.get("wrote", ()))  # by tools of these agents
        reason: str | None = recorded["why"]
        self._show(check, subject, reason)
        return reason

    def _show(self, check: NamedCheck, subject: Subject, reason: str | None) -> None:
        if self._place.emit is not None:
            self._place.emit(CheckEnded(check=check.name, subject=subject, passed=reason is None, text=reason or ""))
