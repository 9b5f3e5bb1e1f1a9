"""The Agent: its arguments, and how its runs begin and end. The loop itself is in `_loop`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack, final, overload

from graphrt._ambient import inside, running_context, surroundings
from graphrt._arguments import checked_function, checked_type
from graphrt._usage.budget import Budget
from graphrt.commands import check_signal_name
from graphrt.errors import ScriptError
from graphrt.errors._codes.agents import NESTED_TOO_DEEP, STREAM_INSIDE
from graphrt.harness._output.exchange import without_words
from graphrt.harness._output.form import OutputForm, form_of
from graphrt.harness.agent._arguments import (
    checked_choice,
    checked_fallbacks,
    checked_layers,
    checked_model,
    checked_name,
    checked_retry,
    checked_sinks,
)
from graphrt.harness.agent._digest import as_known, of_run
from graphrt.harness.agent._host import Host, Place, StandaloneHost, number, warn_unseen
from graphrt.harness.agent._long_results import LongResults
from graphrt.harness.agent._loop import Loop
from graphrt.harness.agent._model_calls import Caller
from graphrt.harness.agent._repeats import Repeats
from graphrt.harness.agent._replacements import Override, models_of, tools_of
from graphrt.harness.agent._signals import Signals
from graphrt.harness.agent._stream import shown, watched
from graphrt.harness.agent._sync import wait_for
from graphrt.harness.agent._tool_calls import Approve, OnBadCall, Tooling
from graphrt.harness.agent.cache import ResponseCache
from graphrt.harness.agent.checks import Check, Checks, checked_checks
from graphrt.harness.agent.compaction import SUMMARISE, Compaction, Compactor
from graphrt.harness.agent.events import AgentItem, EventSink, HandedOver
from graphrt.harness.agent.handoffs import Handoff, Handoffs, checked_handoffs
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.agent.middleware import Middleware, ModelCall, around_model, begun, ended
from graphrt.harness.budget._ledger import Ledger
from graphrt.harness.messages import Message, Prompt, SystemMessage, ToolCall
from graphrt.harness.protocol import ROUTED, AgentReply, ChatModel, OutputT_co
from graphrt.harness.request import ModelRequest, RunOptions, TranscribedOptions
from graphrt.harness.tools.protocol import Tool
from graphrt.harness.tools.registry import AnyTool, ToolRegistry, name_of, needing_graph
from graphrt.limits import RetryPolicy

__all__ = ["Agent"]


class AgentOptions(TypedDict, total=False):
    """The keyword arguments of `Agent` except `output`, which decides the type of the agent."""

    tools: Iterable[AnyTool]
    handoffs: Handoffs
    system: str | None
    name: str
    limits: AgentLimits | None
    retry: RetryPolicy | int | None
    fallbacks: Sequence[ChatModel | str]
    cache: ResponseCache | None
    middleware: Sequence[Middleware]
    budget: Budget | None
    unknown_tool: OnBadCall
    invalid_arguments: OnBadCall
    approve: Approve | None
    max_tokens: int | None
    temperature: float | None
    options: Mapping[str, Any] | None
    sinks: Sequence[EventSink]
    signal: str | None
    check: Check | Sequence[Check] | None
    input_check: Check | Sequence[Check] | None
    compaction: Compaction | None


class AgentRunOptions(TranscribedOptions, total=False):
    """The keyword arguments of `Agent.run` except `output`, which decides the type of the reply."""

    deps: Any
    """Value of `ToolContext.deps` for tools; in a graph it is the run's `deps` instead."""


T = TypeVar("T")

_LIMITS: Final = "Give AgentLimits(model_calls=...)."
_RETRY: Final = RetryPolicy(attempts=4, wait_initial_s=0.2)


