"""The tool calls of one answer: checked in order, approved, executed concurrently, and answered in call order.

A person or the program approves: all questions of an answer are asked at once, and again after an unusable answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, final

from graphrt._ambient import SURROUNDINGS, inside, surroundings
from graphrt._usage.stored_form import usage_from, usage_to
from graphrt.commands import Command, Send, node_name
from graphrt.errors import (
    BudgetExceededError,
    GraphrtError,
    ModelRequestForbiddenError,
    ReplayDivergedError,
    ScriptError,
    StoreError,
    ToolArgumentsError,
    ToolError,
    ToolStateError,
    brief,
    closest,
    names,
)
from graphrt.errors._codes.agents import (
    TOOL_FAILED,
    TOOL_NOT_OFFERED,
    TOOL_TIMEOUT,
)
from graphrt.errors._codes.arguments import WRONG_RETURN_VALUE
from graphrt.errors._codes.memory import NO_MEMORY
from graphrt.errors._codes.nodes import DIFFERENT_GOTOS, UNDECLARED_GOTO
from graphrt.errors._codes.threads import INTERRUPT_NEEDS_THREAD
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._host import Composed, Place, Question, number
from graphrt.harness.agent._long_results import LongResults
from graphrt.harness.agent.checks import Retry, reason_of
from graphrt.harness.agent.events import ToolEnded, ToolStarted
from graphrt.harness.agent.middleware import TOOL_RENAMED, LayerError, Middleware, around_tool
from graphrt.harness.messages import Content, ToolCall, ToolMessage
from graphrt.harness.tools._argument_errors import misfit
from graphrt.harness.tools.protocol import Tool, ToolContext
from graphrt.harness.tools.results import ToolCommandError, to_outcome, to_result

if TYPE_CHECKING:
    from graphrt.events import Usage
    from graphrt.harness.tools.registry import ToolRegistry

__all__ = ["OnBadCall", "Tooling"]

OnBadCall: TypeAlias = Literal["return", "raise"]
"""Reaction to a call that cannot be made: return an error to the model, or raise."""
Approve: TypeAlias = Callable[[ToolCall], Awaitable[bool] | bool]
"""Decides about a tool call that needs approval."""
_PASSING: Final = (
    StoreError,
    BudgetExceededError,
    ReplayDivergedError,
    LayerError,
    ModelRequestForbiddenError,
    ScriptError,
    ToolCommandError,
    ToolStateError,
)
"""Errors that end the run instead of being shown to the model as a tool failure."""

_OF_THE_PROGRAM: Final = {INTERRUPT_NEEDS_THREAD.code, NO_MEMORY.code}
"""Codes of further errors that end the run: they concern how the program runs the agent, which no model can change."""

_ANSWER: Final[Any] = bool | dict[Literal["approve", "reason", "arguments"], Any]
"""Answer type of an approval. As for every question, a bool is True or False, not a word such as "yes"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A tool call that was admitted: its tool exists and its arguments are valid."""

    call: ToolCall
    tool: Tool
    arguments: Mapping[str, Any]
    """The arguments as `tool.check` returned them."""
    key: str
    """Identifies the call within the task: the same at every execution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The outcome of a tool call."""

    text: str
    """The text for the model."""
    content: Sequence[Content] = ()
    """Texts and media for the model in order, if there are media."""
    error: bool = False
    value: Any = None
    """The value for the program: on the stream and in events, never for the model."""
    usage: Usage | None = None
    """Usage of agents that the tool called; None if there were none."""
    made: ToolCall | None = None
    """The call that was actually made, if middleware changed it; else None."""
    wrote: Sequence[Mapping[str, Any]] = ()
    """Updates of the state: 0 or 1 of the tool itself, after those of agents that it called."""
    goto: Sequence[Any] | None = None
    """Targets that the tool leads to: node names, END or Sends; None if it does not route."""


class Turn(NamedTuple):
    """The outcomes of the calls of one answer."""

    messages: list[ToolMessage]
    """Their results, in the order of the calls."""
    goto: Sequence[Any] | None
    """Where they lead; None if none of them routed."""
    handoff: Any
    """The agent that continues; None if none of them handed over."""


@final
@dataclass(frozen=True, slots=True)
class Tooling:
    """Executes the tool calls of one run of an agent."""

    registry: ToolRegistry
    """The tools that the run offers, without the one that reads long results."""
    long_results: LongResults
    """Results that are too long for the model, and the tool that reads them."""
    place: Place
    """Place of the run among the others; its `emit` receives events."""
    layers: Sequence[Middleware]
    """Middleware, outermost first."""
    unknown: OnBadCall
    """Reaction to a call of a tool that is not in `registry`."""
    bad_arguments: OnBadCall
    """Reaction to arguments that the tool does not accept."""
    approve: Approve | None
    """Decides about calls that need approval; None: a person does."""
    refuse: Callable[[ToolCall, str], ScriptError | None] | None
    """Makes the error for a call of a scripted model that does not fit the schema of its tool; it returns None if the
    script tests such a call. None: the model is not a double."""

    async def turn(self, calls: Sequence[ToolCall]) -> Turn:
        """Execute the calls of one answer; keep their writes, in the order of *calls*.

        Raises:
            ToolError: A tool failed whose policy is to raise, or a call is unknown or invalid and that is to raise.
            UpdateError: A tool returned an update that does not fit.
            RouteError: A tool leads where it does not declare, or two lead to different targets.
        """
        admitted = [self._admit(call) for call in calls]
        admitted, outcomes = await self._agreed(admitted)
        admitted = _one_handoff(admitted)
        ready = [item for item in admitted if isinstance(item, Ready) and item.call.id not in outcomes]
        if len(ready) == 1:
            outcomes[ready[0].call.id] = await self._do(ready[0])
        else:
            outcomes |= await self._do_all(ready)
        messages: list[ToolMessage] = []
        routed: list[tuple[str, Sequence[Any]]] = []
        for call, item in zip(calls, admitted, strict=True):
            result = outcomes[call.id] if isinstance(item, Ready) else item
            self.place.wrote.extend(result.wrote)
            if result.goto is not None:
                routed.append((call.name, result.goto))
            if not isinstance(item, Ready):
                self._show(call, result.text)
            text = result.text
            if isinstance(item, Ready):
                text = as_read(call, item, self.long_results.shown(text, item.tool))
            messages.append(ToolMessage(tool_call_id=call.id, text=text, content=result.content, error=result.error))
        goto, handoff = _only_goto(routed), None
        for position, item in enumerate(admitted):
            requested = _handoff(item)
            if requested is not None and goto is not None:  # the run of the agent ends
                messages[position] = ToolMessage(tool_call_id=calls[position].id, text=_NOT_HANDED_OVER, error=True)
            elif requested is not None and not messages[position].error:
                handoff = requested
        return Turn(messages, goto, handoff)

    def not_made(self, calls: Sequence[ToolCall], reason: str) -> list[ToolMessage]:
        """Return results with the *reason* why the calls of one answer were not made, in the order of *calls*."""
        for call in calls:
            self._show(call, reason)
        return [ToolMessage(tool_call_id=call.id, text=reason, error=True) for call in calls]

    def _show(self, call: ToolCall, text: str) -> None:
        """Emit the events of a call that was not made, for the reason *text*."""
        if self.place.emit is not None:
            self.place.emit(ToolStarted(call=call))
            self.place.emit(ToolEnded(call=call, text=text, error=True))

    # -- admission -----------------------------------------------------------------------------------------------

    def _admit(self, call: ToolCall) -> Ready | Done:
        """Check that the tool of *call* exists and accepts its arguments; Done with an error if not.

        Raises:
            ToolError: It does not, and the agent's policy is to raise.
            ScriptError: A scripted model calls the tool with arguments that it does not accept (`script-wrong-call`).
        """
        offered = {tool.spec.name: tool for tool in (*self.registry, *self.long_results.tools)}
        tool = offered.get(call.name)
        if tool is None:
            guess = closest(call.name, offered)
            hint = f" Did you mean {guess!r}?" if guess else ""
            known = names(offered) or "none"
            if self.unknown == "raise":
                raise TOOL_NOT_OFFERED(tool=call.name, offered=known)
            return Done(text=f"There is no tool {call.name!r}.{hint} The tools are: {known}.", error=True)
        try:
            if call.error is not None:
                raise misfit(call.name, [f"they are not a JSON object: {call.error}"])
            arguments = tool.check(call.arguments)
        except ToolArgumentsError as error:
            refusal = self.refuse(call, error.what) if self.refuse is not None and call.error is None else None
            if refusal is not None:
                raise refusal from None
            if self.bad_arguments == "raise":
                raise
            return Done(text=error.what, error=True)
        place = self.place
        # The key depends on the tool, its arguments and the agents, and not on the text around the call. So results are
        # found again when an attempt fails and the model is called once more (decision 0033).
        name = f"tool/{call.name}/{of_arguments({'agent': place.names, 'arguments': call.arguments})}"
        return Ready(call=call, tool=tool, arguments=arguments, key=f"{name}#{number(place.host, name)}")

    async def _agreed(self, admitted: list[Ready | Done]) -> tuple[list[Ready | Done], dict[str, Done]]:
        """Replace each call that a decision refused or changed. Open questions to a person pause the task.

        If a person is asked, the calls that need no decision are executed first: a slow person does not delay them, and
        a person is not asked about a call beside which another one has ended the run. A handoff is not executed first,
        since only the decisions show which handoff is the first one.

        Returns:
            The calls, and the outcomes of those that were executed, by the id of the call.

        Raises:
            ToolError: A call failed that needs no decision, and its tool's policy is to raise. No question was asked, so
                that a node may catch the error.
        """
        host, approve = self.place.host, self.approve
        by_person: list[Ready] = []
        by_code: list[tuple[Ready, Approve]] = []
        known = host.answered
        for item in admitted:
            if isinstance(item, Done):
                continue
            if item.key in known:  # the answer stays valid even if the tool no longer asks for approval
                by_person.append(item)
            elif await needs_approval(item):
                if approve is None:
                    by_person.append(item)
                else:
                    by_code.append((item, approve))
        outcomes: dict[str, Done] = {}
        if by_person and host.node is not None:  # outside of a graph no person can be asked: fail before any call
            waiting = {item.key for item in by_person} | {item.key for item, _ in by_code}
            rest = [item for item in admitted if isinstance(item, Ready) and item.key not in waiting]
            try:
                outcomes = await self._do_all([item for item in rest if _handoff(item) is None])
            except (Exception, asyncio.CancelledError):
                raise
            except BaseException:  # one of them asks a question itself: ask all at once
                answered(by_person, self.place)
                raise
        decisions = answered(by_person, self.place)
        for item, decide in by_code:
            ask = partial(allowed, decide, item.call)  # stored as an effect, so that the program's decision is final
            agreed = await host.effect(f"{item.key}/approved", ask, "idempotent", {})
            decisions[item.key] = item if agreed is True else refused(item.call, "")
        agreed_calls = [decisions.get(item.key, item) if isinstance(item, Ready) else item for item in admitted]
        return agreed_calls, outcomes

    # -- doing ---------------------------------------------------------------------------------------------------

    async def _do_all(self, ready: Sequence[Ready]) -> dict[str, Done]:
        """Execute all calls concurrently. If one fails, the others still finish, so that their results are kept."""
        tasks = [asyncio.ensure_future(self._do_beside(number, item)) for number, item in enumerate(ready)]
        if not tasks:
            return {}
        try:
            await asyncio.wait(tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        failed = [error for task in tasks if (error := None if task.cancelled() else task.exception()) is not None]
        if failed:  # a BaseException that is not an Exception pauses the task, and takes precedence
            raise next((error for error in failed if not isinstance(error, Exception)), failed[0])
        return {item.call.id: task.result() for item, task in zip(ready, tasks, strict=True)}

    async def _do_beside(self, number: int, ready: Ready) -> Done:
        current = surroundings()  # of the call's own asyncio task
        SURROUNDINGS.set(current.replaced(order=(*current.order, number)))
        return await self._do(ready)

    async def _do(self, ready: Ready) -> Done:
        """Execute one call as an effect of the task, or return its remembered result, and emit its events."""
        emit, call = self.place.emit, ready.call
        if emit is not None:
            emit(ToolStarted(call=call))
        value: Any = None
        made_call = call

        async def make() -> dict[str, Any]:
            nonlocal value, made_call
            watcher = surroundings().watcher
            if watcher is None:
                outcome = await self._call(ready)
            else:
                outcome = await watcher.tool_call(call, lambda: self._call(ready))
            value, made_call = outcome.value, outcome.made or call
            extra: dict[str, Any] = {} if outcome.usage is None else {"usage": usage_to(outcome.usage)}
            if outcome.content:
                extra["content"] = list(outcome.content)
            if outcome.wrote:
                extra["wrote"] = [dict(update) for update in outcome.wrote]
            if outcome.goto is not None:
                extra["goto"] = list(outcome.goto)
            # The key does not identify the call: readers of the journal match the result to it by the call's id.
            return {"text": outcome.text, "error": outcome.error, "call": call.id, **extra}

        try:
            details = {
                "tool": call.name,
                "arguments": dict(ready.call.arguments),
                "idempotency_key": self._idempotency_key(ready),
            }
            work = Composed(make) if getattr(ready.tool, "composed", False) else make
            stored = outcome_data(
                call, await self.place.host.effect(ready.key, work, ready.tool.policy.effect, details)
            )
        except BaseException as error:
            if emit is not None:
                emit(ToolEnded(call=call, text=type(error).__name__, error=True))
            raise
        if "usage" in stored:
            self.place.took.append(usage_from(stored["usage"]))
        outcome = Done(
            text=str(stored["text"]),
            content=tuple(stored.get("content", ())),
            error=bool(stored["error"]),
            value=value,
            wrote=stored.get("wrote", ()),
            goto=stored.get("goto"),
        )
        if emit is not None:
            emit(
                ToolEnded(
                    call=made_call, text=outcome.text, content=outcome.content, error=outcome.error, value=outcome.value
                )
            )
        return outcome

    def _idempotency_key(self, ready: Ready) -> str:
        """Return the idempotency key that the tool passes on; with it, a person can check whether the call happened."""
        return f"{self.place.host.key}/{ready.key}"

    async def _call(self, ready: Ready) -> Done:
        """Call the tool through the middleware, within its timeout, and turn its result or failure into an outcome."""
        place, policy = self.place, ready.tool.policy
        context = ToolContext(
            call=ready.call,
            deps=place.host.deps,
            idempotency_key=self._idempotency_key(ready),
            depth=place.depth,
            node=place.host.node,
            thread=place.host.thread,
            emit=place.host.show,
            state=place.host.state(ready.tool, (*place.seen, *place.wrote)),
        )

        made_call = ready.call
        command: Command[Any] | None = None

        async def run(call: ToolCall, context: ToolContext) -> Any:
            nonlocal made_call
            arguments = ready.arguments
            if call is not ready.call:  # middleware passed on another call
                arguments = _changed(ready, call)
                made_call = replace(call, id=ready.call.id)
            return await ready.tool.call(arguments, context)

        # The place from which the tool may call agents.
        inner = replace(place, path=f"{ready.key}/", took=[], wrote=[], seen=(*place.seen, *place.wrote))
        scope = asyncio.timeout(policy.timeout_s)
        try:
            async with scope:
                with inside(agent=inner):
                    result = await around_tool(self.layers, run)(ready.call, context)
            command, outcome = _read(ready, result)
        except _PASSING:
            raise
        except Retry as retry:  # regardless of the tool's policy: the tool wants the model to see it
            outcome = Done(text=reason_of(retry), error=True)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            outcome = self._failed(ready, error)  # not cancelled from outside: the tool cancelled its own work
        except TimeoutError as error:
            outcome = self._late(ready) if scope.expired() else self._failed(ready, error)
        except Exception as error:
            if isinstance(error.__cause__, (ModelRequestForbiddenError, ScriptError)):  # from a graph used as a tool
                raise
            if isinstance(error, GraphrtError) and error.code in _OF_THE_PROGRAM:
                raise
            outcome = self._failed(ready, error)
        used = sum(inner.took[1:], inner.took[0]) if inner.took else None
        outcome = replace(outcome, usage=used, made=made_call if made_call != ready.call else None, wrote=inner.wrote)
        # Outside the `try`: mistakes in a Command belong to the program and are not a result for the model.
        return outcome if command is None else self._commanded(ready, command, outcome)

    def _commanded(self, ready: Ready, command: Command[Any], outcome: Done) -> Done:
        """Return *outcome* with the update and the targets of the Command that the tool returned.

        Raises:
            UpdateError, RouteError: They do not fit the graph, or are not declared.
        """
        wrote, goto = outcome.wrote, None
        if command.update is not None:
            wrote = [*wrote, self.place.host.update(ready.tool, command.update)]
        if command.goto is not None:
            goto = _targets(ready.tool, command.goto)
        return replace(outcome, wrote=wrote, goto=goto)

    def _late(self, ready: Ready) -> Done:
        """Return the outcome of a tool that exceeded its timeout, or raise it, as the tool's policy says."""
        text = f"Tool {ready.call.name!r} took longer than {ready.tool.policy.timeout_s:g} s."
        if ready.tool.policy.on_error == "raise":
            raise TOOL_TIMEOUT(problem=text, tool=ready.call.name) from None
        return Done(text=text, error=True)

    def _failed(self, ready: Ready, error: BaseException) -> Done:
        """Return *error* as an outcome for the model, or raise it, as the tool's policy says."""
        if ready.tool.policy.on_error == "return":
            # For graphrt's errors only the sentence, since code locations and advice are for the developer.
            text = error.what if isinstance(error, GraphrtError) else str(error)
            return Done(text=text if isinstance(error, ToolError) else f"{type(error).__name__}: {text}", error=True)
        if isinstance(error, ToolError):
            raise error
        raise TOOL_FAILED(tool=ready.call.name, error=error) from error


