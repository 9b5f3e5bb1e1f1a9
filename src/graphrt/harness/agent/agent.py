"""The Agent: what it is made of, and how one run of it begins and ends. The loop itself is in `_loop`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, final, overload

from graphrt._ambient import NODE, PARENT_AGENT, live
from graphrt.errors import AgentLimitError, InputError, count
from graphrt.harness._output.form import form_of
from graphrt.harness.agent._arguments import (
    checked_call,
    checked_choice,
    checked_fallbacks,
    checked_kind,
    checked_layers,
    checked_model,
    checked_name,
    checked_retry,
    checked_sinks,
)
from graphrt.harness.agent._digest import as_known, of_run
from graphrt.harness.agent._instructions import asked_first
from graphrt.harness.agent._loop import Loop
from graphrt.harness.agent._model_calls import Caller
from graphrt.harness.agent._model_overrides import Replaceable, models_of
from graphrt.harness.agent._outside_context import tell_unseen
from graphrt.harness.agent._services import HERE, AgentServices, Place, StandaloneServices
from graphrt.harness.agent._sinks import watched
from graphrt.harness.agent._stream import shown
from graphrt.harness.agent._sync import RunsSync
from graphrt.harness.agent._tool_calls import Approve, OnBadCall, Tooling
from graphrt.harness.agent.cache import ResponseCache
from graphrt.harness.agent.events import AgentItem, EventSink
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.agent.middleware import Middleware, ModelCall, around_model, begun, ended
from graphrt.harness.budget._budget import Budget
from graphrt.harness.budget._ledger import Ledger
from graphrt.harness.messages import Message, Prompt
from graphrt.harness.protocol import AgentReply, ChatModel, OutputT_co
from graphrt.harness.request import AllButOutput, ModelRequest, RunOptions
from graphrt.harness.tools.registry import AnyTool, ToolRegistry
from graphrt.limits import RetryPolicy

if TYPE_CHECKING:
    from graphrt.harness.agent._options import AgentOptions

__all__ = ["Agent"]

T = TypeVar("T")

_LIMITS: Final = "Give AgentLimits(model_calls=...)."
_RETRY: Final = RetryPolicy(attempts=4, wait_initial_s=0.2)


@final
class Agent(Replaceable, RunsSync[OutputT_co], Generic[OutputT_co]):
    """The standard harness: asks a model, does the tool calls that it asks for, and goes on until it has answered.

    `Agent(model, output=Person)` is an `Agent[Person]`, whose replies have a Person as their output.

    An agent holds nothing of a run: it may be used from several tasks, event loops and worker threads at once. In a
    graph it is the run's harness (`harness=agent`) or is bound to a node (`ctx.bind(agent)`): then model calls and tool
    calls that ended are never made again after a pause or a crash, questions become interrupts, and what happens
    appears on the graph's stream and in its accounts.

    Args:
        model: The model, or the name of one for `LiteLLMModel`.
        tools: What the model may ask for: tools, or typed functions.
        system: Instructions; always the first message of a model call, before system messages of the prompt.
        name: Of the agent, in events and errors.
        output: The type that the answer has to be; `AgentReply.output` is a value of it. With an OutputSpec the answer
            has to be JSON, and `AgentReply.output` is what it says: whether that fits the schema is not checked.
        limits: Bounds of a run.
        retry: When a failed model call is repeated: by default 4 attempts for what may pass, never sooner than the
            provider asks for, and not at all if that is in more than two minutes. A number is one of attempts; None
            never repeats.
        fallbacks: Models that are asked in turn where the one before has failed for good.
        cache: Responses that are known already.
        middleware: Layers around model calls and tool calls, outermost first.
        budget: Of a run of this agent, those that it calls included.
        unknown_tool: What becomes of a call of a tool that was not offered: "return" tells the model, "raise" raises.
        invalid_arguments: What becomes of arguments that do not fit: as above.
        approve: Decides about calls that need approval; without it they are questions to a person, in a graph.
        max_tokens: Bound of one answer, in tokens.
        temperature: Passed to the model.
        options: What only this provider understands.
        sinks: Get what the agent does, in order.

    Raises:
        InputError: An argument is wrong.
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
    ) -> None:
        self.models: Final[tuple[ChatModel, ...]] = (checked_model(model), *checked_fallbacks(fallbacks))
        """The model, and those that are asked when it fails."""
        self.tools: Final = ToolRegistry(tools)
        self.name: Final = checked_name(name)
        self.limits: Final = checked_kind("limits", limits, AgentLimits, _LIMITS) or AgentLimits()
        self._output = form_of(output)
        self._retry = checked_retry(retry)
        self._cache = checked_kind("cache", cache, ResponseCache, "Give ResponseCache().")
        self._layers = checked_layers(middleware)
        self._budget = checked_kind("budget", budget, Budget, "Give Budget(tokens=...).")
        self._unknown = checked_choice("unknown_tool", unknown_tool)
        self._bad_arguments = checked_choice("invalid_arguments", invalid_arguments)
        self._approve = checked_call("approve", approve, "Give a function of a ToolCall that returns True or False.")
        self._defaults: RunOptions = {
            "system": system,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "options": options,
        }
        self._sinks = checked_sinks(sinks)
        ModelRequest.build("check", self._defaults)

    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: None = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply[OutputT_co]: ...
    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: type[T],
        **options: Unpack[AllButOutput],
    ) -> AgentReply[T]: ...
    @overload
    async def run(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        output: Any = None,
        **options: Unpack[AllButOutput],
    ) -> AgentReply: ...
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
            prompt: A text, or a conversation to go on with.
            deps: What tools reach as `ToolContext.deps`; in a graph those of the run.
            transcript: Gets every message as it is said, so that it is there however the run ends.
            **options: See `RunOptions`; `tools` are those that this run may use, by their specs or names.

        Raises:
            InputError: An argument is wrong.
            AgentLimitError: A limit was reached.
            BudgetExceededError: A budget was.
            HarnessError: A model call, or a tool that may fail the run, failed.
        """
        host = self._host(deps)
        go = partial(self._go, prompt, options, host, transcript)
        return await (go() if HERE.get() is not None else host.beside(go))

    async def stream(
        self,
        prompt: Prompt,
        /,
        *,
        deps: Any = None,
        transcript: list[Message] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentItem, None]:
        """Answer *prompt* and show how: deltas of texts and tool calls, what happens, and the AgentReply last.

        If the reader stops or is cancelled, so is the run.

        Raises:
            InputError, LimitError, HarnessError: As `run`.
        """
        if HERE.get() is not None or not isinstance(self._host(deps), StandaloneServices):
            raise InputError(
                "Agent.stream() was called inside another agent, or in a node of a graph.",
                fix="Use run(): what it does appears on the stream of the outermost agent, or of the graph. "
                "In a node, ctx.bind(agent).stream(...) yields it there.",
            )

        def go(show: Callable[[Any], None]) -> Coroutine[Any, Any, AgentReply]:
            return self._go(prompt, options, StandaloneServices(deps=deps, emit=show), transcript)

        async with aclosing(shown(go)) as items:
            async for item in items:
                yield item

    def as_tool(
        self, name: str | None = None, *, description: str, approval: bool = False, timeout_s: float | None = None
    ) -> AnyTool:
        """This agent as a tool of another one: it is asked a question, and its answer is told.

        Args:
            name: Of the tool; by default the agent's.
            description: Tells the model what it is good for.
            approval: Whether a person has to agree to each call.
            timeout_s: Seconds that an answer may take.

        Raises:
            InputError: The name is none for a tool (`bad-tool`).
        """
        from graphrt.harness.agent.subagents import AgentTool

        return AgentTool(self, self.name if name is None else name, description, approval=approval, timeout_s=timeout_s)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, model={self.models[0].profile.name!r}, tools={list(self.tools.names)})"

    # -- one run -------------------------------------------------------------------------------------------------

    def _host(self, deps: Any) -> AgentServices:
        here = HERE.get()
        if isinstance(here, Place):
            return here.host
        if here is not None:
            return here
        node = live(NODE.get())  # called in a node by itself: it works for that node all the same
        if node is None:
            tell_unseen(self.name)
            return StandaloneServices(deps=deps)
        host: AgentServices = node._host()
        return host

    async def __graphrt_drive__(self, host: AgentServices, prompt: Any, options: RunOptions) -> AgentReply:
        """Run for *host*: how a graph drives an agent."""
        given: dict[str, Any] = dict(options)
        transcript = given.pop("transcript", None)
        return await self._go(prompt, given, host, transcript)  # type: ignore[arg-type]  # checked there

    async def _go(
        self, prompt: Any, options: RunOptions, host: AgentServices, transcript: list[Message] | None
    ) -> AgentReply:
        tools = self._offered(options)
        given: dict[str, Any] = {name: value for name, value in options.items() if name not in ("tools", "output")}
        requests = asked_first(prompt, {**given, "tools": tools.specs}, self._defaults)
        form = form_of(options.get("output")) or self._output
        models = models_of(self)
        request = as_known(host, _path(), self.name, requests, form, models[0])
        place = self._place(host, of_run(self.name, request) if host.remembers else "")
        caller = Caller(models, place, retry=self._retry, cache=self._cache, emit=place.emit)
        tooling = Tooling(
            tools,
            place,
            layers=self._layers,
            unknown=self._unknown,
            bad_arguments=self._bad_arguments,
            approve=self._approve,
            emit=place.emit,
        )
        ask: ModelCall = around_model(self._layers, caller.ask) if self._layers else caller.ask
        said: list[Message] = transcript if transcript is not None else []
        above, token = HERE.get(), HERE.set(place)
        loop: Loop | None = None
        try:
            if self._layers:
                request = replace(request, messages=await begun(self._layers, request.messages))
            loop = Loop(
                ask,
                tooling,
                request,
                limits=self.limits,
                form=form,
                transcript=said,
                took=caller.took,
                below=place.took,
                name=self.name,
            )
            return await ended(self._layers, await self._in_time(loop))
        except Exception as error:
            with suppress(AttributeError, TypeError):  # what was said is not lost with the run
                error.messages = loop.said if loop is not None else request.messages  # type: ignore[attr-defined]
            raise
        finally:
            HERE.reset(token)
            if isinstance(above, Place) and loop is not None and loop.usage is not None:
                above.took.append(loop.usage)

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

    def _place(self, host: AgentServices, digest: str) -> Place:
        above = HERE.get()
        inside = above if isinstance(above, Place) else None
        run_by = PARENT_AGENT.get() if inside is None else None
        depth = inside.depth + 1 if inside is not None else run_by.depth if run_by is not None else 0
        most = depth + self.limits.depth
        if inside is not None:
            most = min(inside.most_depth, most)
        elif run_by is not None:
            most = min(run_by.most_depth, most)
        if inside is not None and depth > inside.most_depth:
            raise AgentLimitError(
                f"Agent {self.name!r} is called {count(depth, 'level')} deep.",
                where=" > ".join((*inside.names, self.name)),
                known=f"depth={inside.most_depth}",
                fix="Raise AgentLimits(depth=...) of the agents above, if the nesting is meant.",
                limit=inside.most_depth,
            )
        names = (*(inside.names if inside is not None else ()), self.name)
        parent = inside.ledger if inside is not None else host.ledger
        above_shows = inside.emit if inside is not None else host.emit
        show = watched(above_shows, self._sinks, agent=self.name, below=inside is not None)
        ledger = parent
        if self._budget is not None:
            ledger = Ledger(self._budget, of=f"agent {self.name!r}", parent=parent, warn=show)
        path = f"{_path()}{digest}"
        path = f"{path}.{host.number(path)}/"
        return Place(host=host, depth=depth, path=path, names=names, most_depth=most, ledger=ledger, emit=show)

    # -- what is asked -------------------------------------------------------------------------------------------

    def _offered(self, options: RunOptions) -> ToolRegistry:
        wanted: Any = options.get("tools")
        if wanted is None:
            return self.tools
        if isinstance(wanted, str):
            return self.tools.only(wanted)  # refused there
        return self.tools.only([name_of(one) for one in wanted])


def _path() -> str:
    """The path of the agent that is running here; nothing above the first one."""
    here = HERE.get()
    return here.path if isinstance(here, Place) else ""


def name_of(tool: Any) -> str:
    """The name of a tool that is given by its name or spec, as a tool or as the function that became one."""
    if isinstance(tool, str):
        return tool
    spec = getattr(tool, "spec", tool)
    name: str = getattr(spec, "name", None) or getattr(tool, "__name__", "") or repr(tool)
    return name
