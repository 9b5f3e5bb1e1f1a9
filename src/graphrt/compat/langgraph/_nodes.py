"""graphrt node functions that run LangGraph nodes.

    state, ctx ── read ──> input ── call ──> what it returned ── outcome_of ──> updates, targets of Commands
                                                                  └─ branches, on the task's own writes ──> targets

A node without branches returns its update, and follows the static edges of the converted graph. A node with branches,
or one that returned a Command, returns a `Command` of graphrt with all of its targets: those of its Command, of its
branches and of its static edges, which LangGraph follows too. A `Command` of graphrt also replaces waiting edges. So a
node that is the source of a waiting edge writes its targets to the field `BRANCHES` instead, from which a router reads
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, final

from langgraph.types import Send as LangGraphSend
from pydantic import BaseModel

from graphrt._drivers.context import Context
from graphrt.commands import PARENT, Command, Send
from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._called import CALLED, CalledGraphs
from graphrt.compat.langgraph._calls import async_caller, caller, has_sync
from graphrt.compat.langgraph._fields import BRANCHES, HANDED_UP, Fields, plain
from graphrt.compat.langgraph._messages import drawn_id
from graphrt.compat.langgraph._policies import as_langgraph
from graphrt.compat.langgraph._read import END, ROOT, Branch, GraphDescription, Node
from graphrt.compat.langgraph._results import Outcome, destinations, outcome_of
from graphrt.compat.langgraph._surroundings import Surroundings, TaskConfig, drained, question

UNTRACKED = "__untracked__"
"""Key in the argument of a Send: names of its untracked fields, which the task takes from the state."""


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads the input of a node or router from the state, according to its input schema."""

    keys: tuple[str, ...]
    managed: tuple[tuple[str, Any], ...]
    make: Callable[..., Any] | None
    """The input schema, if it is a model or a dataclass."""
    whole: bool
    """Whether the input is a mapping of all fields of the state."""

    def read(self, values: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
        """Return the input; channels without a value are left out, as in LangGraph."""
        if self.whole:
            return {**values}
        if self.keys == (ROOT,):
            return values.get(ROOT)
        inputs = {key: values[key] for key in self.keys if key in values}
        if self.managed:
            scratchpad = config["configurable"].get(lg.CONFIG_KEY_SCRATCHPAD)
            for key, manager in self.managed:
                inputs[key] = manager.get(scratchpad) if scratchpad is not None else None
        return inputs if self.make is None else self.make(**inputs)


def reader_of(graph: GraphDescription, schema: Any, fields: Fields | None = None) -> Reader:
    """Return the reader for an input schema; *fields* are those of the graph."""
    keys: Sequence[str] = tuple(graph.builder.schemas[schema])
    is_class = lg.is_a(schema, type) and (issubclass(schema, BaseModel) or dataclasses.is_dataclass(schema))
    kind: Any = schema
    read = tuple(key for key in keys if key in graph.channels)
    whole = fields is not None and set(read) == set(fields.state.__annotations__) and not is_class and read != (ROOT,)
    return Reader(
        keys=read,
        whole=whole and len(read) == len(keys),
        managed=tuple((key, graph.managed[key]) for key in keys if key in graph.managed),
        make=kind if is_class and tuple(keys) != (ROOT,) else None,
    )


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Router:
    """A branch of a node, evaluated in the node's task."""

    reader: Reader
    passes: bool
    """Whether it also sees keys that the node returned but the state lacks."""
    call: Callable[[Any, dict[str, Any]], Any]
    is_async: bool
    path_map: Mapping[Any, str] | None
    plain: bool
    """Whether it is a sync function of the state alone."""

    def given(self, values: Mapping[str, Any], returned: Any, config: dict[str, Any]) -> Any:
        """Return the input of the router from *values*, the state with the writes of the task."""
        value = self.reader.read(values, config)
        if self.passes and lg.is_a(value, dict) and lg.is_a(returned, dict):
            return {**returned, **value}
        return value


def router_of(graph: GraphDescription, branch: Branch, fields: Fields) -> Router:
    """Return the router of a conditional edge."""
    source = graph.nodes.get(branch.source)
    schema = branch.input_schema or (graph.state_schema if source is None else source.input_schema)
    is_async = lg.is_a(branch.runnable, lg.RunnableCallable) and branch.runnable.func is None
    call: Any = (async_caller if is_async else caller)(branch.runnable, traced=True)
    reader = reader_of(graph, schema, fields)
    accepts = bool(branch.accepts) or branch.runnable.__class__ is not lg.RunnableCallable
    return Router(
        reader=reader,
        plain=not (is_async or accepts or reader.managed),
        passes=branch.input_schema is None,
        call=call,
        is_async=is_async,
        path_map=branch.path_map,
    )


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The data for the function of one node."""

    node: Node
    fields: Fields
    surroundings: Surroundings
    reader: Reader
    routers: tuple[Router, ...]
    static: tuple[str, ...]
    """Targets of its static edges, END left out."""
    arrives: bool
    """Whether it is the source of a waiting edge."""
    keeps: bool
    """Whether the node calls a graph that keeps its state (`_called`)."""
    routed: bool
    """Whether routers of the converted graph evaluate its branches. They may if its task runs alone in its superstep,
    because the folded state that they see is then the snapshot with the task's own writes."""
    handled: Mapping[str, Node]
    """The nodes of the graph; a handler receives their errors."""
    above: tuple[str, ...] | None
    """In a nested graph: targets of the static edges of its node in the parent; None at the top."""

    def given(self, values: Mapping[str, Any], ctx: Context, config: dict[str, Any]) -> Any:
        """Return the input of the node: the argument of the Send that started the task, else its part of the state."""
        arg = ctx.arg
        if self.node.is_error_handler and ctx.failures:
            arg = ctx.failures[0].arg
        if arg is None:
            return self.reader.read(values, config)
        if arg.__class__ is dict and UNTRACKED in arg:
            arg = {**arg}
            for name in arg.pop(UNTRACKED):
                if name in values:
                    arg[name] = values[name]
        return arg

    def config(self, values: Mapping[str, Any], ctx: Context, writes: list[Any]) -> dict[str, Any]:
        """Return the config of the task; *writes* collects what the node writes besides its result."""
        node = self.node
        config = self.surroundings.config(ctx, node.name, node.metadata, partial(_read_state, values), writes)
        own: dict[str, Any] = config["configurable"]
        if node.is_error_handler and ctx.failures:
            failure = ctx.failures[0]
            error = as_langgraph(failure.error, self.handled[failure.node])
            own[lg.CONFIG_KEY_NODE_ERROR] = lg.HandledError(node=failure.node, error=error)
        if self.keeps:
            thread = ctx.thread or ctx.run_id
            called = CalledGraphs(thread, values.get(CALLED, {}))
            own |= {lg.CONFIG_KEY_CHECKPOINTER: called.saver, lg.CONFIG_KEY_THREAD_ID: thread, CALLED: called}
        if ctx.arg is not None:  # a `ToolNode` reads the state from it, since the state is not its input
            own[lg.CONFIG_KEY_READ_STATE] = lambda: self.reader.read(values, config)
        return config

    def reply(self, outcome: Outcome, values: Mapping[str, Any], ctx: Context, config: dict[str, Any]) -> Any:
        """Return the outcome in graphrt's form."""
        taken = (self.fields.taken(update, lambda: drawn_id(ctx.random)) for update in outcome.updates)
        updates = [update for update in taken if update is not None]
        if self.keeps and (called := config["configurable"][CALLED].update()):
            updates.append({CALLED: called})
        if not self.routers and not outcome.commanded:
            return one_or_more(updates)
        targets = [*self.targets(outcome.goto, values), *self.static]
        if self.arrives:
            return one_or_more([*updates, {BRANCHES: {self.node.name: targets}}])
        return Command(update=one_or_more(updates), goto=targets)

    def targets(self, goto: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
        """Return targets in graphrt's form; *values* is the state that the task saw."""
        return [target(destination, values, self.fields.untracked) for destination in goto]

    def handed_up(self, error: Any, values: Mapping[str, Any]) -> Command:
        """Return a Command that ends this nested graph, updates the parent, and continues there.

        Raises:
            ParentCommand: There is no parent graph.
        """
        if self.above is None:
            raise error
        command = error.args[0]
        goto: Any = command.goto
        goto = [goto] if lg.is_a(goto, LangGraphSend, str) else list(goto)
        targets = [*self.targets([destination for destination in goto if destination != END], values), *self.above]
        written = [[key, plain(value)] for key, value in command._update_as_tuples()]
        return Command(update={HANDED_UP: written}, goto=targets, graph=PARENT)


def target(chosen: Any, values: Mapping[str, Any], untracked: frozenset[str]) -> Any:
    """Return a target of LangGraph in graphrt's form.

    Args:
        chosen: The name of a node, or a Send.
        values: The state that the task or router saw.
        untracked: Fields whose values may not be storable; the argument of a Send holds only their names.

    Raises:
        InvalidUpdateError: The Send has a timeout.
    """
    if not lg.is_a(chosen, LangGraphSend):
        return chosen
    if chosen.timeout is not None:
        raise lg.InvalidUpdateError(f"Send({chosen.node!r}, timeout=...): give the node {chosen.node!r} the timeout")
    arg: Any = plain(chosen.arg)
    if arg.__class__ is dict and untracked:
        hidden = [name for name in untracked if name in arg and values.get(name) is arg[name]]
        if hidden:
            arg = {**{key: value for key, value in arg.items() if key not in hidden}, UNTRACKED: sorted(hidden)}
    return Send(chosen.node, arg)


def one_or_more(updates: list[dict[str, Any]] | None) -> Any:
    """Return updates as a node returns them: None, one, or a list."""
    if not updates:
        return None
    return updates[0] if len(updates) == 1 else updates


def _read_state(values: Mapping[str, Any], select: Any, _fresh: bool = False) -> Any:  # noqa: FBT001, FBT002
    """Return the part of the state that LangGraph's `ChannelRead` selects."""
    if isinstance(select, str):
        return values[select]
    return {key: values[key] for key in select if key in values}


def _own(error: Any) -> Any:
    """Return the Command that a called graph raised for the graph of this node."""
    return dataclasses.replace(error.args[0], graph=None)


def _ask(ctx: Context, config: dict[str, Any], error: Any) -> NoReturn:
    """Pause with the question of `interrupt()`.

    Raises:
        GraphInterrupt: A graph that the node called stopped before or after one of its nodes, without a question.
    """
    interrupts = error.args[0] if error.args else ()
    if not interrupts:
        raise error
    scratchpad = config["configurable"][lg.CONFIG_KEY_SCRATCHPAD]
    ctx.interrupt(interrupts[0].value, key=question(len(scratchpad.resume)))  # pauses, because there is no answer yet
    raise error


def function_of(task: Task) -> Callable[[Any, Context], Any]:
    """Return the graphrt function for a node, sync if the node is a sync function."""
    runnable = task.node.runnable
    if not has_sync(runnable) or any(router.is_async for router in task.routers):
        return _async_function(task, async_caller(runnable))
    return _sync_function(task, caller(runnable))


def _alone(ctx: Context) -> bool:
    return not ctx.siblings


def _never(_ctx: Context) -> bool:
    return False


def _sync_function(task: Task, call: Callable[[Any, dict[str, Any]], Any]) -> Callable[[Any, Context], Any]:
    fields, routers, given_to, make = task.fields, task.routers, task.given, task.config
    variable: Any = lg.var_child_runnable_config
    is_mapping = ROOT not in fields.channels and not task.keeps
    routed = None if not routers else _alone if task.routed else _never

    def run(values: Any, ctx: Context) -> Any:
        config = TaskConfig(partial(make, values, ctx))
        node_input = given_to(values, ctx, config)
        token = variable.set(config)
        try:
            try:
                returned = call(node_input, config)
            except lg.ParentCommand as error:
                returned = _own(error)
            drained(ctx)
            if returned.__class__ is dict and is_mapping and not config.writes and (routed is None or routed(ctx)):
                update = fields.taken(returned, lambda: drawn_id(ctx.random))
                if not routers or (update is not None and len(update) == len(returned)):  # a router sees no other keys
                    return update
            outcome = outcome_of(returned, fields, config.writes)
            if routers:
                seen = fields.folded(values, outcome.updates)
                for router in routers:
                    result = router.call(router.given(seen, returned, config), config)
                    outcome.goto += destinations(result, router.path_map)
        except lg.GraphInterrupt as error:
            _ask(ctx, config, error)
        except lg.ParentCommand as error:
            return task.handed_up(error, values)
        finally:
            variable.reset(token)
        return task.reply(outcome, values, ctx, config)

    return run


def _async_function(task: Task, call: Callable[[Any, dict[str, Any]], Any]) -> Callable[[Any, Context], Any]:
    fields, routers, given_to, make = task.fields, task.routers, task.given, task.config
    variable: Any = lg.var_child_runnable_config
    is_mapping = ROOT not in fields.channels and not task.keeps
    routed = None if not routers else _alone if task.routed else _never

    async def run(values: Any, ctx: Context) -> Any:
        config = TaskConfig(partial(make, values, ctx))
        node_input = given_to(values, ctx, config)
        token = variable.set(config)
        try:
            try:
                returned = await call(node_input, config)
            except lg.ParentCommand as error:
                returned = _own(error)
            drained(ctx)
            if returned.__class__ is dict and is_mapping and not config.writes and (routed is None or routed(ctx)):
                update = fields.taken(returned, lambda: drawn_id(ctx.random))
                if not routers or (update is not None and len(update) == len(returned)):  # a router sees no other keys
                    return update
            outcome = outcome_of(returned, fields, config.writes)
            if routers:
                seen = fields.folded(values, outcome.updates)
                for router in routers:
                    result = router.call(router.given(seen, returned, config), config)
                    outcome.goto += destinations(await result if router.is_async else result, router.path_map)
        except lg.GraphInterrupt as error:
            _ask(ctx, config, error)
        except lg.ParentCommand as error:
            return task.handed_up(error, values)
        finally:
            variable.reset(token)
        return task.reply(outcome, values, ctx, config)

    return run