def _read(ready: Ready, returned: Any) -> tuple[Command[Any] | None, Done]:
    """Return the result of a tool as its Command, if it is one, and the outcome that the model reads.

    Raises:
        ToolError: It has no JSON form, or only a node may return it.
    """
    outcome = to_outcome(returned, tool=ready.call.name, policy=ready.tool.policy)
    command = outcome if isinstance(outcome, Command) else None
    result: Any = outcome if command is None else command.result
    return command, Done(text=result.text, content=result.content, error=result.error, value=result.value)


def _targets(tool: Tool, goto: Any) -> list[Any]:
    """Return the targets of a Command of *tool*: node names, END or Sends.

    Raises:
        RouteError: The tool does not declare one of them (`undeclared-goto`).
    """
    targets = [node_name(item) for item in (goto if issubclass(type(goto), (list, tuple)) else (goto,))]
    declared = tool.policy.goto
    for target in targets:
        if (target.node if isinstance(target, Send) else target) not in declared:
            raise UNDECLARED_GOTO(
                who=f"Command.goto of tool {tool.spec.name!r}",
                owner="tool",
                target_text=brief(target),
                declared=sorted(declared, key=str),
            )
    return targets


_NOT_HANDED_OVER: Final = "The conversation was not handed over: another call led to another node of the graph."


