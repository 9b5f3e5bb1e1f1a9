"""`ctx.harness`: a harness bound to one task, whose calls are recorded, counted and shown on the run's stream.

Two kinds are bound. An `Agent` knows graphs: it is driven with the task as its host, and each of its model and tool
calls is recorded. Any other harness is plain: its whole reply is recorded as one call, by the chain of links that model
calls of agents have (`harness.agent._model_calls`). Recording and counting themselves belong to the host (`_agents.task_host`).

Terms of this file:

- `prompt` is a text or a list of messages; `options` are the keyword arguments of `run`, such as `output` or `tools`.
- A reply is *known* if it was recorded by an earlier execution of the task, before a pause or a crash.
- `surroundings()` are those of the running code: `instead` is set while a run is executed again from its log, and is a
  function that gives the logged reply; `watcher` is the sink that sees model calls, for telemetry.

For the terms, see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, final, overload

from graphrt._ambient import surroundings
from graphrt.errors import a_type, names
from graphrt.errors._codes.agents import (
    HARNESS_CANNOT_STREAM,
    STREAM_WITHOUT_REPLY,
    TOOL_NOT_ALLOWED,
    USAGE_CANNOT_BE_COUNTED,
)
from graphrt.harness._harness_checks import check_real, usage_problem
from graphrt.harness._output.exchange import with_output
from graphrt.harness._output.form import OutputForm
from graphrt.harness.agent._digest import of_call
from graphrt.harness.agent._host import Host, number
from graphrt.harness.agent._model_calls import Link, Next, PendingCall, Recorded, ask_model, chained, within
from graphrt.harness.protocol import AgentReply, ModelProfile, OutputT_co
from graphrt.harness.request import ModelRequest, TranscribedOptions
from graphrt.harness.tools.registry import name_of

if TYPE_CHECKING:
    from graphrt.harness.budget._ledger import Ledger
    from graphrt.harness.messages import Prompt

__all__ = ["BoundHarness"]

T = TypeVar("T")
Show = Callable[[Any], None]
"""Shows an item of a reply, or the whole reply, to the reader of a stream."""
_NO_REQUEST: Final[Any] = None
"""Placeholder for the request to a plain harness, which is built only to compute the upper bound that a budget
reserves."""


@final
class BoundHarness(Generic[OutputT_co]):
    """A harness for one task: the run's as `ctx.harness`, or another one as `ctx.bind(harness)`.

    Replies of models are recorded with the task. If the node runs again after a pause or a crash, the same call gets
    the same reply, and nothing is paid again. After an attempt that failed, models are called again.
    Other attributes of the harness are passed through unchanged. `ctx.bind()` of an `Agent[Person]` is a
    `BoundHarness[Person]`.

    Args:
        harness: The harness that is called.
        host: The task, which records and counts.
        tools: Tools that an agent may use in this node; None leaves the choice to the agent.
        call: Runs an async function from a sync node.
        publish: Shows an item on the run's stream, mode `messages`.
    """

    __slots__ = ("_call", "_harness", "_host", "_publish", "_tools")

    def __init__(
        self,
        harness: Any,
        host: Host,
        *,
        tools: Sequence[Any] | None,
        call: Callable[..., Any],
        publish: Callable[[Any], None],
    ) -> None:
        self._harness = harness
        self._host = host
        self._tools = tools
        self._call = call
        self._publish = publish

    @overload
    async def run(
        self, prompt: Prompt, /, *, output: None = None, **options: Unpack[TranscribedOptions]
    ) -> AgentReply[OutputT_co]: ...
    @overload
    async def run(
        self, prompt: Prompt, /, *, output: type[T], **options: Unpack[TranscribedOptions]
    ) -> AgentReply[T]: ...
    @overload
    async def run(self, prompt: Prompt, /, *, output: Any, **options: Unpack[TranscribedOptions]) -> AgentReply: ...
    async def run(self, prompt: Any, /, **options: Any) -> AgentReply[Any]:
        """Run the harness and return its reply; see `graphrt.harness.AgentHarness.run` for the arguments.

        Raises:
            NodeError: The attempt of the node has ended or was given up (`attempt-over`).
            InputError: An agent's tool is not allowed in the node (`tool-not-allowed`).
            BudgetExceededError: A budget does not allow the call.
            BadResponseError: The reply has usage that cannot be counted.
        """
        return await self._go(prompt, options, self._host.emit)

    @overload
    def run_sync(
        self, prompt: Prompt, /, *, output: None = None, **options: Unpack[TranscribedOptions]
    ) -> AgentReply[OutputT_co]: ...
    @overload
    def run_sync(
        self, prompt: Prompt, /, *, output: type[T], **options: Unpack[TranscribedOptions]
    ) -> AgentReply[T]: ...
    @overload
    def run_sync(self, prompt: Prompt, /, *, output: Any, **options: Unpack[TranscribedOptions]) -> AgentReply: ...
    def run_sync(self, prompt: Any, /, **options: Any) -> AgentReply[Any]:
        """Run the harness from a sync node; short for `ctx.call(ctx.harness.run, prompt, ...)`.

        Raises:
            NodeError: Called in an async node, which awaits `run` instead (`call-in-async-node`).
            GraphrtError: As `run`.
        """
        reply: AgentReply[Any] = self._call(self.run, prompt, **options)
        return reply

    async def stream(self, prompt: Any, /, **options: Any) -> AsyncIterator[Any]:
        """Run the harness and yield the pieces of its reply, such as text deltas; the last item is the AgentReply.

        The arguments are those of `run`. Each item is also shown on the run's stream, mode `messages`.

        Raises:
            InputError: The harness has no `stream` (`no-stream`), or its stream has no final reply (`no-final-reply`).
            GraphrtError: As `run`.
        """
        from graphrt.harness.agent._stream import shown  # turns a run that shows items into an async generator

        if not hasattr(self._harness, "stream"):
            raise HARNESS_CANNOT_STREAM(node=self._host.node, harness=self._harness)
        publish = self._publish

        async def go(show: Show) -> AgentReply:
            """Run the harness; *show* hands an item to the caller of `stream`."""

            def both(item: Any) -> None:
                """Show *item* to the reader of the run's stream, and to the caller of `stream`."""
                publish(item)
                show(item)

            return await self._go(prompt, options, both)

        async with aclosing(shown(go)) as items:
            async for item in items:
                yield item

    async def _go(self, prompt: Any, options: dict[str, Any], show: Show | None) -> AgentReply:
        """Run an agent with the task as its host, or a plain harness as one call, possibly beside others of the node.

        The common part of `run` and `stream`.

        Raises:
            NodeError: The attempt has ended or was given up (`attempt-over`).
        """
        # `beside` lets a run that pauses to ask a person wait for the other runs first, so that their replies are kept.
        async with self._host.beside():
            drive = getattr(self._harness, "__graphrt_drive__", None)  # a method that agents have for this call
            if drive is None:
                return await self._plain(prompt, options, show)
            if self._tools is not None:
                options["tools"] = self._allowed(options.get("tools"), self._tools)
            host = self._host
            if show != host.emit:
                host = copy(host)  # shares the counters and the calls in flight
                host.emit, host.is_read = show, True
            reply: AgentReply = await drive(host, prompt, options, options.pop("transcript", None))
            return reply

    def _allowed(self, requested: Any, tools: Sequence[Any]) -> Sequence[Any]:
        """Return the tools that the agent may use: the *requested* ones, or all *tools* of the node if that is None.

        Args:
            requested: The option `tools=` of the call: names, specs, tools or functions. A str is passed on unchanged:
                the agent refuses it, because a text is not a list of tools.
            tools: Those that the node allows.

        Raises:
            InputError: The node does not allow one of the wanted tools (`tool-not-allowed`).
        """
        if requested is None or isinstance(requested, str):
            return tools if requested is None else requested
        allowed = {name_of(tool) for tool in tools}
        refused = [name for tool in requested if (name := name_of(tool)) not in allowed]
        if refused:
            raise TOOL_NOT_ALLOWED(node=self._host.node, tool=refused[0], allowed=names(allowed) or "none")
        return list(requested)

    async def _plain(self, prompt: Any, options: dict[str, Any], show: Show | None) -> AgentReply:
        """Run a harness that is not an agent: its reply is recorded as one model call.

        An `output` option is handled here: the harness is asked for data of that form, and its text is parsed.
        """
        host, harness = self._host, self._harness
        form = _form(options)
        # The key is a digest of the request and of how often it was made before. So the order of different calls does
        # not matter when the node runs again (decision 0033). It has the form of an agent's: the path of a run, and a
        # call in it.
        digest = of_call(prompt, options)
        call = PendingCall(_NO_REQUEST, f"{digest}.{number(host, digest)}/1", of_model=False, prompt=prompt)
        # A graph that is a harness has this method: a budget holds its model calls one by one.
        is_graph = hasattr(harness, "__graphrt_within__")

        async def chosen(call: PendingCall, next_: Next) -> AgentReply:
            """Check that the harness may be called before its profile is read: the link in place of `Fallback`."""
            if surroundings().instead is None:
                check_real(harness)  # raises if this process forbids real model requests, as test suites may
            call.ask(_AsModel(harness, prompt, options, host.ledger))
            if host.ledger is not None and not is_graph:
                # `defaults`: options that the harness uses if a call does not give them
                defaults = getattr(harness, "defaults", None)
                call.request = ModelRequest.build(prompt, options, defaults=defaults)  # type: ignore[arg-type]  # checked there
            return await next_(call)

        def streams() -> bool:
            """Return whether the reply is streamed, because the caller of `stream` or a reader of the run reads it."""
            return show != host.emit or bool(host.stream_models if host.emit is None else host.streams)

        links: list[Link] = [Recorded(host, host.ledger), chosen, *(() if is_graph else within(host.ledger, host))]
        with host.recorded_whole():
            chain = chained(links, partial(ask_model, show, streams, host if form is None else None, _checked))
            reply = await chain(call)
        if call.source == "journal" and show is not None:  # a new reply was shown by `ask_model`
            show(reply)
        if form is None:
            return reply
        where = f"node {host.node!r}"
        parsed: AgentReply = with_output(reply, form, of=type(harness).__name__, where=where, prompt=prompt)
        return parsed

    def __getattr__(self, name: str) -> Any:
        """Return the attribute *name* of the wrapped harness, such as its `profile`."""
        return getattr(self._harness, name)