@final
class Agent(Generic[OutputT_co]):
    """The standard harness: calls a model, executes the tool calls that it asks for, and repeats until it answers.

    `Agent(model, output=Person)` is an `Agent[Person]`: the output of its replies is a Person.

    An agent holds no state of a run and may be used from several tasks, event loops and worker threads at once. In a
    graph, use it as the run's harness (`harness=agent`) or bind it to a node (`ctx.bind(agent)`). Model calls and tool
    calls that ended are then not repeated after a pause or a crash, and questions become interrupts. Items appear on
    the graph's stream, usage in its totals.

    Args:
        model: The model, or a model name for `LiteLLMModel`.
        tools: Tools, or typed functions, that the model may call.
        handoffs: Agents, or Handoffs, to which the model may hand the conversation over; they continue the run in place
            of this agent, under its budget. For agents that name each other, a function that returns them.
        system: Instructions; always the first message of a model call, before system messages of the prompt.
        name: Name of the agent in events and errors, without "/".
        output: Type of the answer; `AgentReply.output` is a value of it. With an OutputSpec the answer must be JSON,
            and `AgentReply.output` is its plain value, which is not checked against the schema.
        limits: Limits of a run.
        retry: Policy for failed model calls. Default: 4 attempts for transient errors, never sooner than a Retry-After
            of the provider, and none if that exceeds two minutes. A number sets the attempts; None never retries.
        fallbacks: Models that are called in turn when the one before has failed for good.
        cache: Cache of responses.
        middleware: Layers around model calls and tool calls, outermost first.
        budget: Budget of one run of this agent, its sub-agents included.
        unknown_tool: Reaction to a call of a tool that was not offered: "return" returns an error to the model, "raise"
            raises it.
        invalid_arguments: Reaction to arguments that the tool does not accept, as for *unknown_tool*.
        approve: Decides about calls that need approval. Without it, in a graph, they become questions to a person.
        max_tokens: Upper bound of one answer, in tokens.
        temperature: Passed to the model.
        options: Further options that only this provider understands.
        sinks: Receive the items and events of the agent, in order.
        signal: Name of the signals (`Runtime.signal`) that the agent takes between two model calls, in a graph on a
            thread: a text joins the conversation, and `{"pause": why}` pauses the thread. None: it takes none.
        check: One or several functions of the answer: of `AgentReply.output`, or of the text without `output`. A check
            that raises `Retry("why")` lets the model try again within the limits.
        input_check: One or several functions of the text of the user's last message before the run, called before the
            first model call, after a handoff before the first one of this agent. A check that raises `Retry("why")`
            ends the run with a CheckError.
        compaction: How requests with a long conversation are shortened. None: it is sent whole.

    Raises:
        InputError: An argument is invalid.
    """

    @overload
    def __init__(
        self, model: ChatModel | str, *, output: type[OutputT_co], **options: Unpack[AgentOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any], model: ChatModel | str, *, output: Any = None, **options: Unpack[AgentOptions]
    ) -> None: ...
    def __init__(
        self,
        model: ChatModel | str,
        *,
        tools: Iterable[AnyTool] = (),
        handoffs: Handoffs = (),
        system: str | None = None,
        name: str = "agent",
        output: Any = None,
        limits: AgentLimits | None = None,
        retry: RetryPolicy | int | None = _RETRY,
        fallbacks: Sequence[ChatModel | str] = (),
        cache: ResponseCache | None = None,
        middleware: Sequence[Middleware] = (),
        budget: Budget | None = None,
        unknown_tool: OnBadCall = "return",
        invalid_arguments: OnBadCall = "return",
        approve: Approve | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        options: Mapping[str, Any] | None = None,
        sinks: Sequence[EventSink] = (),
        signal: str | None = None,
        check: Check | Sequence[Check] | None = None,
        input_check: Check | Sequence[Check] | None = None,
        compaction: Compaction | None = None,
    ) -> None:
        self.models: Final[tuple[ChatModel, ...]] = (checked_model(model), *checked_fallbacks(fallbacks))
        """The model, then its fallbacks: 1..n."""
        self.tools: Final = ToolRegistry(tools)
        self.name: Final = checked_name(name)
        self.limits: Final = checked_type("limits", limits, AgentLimits, _LIMITS) or AgentLimits()
        self._find_handoffs: Callable[[], Any] = handoffs if callable(handoffs) else lambda: handoffs
        self._handoffs: tuple[Handoff, ...] | None = None if callable(handoffs) else checked_handoffs(self, handoffs)
        if self._handoffs:
            self._offered()  # rejects duplicate tool names now, not at the first run
        self._output = form_of(output)
        self._retry = checked_retry(retry)
        self._cache = checked_type("cache", cache, ResponseCache, "Give ResponseCache().")
        self._layers = checked_layers(middleware)
        self._budget = checked_type("budget", budget, Budget, "Give Budget(tokens=...).")
        self._unknown = checked_choice("unknown_tool", unknown_tool)
        self._bad_arguments = checked_choice("invalid_arguments", invalid_arguments)
        self._approve = checked_function(
            "approve", approve, "Give a function of a ToolCall that returns True or False."
        )
        self._defaults: RunOptions = {
            "system": system,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "options": options,
        }
        self._sinks = checked_sinks(sinks)
        self._checks = checked_checks("check", check)
        self._input_checks = checked_checks("input_check", input_check)
        self._compaction = checked_type("compaction", compaction, Compaction, "Give Compaction(tokens=...).")
        self._summariser = None if compaction is None else _summariser(compaction, self.name)
        self._signal = None if signal is None else check_signal_name(signal)
        ModelRequest.build("check", self._defaults)  # rejects invalid defaults now, not at the first run

    @property
    def handoffs(self) -> tuple[Handoff, ...]:
        """The handoffs that the model may choose: 0..n. If `handoffs=` is a function, the first use calls it.

        Raises:
            InputError: Its return value is wrong.
        """
        if self._handoffs is None:
            self._handoffs = checked_handoffs(self, self._find_handoffs())
        return self._handoffs

    @overload
    async def run(
        self, prompt: Prompt, /, *, output: None = None, **options: Unpack[AgentRunOptions]
    ) -> AgentReply[OutputT_co]: ...
    @overload
    async def run(self, prompt: Prompt, /, *, output: type[T], **options: Unpack[AgentRunOptions]) -> AgentReply[T]: ...
    @overload
    async def run(self, prompt: Prompt, /, *, output: Any = None, **options: Unpack[AgentRunOptions]) -> AgentReply: ...
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentReply[Any]:
        """Answer *prompt*.

        Args:
            prompt: A text, or a conversation to continue.
            deps: Value of `ToolContext.deps` for tools; in a graph it is the run's `deps` instead.
            transcript: Receives every message at once, so that the caller has them however the run ends.
            **options: See `RunOptions`; `tools` selects tools of the agent for this run, by their specs or names.

        Raises:
            InputError: An argument is invalid.
            AgentLimitError: A limit was reached.
            BudgetExceededError: A budget was exceeded.
            CheckError: A check refused the input.
            HarnessError: A model call failed, or a tool whose policy is to fail the run.
        """
        outer: Place | None = surroundings().agent
        if outer is not None:
            return await self._go(outer.host, prompt, options, transcript, outer)
        host = self._host(deps)
        async with host.beside():
            return await self._go(host, prompt, options, transcript, None)

    async def stream(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentItem, None]:
        """Answer *prompt* and yield deltas of texts and tool calls, events, and the AgentReply last.

        If the reader stops or is cancelled, so is the run.

        Raises:
            InputError, LimitError, HarnessError: As `run`.
        """
        if surroundings().agent is not None or not isinstance(self._host(deps), StandaloneHost):
            raise STREAM_INSIDE(agent=self.name)

        def go(show: Callable[[Any], None]) -> Coroutine[Any, Any, AgentReply]:
            return self._go(StandaloneHost(deps=deps, emit=show), prompt, options, transcript, None)

        async with aclosing(shown(go)) as items:
            async for item in items:
                yield item

    @overload
    def run_sync(
        self, prompt: Prompt, /, *, output: None = None, **options: Unpack[AgentRunOptions]
    ) -> AgentReply[OutputT_co]: ...
    @overload
    def run_sync(self, prompt: Prompt, /, *, output: type[T], **options: Unpack[AgentRunOptions]) -> AgentReply[T]: ...
    @overload
    def run_sync(self, prompt: Prompt, /, *, output: Any = None, **options: Unpack[AgentRunOptions]) -> AgentReply: ...
    def run_sync(self, prompt: Prompt, /, **options: Any) -> AgentReply[Any]:
        """Answer *prompt* without `await`; the arguments are those of `Agent.run`.

        In a sync node that takes `ctx` it does the same as `ctx.call(agent.run, ...)`: calls are remembered and
        counted, and questions become interrupts of the thread. Elsewhere the agent runs on a private event loop while
        the caller waits. A loop that runs in the caller, as in a notebook, is blocked meanwhile.

        Raises:
            InputError: It was called in an async node or an async tool; await `run` there (`run-sync-in-loop`).
            GraphrtError: As `Agent.run`.
        """
        return wait_for(lambda: self.run(prompt, **options), self.name)

    def override(self, *, model: ChatModel | str) -> Override:
        """Replace this agent's model, and its fallbacks, by *model* inside a `with` block: for tests.

        `with agent.override(model=ScriptedModel([...])) as model:` applies to everything that the block calls: asyncio
        tasks, the worker threads that graphrt starts, graphs, and agents that have this one as a tool. Blocks nest, and
        the innermost decides; it also wins over the `models=` of a runtime. The result also decorates functions, sync
        and async.

        Args:
            model: The model, or a model name for `LiteLLMModel`.

        Raises:
            InputError: It is not a model (`no-model`).
        """
        return Override(self, model)

    def as_tool(
        self, name: str | None = None, *, description: str, approval: bool = False, timeout_s: float | None = None
    ) -> Tool:
        """Return this agent as a tool of another agent, which sends a question and reads the answer.

        Args:
            name: Name of the tool; by default the agent's.
            description: Tells the model when to use the tool.
            approval: Whether a person has to approve each call.
            timeout_s: Seconds that an answer may take. None: no limit.

        Raises:
            InputError: The name is not valid for a tool (`input`).
        """
        from graphrt.harness.agent.subagents import AgentTool

        return AgentTool(self, self.name if name is None else name, description, approval=approval, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.models[0].profile.name!r}, tools={list(self.tools.names)})"

    # -- one run -------------------------------------------------------------------------------------------------

    def _host(self, deps: Any) -> Host:
        node = running_context()  # called directly in a node, not as its harness: the agent still works for that node
        if node is None:
            warn_unseen(self.name)
            return StandaloneHost(deps=deps)
        host: Host = node._agents()
        return host

    def __graphrt_tools__(self, only: Collection[str] | None = None) -> tuple[Tool, ...]:
        """Return the tools that a run may call, including those of agents that may take over.

        `compile()`, and the beginning of a run, check their declared state access.

        Args:
            only: Names of the tools that a node offers, handoffs included; None for all.
        """
        by_id = {id(tool): tool for tool in self._offered() if only is None or tool.spec.name in only}
        reached: list[Agent[Any]] = [self]
        tools = list(by_id.values())
        for tool in tools:  # grows during the iteration
            handoff: Handoff | None = getattr(tool, "handoff", None)
            if handoff is not None and handoff.agent not in reached:
                reached.append(handoff.agent)
                tools += [added for added in handoff.agent._offered() if id(added) not in by_id]
                by_id |= {id(added): added for added in tools}
        return tuple(tools)

    def __graphrt_drive__(
        self, host: Host, prompt: Any, options: RunOptions, transcript: list[Message] | None
    ) -> Coroutine[Any, Any, AgentReply]:
        """Run for *host*; a graph calls this in place of `run`.

        A harness that a node calls is not part of the agent whose tool runs that node.
        """
        return self._go(host, prompt, options, transcript, None)

    async def _go(
        self,
        host: Host,
        prompt: Any,
        options: RunOptions,
        transcript: list[Message] | None,
        outer: Place | None,
    ) -> AgentReply:
        """Run below the agent run *outer*, if there is one."""
        tools = self._offered(options.get("tools"))
        for tool, below in needing_graph(self.__graphrt_tools__(tools.names), below=outer is not None):
            host.admit(self.name, tool, below=below)  # before anything is paid
        run_options: dict[str, Any] = {
            name: value for name, value in options.items() if name not in ("tools", "output")
        }
        request = _asked_first(prompt, {**run_options, "tools": tools.specs}, self._defaults)
        form = form_of(options.get("output"))
        messages: list[Message] = transcript if transcript is not None else []
        loop: Loop | None = None
        place: Place | None = None
        agent: Agent[Any] = self
        ledgers: dict[int, Ledger | None] = {}
        is_chat = outer is None and _is_conversation(prompt)
        try:
            while True:
                loop, place = await agent._part(
                    host, outer, request, tools, form, loop, place, messages, ledgers, is_chat=is_chat
                )
                with inside(agent=place):
                    reply = await agent._in_time(loop)
                    if loop.handoff is None or reply.stopped != ROUTED:  # it answered, or reached a limit
                        return await self._ended(agent, reply)
                handoff = loop.handoff
                if place.emit is not None:
                    place.emit(HandedOver(source=agent.name, target=handoff.agent.name))
                passed = self._passed(handoff, loop.said, run_options)
                agent = handoff.agent
                tools = agent._offered()
                request = _asked_first(passed, {"tools": tools.specs}, agent._defaults)
        except Exception as error:
            with suppress(AttributeError, TypeError):  # so that the conversation is not lost with the run
                error.messages = loop.said if loop is not None else request.messages  # type: ignore[attr-defined]
            raise
        finally:
            if outer is not None:
                outer.wrote.extend(() if place is None else place.wrote)
                if loop is not None and loop.usage is not None:
                    outer.took.append(loop.usage)
            elif loop is not None and place is not None and (place.wrote or loop.goto is not None):
                host.wrote(place.wrote, loop.goto)

    async def _ended(self, agent: Agent[Any], reply: AgentReply) -> AgentReply:
        """Return *reply* of *agent*, passed through its middleware and, after handoffs, that of the called agent."""
        reply = await ended(agent._layers, reply)
        return reply if agent is self else await ended(self._layers, reply)

    def _passed(
        self, handoff: Handoff, conversation: Sequence[Message], run_options: Mapping[str, Any]
    ) -> tuple[Message, ...]:
        """Return the part of *conversation*, which this agent began, for the agent of *handoff*.

        Args:
            handoff: The handoff.
            conversation: The conversation, with the instructions of this agent in front, if it has any.
            run_options: Options of the run.
        """
        has_instructions = run_options.get("system") is not None or self._defaults.get("system") is not None
        return handoff.passed(
            tuple(
                conversation[1:] if has_instructions and isinstance(conversation[0], SystemMessage) else conversation
            ),
            source=self.name,
        )

    async def _part(
        self,
        host: Host,
        outer: Place | None,
        request: ModelRequest,
        tools: ToolRegistry,
        form: OutputForm | None,
        previous: Loop | None,
        previous_place: Place | None,
        transcript: list[Message],
        ledgers: dict[int, Ledger | None],
        *,
        is_chat: bool,
    ) -> tuple[Loop, Place]:
        """Return the loop of this agent's part of a run, and its place.

        Args:
            host: The host.
            outer: Place of the agent that calls the requested one; None if none does.
            request: The first request of the part.
            tools: The tools that it offers.
            form: Form of the answer that the run asks for; None for the agent's own.
            previous: The part before, which ended with a handoff; None at the beginning of the run.
            previous_place: Its place.
            transcript: Receives every message at once.
            ledgers: Ledgers of the agents of the run, by their ids; filled here.
            is_chat: Whether the run continues a conversation of the node.
        """
        form = form or self._output
        models = models_of(self)
        for possible in (self._summariser, *(handoff.agent for handoff in self.handoffs)):
            if possible is not None:
                # Records its name, since a double for an agent that the run may need is not a mistake.
                models_of(possible)
        tools = tools_of(tools)  # names and schemas are unchanged, and so is the request
        path = "" if outer is None else outer.path
        request = as_known(host, path, self.name, request, form, models[0])
        path += of_run(self.name, request) if host.records else ""
        place = self._place(host, outer, path, ledgers, is_chat=is_chat)
        limits = self.limits
        if previous is not None and previous_place is not None:
            limits = replace(limits, handoffs=previous.limits.handoffs)  # that of the agent that was asked
            place = replace(place, wrote=previous_place.wrote, took=[])
        caller = Caller(models, place, retry=self._retry, cache=self._cache)
        tooling = Tooling(
            tools,
            LongResults(
                self.limits.result_chars, tools.names, [] if previous is None else previous.tooling.long_results.kept
            ),
            place,
            layers=self._layers,
            unknown=self._unknown,
            bad_arguments=self._bad_arguments,
            approve=self._approve,
            refuse=_refusal(models, caller),
        )
        ask: ModelCall = around_model(self._layers, caller.ask) if self._layers else caller.ask
        with inside(agent=place):
            if self._layers:
                request = replace(request, messages=await begun(self._layers, request.messages))
        has_checks = bool(self._input_checks or self._checks)
        loop = Loop(
            ask,
            tooling,
            request,
            limits=limits,
            form=form,
            transcript=transcript,
            took=caller.took,
            below=place.took,
            name=self.name,
            signals=None if self._signal is None else Signals(host, self._signal, place.path, self.name, caller),
            repeats=Repeats(self.limits.repeats),
            checks=Checks(self._input_checks, self._checks, place, self.name) if has_checks else None,
            compactor=self._compactor(place, models[0], request),
        )
        if previous is not None:
            loop.earlier, loop.used, loop.handed = previous.said, previous.usage, previous.handed + 1
            loop.prompted = previous.prompted if previous.prompted is not None else len(previous.request.messages)
        return loop, place

    def _compactor(self, place: Place, model: ChatModel, request: ModelRequest) -> Compactor | None:
        spec = self._compaction
        if spec is None:
            return None
        return Compactor(spec, self._summariser, place, self.name, model.profile, request.messages)

    async def _in_time(self, loop: Loop) -> AgentReply:
        seconds = self.limits.seconds
        if seconds is None:
            return await loop.run()
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                return await loop.run()
        except TimeoutError:
            if not scope.expired():
                raise
        return loop.stopped("seconds")

    def _place(
        self, host: Host, outer: Place | None, path: str, ledgers: dict[int, Ledger | None], *, is_chat: bool
    ) -> Place:
        """Return the place of a new run below the agent *outer*, or below the agent that runs the graph.

        Args:
            host: The host.
            outer: Place of the agent that calls this one; None if none does.
            path: Path of the run without the number that distinguishes it from equal ones.
            ledgers: Ledgers of the agents of the run, by their ids; filled here. The first one is that of the agent
                that was asked, whose budget bounds all others.
            is_chat: Whether the node gave the agent a list of messages.
        """
        run_by = surroundings().above if outer is None else None
        depth = outer.depth + 1 if outer is not None else run_by.depth if run_by is not None else 0
        max_depth = depth + self.limits.depth
        if outer is not None:
            max_depth = min(outer.most_depth, max_depth)
        elif run_by is not None:
            max_depth = min(run_by.most_depth, max_depth)
        if outer is not None and depth > outer.most_depth:
            raise NESTED_TOO_DEEP(
                called=f"Agent {self.name!r}",
                depth=depth,
                limit=outer.most_depth,
                where=" > ".join((*outer.names, self.name)),
            )
        names = (*(outer.names if outer is not None else ()), self.name)
        parent = next(iter(ledgers.values())) if ledgers else outer.ledger if outer is not None else host.ledger
        above_shows = outer.emit if outer is not None else host.emit
        show = watched(above_shows, self._sinks, agent=self.name, below=outer is not None)
        ledger = ledgers.get(id(self), parent)
        if self._budget is not None and id(self) not in ledgers:
            ledger = Ledger(self._budget, of=f"agent {self.name!r}", parent=parent, warn=show)
        ledgers[id(self)] = ledger
        path = f"{path}.{number(host, path)}/"
        has_sinks = bool(self._sinks) or (outer is not None and outer.has_sinks)
        return Place(
            host=host,
            depth=depth,
            seen=() if outer is None else outer.seen,
            path=path,
            names=names,
            most_depth=max_depth,
            ledger=ledger,
            emit=show,
            has_sinks=has_sinks,
            is_chat=is_chat and not depth,
        )

    # -- what is asked -------------------------------------------------------------------------------------------

    def _offered(self, requested: Any = None) -> ToolRegistry:
        """Return the tools of the agent, handoffs included, or the *requested* ones of them: names, specs or tools."""
        tools = self.tools
        if self.handoffs:
            tools = ToolRegistry((*self.tools, *(handoff.tool for handoff in self.handoffs)))
        if requested is None:
            return tools
        if isinstance(requested, str):
            return tools.only(requested)  # raises: a string is not a list of tools
        return tools.only([name_of(tool) for tool in requested])