def _handoff(item: Ready | Done) -> Any:
    """Return the handoff that the call *item* leads to; None if it leads to none, or is not made."""
    return getattr(item.tool, "handoff", None) if isinstance(item, Ready) else None


def _one_handoff(admitted: list[Ready | Done]) -> list[Ready | Done]:
    """Return *admitted* with an error for each handoff after the first: one agent can continue."""
    result: list[Ready | Done] = []
    first = ""
    for item in admitted:
        handoff = _handoff(item)
        if handoff is not None and first:
            result.append(Done(text=f"This call was not made: the conversation goes to {first!r}.", error=True))
            continue
        if handoff is not None:
            first = handoff.agent.name
        result.append(item)
    return result


def _only_goto(routed: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any] | None:
    """Return where the calls of one answer lead; None if none of them routed.

    Args:
        routed: Name of the tool, and its targets, for each call that routed.

    Raises:
        RouteError: They lead to different targets (`different-gotos`).
    """
    for name, goto in routed[1:]:
        first, targets = routed[0]
        if list(goto) != list(targets):
            callers = f"Two calls of tool {name!r}" if name == first else f"Tools {first!r} and {name!r}"
            raise DIFFERENT_GOTOS(who=callers, first=brief(targets), second=brief(goto))
    return routed[0][1] if routed else None