@final
class _AsModel:
    """A plain harness in the place of a model, which answers one prompt."""

    def __init__(self, harness: Any, prompt: Any, options: dict[str, Any], ledger: Ledger | None) -> None:
        self.harness = harness
        within_budget = getattr(harness, "__graphrt_within__", None)
        run = harness.run if within_budget is None else partial(within_budget, ledger)
        self.invoke: Callable[[Any], Any] = lambda _request: run(prompt, **options)
        if hasattr(harness, "stream"):
            self.stream: Callable[[Any], Any] = lambda _request: harness.stream(prompt, **options)

    @property
    def profile(self) -> ModelProfile:
        """Profile of the harness; see `PendingCall.profile`."""
        return getattr(self.harness, "profile", None) or ModelProfile(name=type(self.harness).__name__)


def _checked(call: PendingCall, reply: Any, streamed: bool) -> AgentReply:  # noqa: FBT001 - as `ask_model` calls it
    """Return *reply* of a plain harness, if it can be counted.

    Raises:
        InputError: It is not the last item of a stream (`no-final-reply`).
        BadResponseError: Its usage cannot be counted.
    """
    harness = call.model.harness
    if streamed and (reply is None or not hasattr(reply, "usage")):  # replies have it, pieces of replies do not
        ended = "it yielded nothing" if reply is None else f"its last item is {a_type(reply)}"
        raise STREAM_WITHOUT_REPLY(harness=harness, ended=ended)
    # A negative count would let a budget grow, and with a NaN it would never be exceeded.
    problem = usage_problem(getattr(reply, "usage", None))
    if problem is not None:
        raise USAGE_CANNOT_BE_COUNTED(harness=harness, problem=problem, billed=True)  # the harness has replied
    checked: AgentReply = reply
    return checked


def _form(options: dict[str, Any]) -> OutputForm | None:
    """Return the form of answer that *options* ask for, or None, and replace the option by a plain description of it.

    The option `output=` may be any type. A plain harness gets an `OutputSpec` instead: a name and a JSON schema.
    """
    if options.get("output") is None:
        return None
    form = OutputForm(options["output"])
    options["output"] = form.spec
    return form