def _refusal(models: tuple[ChatModel, ...], caller: Caller) -> Callable[[ToolCall, str], ScriptError | None] | None:
    """Return the function that rejects a wrong tool call of a scripted model; None if no model is a double.

    A recorded reply does not come from the double: it was made earlier, perhaps by an older version of the program.
    """
    doubles = [model for model in models if hasattr(model, "refuse_call")]
    if not doubles:
        return None
    double: Any = doubles[0]
    return lambda call, problem: None if caller.remembered else double.refuse_call(call, problem)


def _summariser(compaction: Compaction, agent: str) -> Agent[Any] | None:
    """Return the agent that summarises for the agent named *agent*; None if there is none.

    Raises:
        InputError: `summarise` is neither a model nor an agent (`no-model`).
    """
    summariser: Any = compaction.summarise
    if summariser is None or hasattr(summariser, "__graphrt_drive__"):  # an agent
        harness: Agent[Any] | None = summariser
        return harness
    return Agent(summariser, name=f"{agent}-summary", system=SUMMARISE, max_tokens=max(16, compaction.tokens // 4))


def _asked_first(prompt: Any, run_options: Mapping[str, Any], defaults: RunOptions) -> ModelRequest:
    """Return the request that begins a run: the agent's own instructions, then the prompt (decision 0038).

    Instructions come first, before system messages of *prompt*. They are only left out if *prompt* begins with an
    identical message, so that `reply.messages` of the same agent can be continued without a second copy.

    Args:
        prompt: As given to the run.
        run_options: Options of the run.
        defaults: Options of the agent.

    Raises:
        InputError: The prompt or an option is wrong.
    """
    options: Any = run_options
    if not _is_conversation(prompt):
        return ModelRequest.build(prompt, options, defaults=defaults)
    messages = tuple(prompt)
    if not any(isinstance(message, SystemMessage) for message in messages):
        return ModelRequest.build(messages, options, defaults=defaults)
    messages = _without_form(messages)
    request = ModelRequest.build(messages, options, defaults=defaults)
    own, *rest = request.messages
    if len(rest) == len(messages) and isinstance(rest[0], SystemMessage) and rest[0].text == own.text:
        return replace(request, messages=tuple(rest))
    return request


def _is_conversation(prompt: Any) -> bool:
    """Return whether *prompt*, as given to a run, is a list of messages."""
    return hasattr(prompt, "__iter__") and not issubclass(type(prompt), (str, Mapping))


def _without_form(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *messages* without a request for a form of answer at the end of its first system message.

    An earlier run added that request, for its own answer.
    """
    first = messages[0]
    if not isinstance(first, SystemMessage):
        return messages
    text = without_words(first.text)
    if text == first.text:
        return messages
    return (replace(first, text=text), *messages[1:]) if text else messages[1:] or messages