def _changed(ready: Ready, call: ToolCall) -> Mapping[str, Any]:
    """Return the checked arguments of *call*, which middleware passed on in place of that of *ready*.

    Raises:
        LayerError: It names another tool: the first was admitted and approved, and is remembered (`tool-renamed`).
        ToolArgumentsError: Its arguments do not fit.
    """
    if call.name != ready.call.name:
        raise TOOL_RENAMED(first=ready.call.name, value=call.name)
    if call.error is not None:
        raise misfit(call.name, [f"they are not a JSON object: {call.error}"])
    return ready.tool.check(call.arguments)


def outcome_data(call: ToolCall, recorded: Any) -> dict[str, Any]:
    """Return the remembered outcome *recorded* of *call* as data.

    After a crash a person may have given the outcome of a tool with an unknown one. That is a value as the tool
    returns it, and becomes a text here.
    """
    if issubclass(type(recorded), dict) and type(recorded.get("text")) is str and type(recorded.get("error")) is bool:
        outcome: dict[str, Any] = recorded
        return outcome
    result = to_result(recorded, tool=call.name)
    return {"text": result.text, "error": False, **({"content": result.content} if result.content else {})}


async def needs_approval(ready: Ready) -> bool:
    """Return whether a person has to approve the call, by the tool's policy.

    Raises:
        InputError: The tool's `approval=` returned neither True nor False (`input`). A forgotten `return` must
            not count as permission.
    """
    approval = ready.tool.policy.approval
    if isinstance(approval, bool):
        return approval
    return await _decided(approval(ready.arguments), "approval= of the tool", ready.call)


async def allowed(approve: Callable[[ToolCall], Awaitable[bool] | bool], call: ToolCall) -> bool:
    """Return the decision of the agent's `approve=` about *call*.

    Raises:
        InputError: It returned neither True nor False (`input`).
    """
    return await _decided(approve(call), "approve= of the agent", call)


async def _decided(answer: Any, who: str, call: ToolCall) -> bool:
    if isawaitable(answer):
        answer = await answer
    if not isinstance(answer, bool):
        raise WRONG_RETURN_VALUE(
            function=f"The {who}, asked about tool {call.name!r},",
            returned=f"{answer!r:.200}",
            wanted="True or False: only the answer of a person may be a mapping",
            value=answer,
        )
    return answer


def refused(call: ToolCall, reason: str) -> Done:
    """Return the outcome of a call that a person refused."""
    because = f": {reason.rstrip('.')}" if reason else ""
    return Done(text=f"A person refused this call of {call.name!r}{because}.", error=True)


def as_read(call: ToolCall, ready: Ready, text: str) -> str:
    """Return the result *text* for the model, preceded by the arguments if a person changed those of its *call*.

    The call in the conversation stays as the model made it. Without this sentence the model would assume, and later
    claim, that its own arguments were used.
    """
    arguments = ready.call.arguments
    return text if ready.call is call or arguments == call.arguments else with_new_arguments(call, arguments, text)


def with_new_arguments(call: ToolCall, arguments: Mapping[str, Any], text: str) -> str:
    """Return the result *text* of *call*, which was made with other *arguments*, for the model."""
    arguments_text = json.dumps(arguments, ensure_ascii=False, default=repr)
    return f"A person changed the arguments of this call of {call.name!r} to {arguments_text}. The result is:\n{text}"


def answered(calls: Sequence[Ready], place: Place) -> dict[str, Ready | Done]:
    """Return the decision about each call, by its key: the call itself, perhaps with other arguments, or its refusal.

    If the answer is unusable, the question is asked again under a numbered key.
    """
    decisions: dict[str, Ready | Done] = {}
    pending = [(ready, "", 1) for ready in calls]
    while pending:
        questions = [
            Question(
                key=ready.key if times == 1 else f"{ready.key}/{times}",
                payload=_payload(ready, place, problem),
                answer_type=_ANSWER,
                kind="approval",
            )
            for ready, problem, times in pending
        ]
        repeated: list[tuple[Ready, str, int]] = []
        for (ready, _, times), answer in zip(pending, place.host.ask(questions), strict=True):
            decision = _decision(ready, answer)
            if isinstance(decision, str):
                repeated.append((ready, decision, times + 1))
            else:
                decisions[ready.key] = decision
        pending = repeated
    return decisions


def _payload(ready: Ready, place: Place, problem: str) -> dict[str, Any]:
    payload = {
        "problem": "approve a tool call",
        "tool": ready.call.name,
        "arguments": dict(ready.call.arguments),
        "agent": "/".join(place.names),
    }
    return {**payload, "refused_answer": problem} if problem else payload


def _decision(ready: Ready, answer: Any) -> Ready | Done | str:
    """Read an answer: True, False, or a mapping with `approve`, and optionally `reason` or new `arguments`.

    Returns:
        The call to make, its refusal, or a text that says why the answer is unusable.
    """
    if isinstance(answer, bool):
        return ready if answer else refused(ready.call, "")
    agreed, edited = answer.get("approve"), answer.get("arguments")
    changed: dict[str, Any] = edited if issubclass(type(edited), dict) else {}
    if not isinstance(agreed, bool):
        return "Answer True, False, or a mapping whose 'approve' is one of them."
    if not agreed:
        return refused(ready.call, str(answer.get("reason") or ""))
    if edited is None:
        return ready
    if not issubclass(type(edited), dict):
        return "'arguments' must be a mapping."
    call = replace(ready.call, arguments=dict(changed), arguments_text="", error=None)
    try:
        return replace(ready, call=call, arguments=ready.tool.check(call.arguments))
    except ToolArgumentsError as error:
        return error.what
