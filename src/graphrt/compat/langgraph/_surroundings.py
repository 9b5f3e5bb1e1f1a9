"""The environment of a LangGraph node: `RunnableConfig`, `Runtime`, the store, the stream writer, `interrupt()`.

LangGraph passes all of it in `config["configurable"]`, which `get_config()` reads from a context variable. Here it is
made from the `Context` of graphrt for each attempt at a task:

    RunContext (deps=) ──┐
    Context ─────────────┼── Surroundings.config(ctx) ──> config ──> Runtime, Scratchpad
    options of compile ──┘

`interrupt()` asks the scratchpad for answers, and raises `GraphInterrupt` where it has none. The answers belong to the
questions `interrupt 0`, `interrupt 1` of the task, in the order in which LangGraph numbers them. So a node runs again
only once for each answer.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, final

from langgraph.runtime import ExecutionInfo, RunControl
from langgraph.runtime import Runtime as LangGraphRuntime
from pydantic import BaseModel

from graphrt._drivers.context import Context
from graphrt.compat.langgraph import _langgraph as lg
from graphrt.compat.langgraph._store import MemoryOfGraphrt

_UNSET: Final[Any] = object()


@final
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The arguments of a run of LangGraph besides its input: `Runtime(graph, deps=RunContext(context=...))`.

    Any other object that is passed as `deps=` is used as the context.
    """

    context: Any = None
    """The context, as for `graph.invoke(..., context=...)`; a mapping is converted to the context schema."""
    config: Mapping[str, Any] | None = None
    """A `RunnableConfig`: its `configurable`, `tags`, `metadata` and `callbacks` reach the nodes."""
    store: Any = None
    """A `BaseStore` of LangGraph, in place of the one that the graph was compiled with."""
    control: Any = None
    """A `RunControl`. When asked to drain, the run ends after the current superstep, with its thread still due."""


@final
class Scratchpad:
    """Replaces LangGraph's scratchpad of a task, from which `interrupt()` takes its answers."""

    __slots__ = ("_asked", "_ctx", "_resume", "call_counter", "interrupt_counter", "step", "stop", "subgraph_counter")

    def __init__(self, ctx: Context, step: int, left: int) -> None:
        self._ctx = ctx
        self._resume: list[Any] | None = None
        self._asked: Callable[[], int] | None = None
        self.step = step
        self.stop = step + left
        # `count().__next__` is atomic, because tools that run concurrently share these counters.
        self.interrupt_counter: Callable[[], int] = itertools.count().__next__
        self.call_counter: Callable[[], int] = itertools.count().__next__
        self.subgraph_counter: Callable[[], int] = itertools.count().__next__

    @property
    def resume(self) -> list[Any]:
        """The answers so far, in the order of the questions."""
        if self._resume is None:
            self._resume = []
            while self._ctx.answered(question(len(self._resume))):
                self._resume.append(self._ctx.interrupt(key=question(len(self._resume))))
        return self._resume

    def get_null_resume(self, consume: bool = False) -> Any:  # noqa: FBT001, FBT002 - LangGraph's signature
        """Return the next answer, or None, for a graph that the node calls: its tasks use their parent's scratchpad."""
        if not consume or not self.resume:
            return None
        if self._asked is None:
            self._asked = self.interrupt_counter
        number = self._asked()
        return self.resume[number] if number < len(self.resume) else None


def question(number: int) -> str:
    """Return the key of the question of the *number*th call of `interrupt()` in a task, from 0."""
    return f"interrupt {number}"


class Drain(RunControl):  # type: ignore[misc]  # LangGraph's types are not known everywhere
    """`runtime.control` of a node: requests that the run end after the current superstep."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        super().__init__()
        self._ctx = ctx

    def request_drain(self, reason: str = "shutdown") -> None:
        """End the run after this superstep, with its thread still due."""
        super().request_drain(reason)
        self._ctx.drain(reason)


def drained(ctx: Context) -> None:
    """End the run after this superstep if the control that its caller passed was asked to drain."""
    deps: Any = ctx.deps
    if deps.__class__ is RunContext and deps.control is not None and deps.control.drain_requested:
        ctx.drain(deps.control.drain_reason)


@final
class TaskConfig(dict[str, Any]):
    """The config of a task, created on first use: most nodes do not use it, and it costs 10 us.

    Args:
        make: Returns its items, given the list that collects what the node writes besides its result.
    """

    __slots__ = ("_make", "writes")

    def __init__(self, make: Callable[[list[Any]], dict[str, Any]]) -> None:
        self._make: Callable[[list[Any]], dict[str, Any]] | None = make
        self.writes: list[Any] = _NO_WRITES
        """Pairs of channel and value that the node wrote besides its result."""

    def made(self) -> dict[str, Any]:
        """Return the config itself, with its items."""
        make = self._make
        if make is not None:
            self._make, self.writes = None, []
            super().update(make(self.writes))
        return self

    # The methods of a config that LangChain and users call. Its own `__iter__` keeps `{**config}` from bypassing them.
    def __getitem__(self, key: str) -> Any:
        self.made()
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.made()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.made()
        return super().__iter__()

    def __len__(self) -> int:
        self.made()
        return super().__len__()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of *key*, or *default*."""
        self.made()
        return super().get(key, default)

    def keys(self) -> Any:
        """Return the keys."""
        self.made()
        return super().keys()

    def values(self) -> Any:
        """Return the values."""
        self.made()
        return super().values()

    def items(self) -> Any:
        """Return the pairs of key and value."""
        self.made()
        return super().items()

    def copy(self) -> dict[str, Any]:
        """Return a plain dictionary with the same items."""
        return {**self}


_NO_WRITES: Final[list[Any]] = []


@final
class Surroundings:
    """Makes the config of each task of one graph.

    Args:
        context_schema: Class of the context, or None.
        options: The config that the graph was bound to by `with_config`.
        store: The store that it was compiled with, or None.
        steps: LangGraph's limit of supersteps.
    """

    def __init__(self, context_schema: Any, options: Mapping[str, Any], store: Any, steps: int) -> None:
        self._steps = steps
        self._schema = context_schema
        self._options = options
        self._store = store
        self._last: tuple[Any, tuple[dict[str, Any], Any, Any]] = (_UNSET, ({}, None, None))

    def config(
        self, ctx: Context, node: str, metadata: Mapping[str, Any] | None, state: Any, writes: list[Any]
    ) -> dict[str, Any]:
        """Return the config of a task.

        Args:
            ctx: The context of its attempt.
            node: Its node.
            metadata: Metadata of the node.
            state: Function that reads the state of the graph, as `ChannelRead` does.
            writes: Collects pairs of channel and value that the node writes besides its result.
        """
        deps = ctx.deps
        base, context, store = self._last[1] if deps is self._last[0] and deps is not None else self._of(deps)
        run_context: Any = deps
        control = run_context.control if run_context.__class__ is RunContext else None
        task, thread, step, attempt = ctx.task_id, ctx.thread, ctx.step, ctx.attempt
        namespace = f"{node}:{task}"
        if store is None and thread is not None:  # the run has a store, which keeps the memory
            store = MemoryOfGraphrt(ctx)
        runtime = LangGraphRuntime(
            context=context,
            store=store,
            stream_writer=ctx.emit,
            heartbeat=ctx.heartbeat,
            execution_info=ExecutionInfo(
                checkpoint_id="", checkpoint_ns=namespace, task_id=task, thread_id=thread, node_attempt=attempt
            ),
            control=control or Drain(ctx),
        )
        own = {
            **base["configurable"],
            lg.CONFIG_KEY_TASK_ID: task,
            lg.CONFIG_KEY_CALL: _refuse_task,
            lg.CONFIG_KEY_SEND: writes.extend,
            lg.CONFIG_KEY_READ: state,
            lg.CONFIG_KEY_READ_STATE: None,
            lg.CONFIG_KEY_CHECKPOINT_NS: namespace,
            lg.CONFIG_KEY_CHECKPOINT_ID: None,
            lg.CONFIG_KEY_SCRATCHPAD: Scratchpad(ctx, step, ctx.steps_left),
            lg.CONFIG_KEY_RUNTIME: runtime,
        }
        if thread is not None:
            own[lg.CONFIG_KEY_THREAD_ID] = thread
        run_metadata = {
            **base["metadata"],
            "langgraph_step": step,
            "langgraph_node": node,
            "langgraph_checkpoint_ns": namespace,
            **(metadata or {}),
        }
        return {**base, "metadata": run_metadata, "configurable": own}

    def of_router(self, deps: Any, node: str, thread: str | None) -> dict[str, Any]:
        """Return the config of a router that has no task: after START, or after a nested graph."""
        base, context, store = self._of(deps)
        runtime = LangGraphRuntime(context=context, store=store)
        own = {**base["configurable"], lg.CONFIG_KEY_RUNTIME: runtime}
        if thread is not None:
            own[lg.CONFIG_KEY_THREAD_ID] = thread
        return {**base, "metadata": {**base["metadata"], "langgraph_node": node}, "configurable": own}

    def _of(self, deps: Any) -> tuple[dict[str, Any], Any, Any]:
        """Return the values that all tasks of a run share: its config, context and store."""
        run_context = deps if lg.is_a(deps, RunContext) else RunContext(context=deps)
        base: dict[str, Any] = {
            "tags": [],
            "metadata": {},
            "callbacks": [],
            "configurable": {},
            "recursion_limit": self._steps,
        }
        for config in (self._options, run_context.config or {}):
            for key, value in config.items():
                if key in ("metadata", "configurable"):
                    base[key] = {**base[key], **(value or {})}
                elif key == "tags":
                    base[key] = [*base[key], *(value or ())]
                elif value is not None:
                    base[key] = value
        shared = (
            base,
            _coerced(self._schema, run_context.context),
            run_context.store if run_context.store is not None else self._store,
        )
        self._last = deps, shared
        return shared


def _refuse_task(function: Any, *_: Any, **__: Any) -> NoReturn:
    """Fail in place of LangGraph's call of a `@task`."""
    name = getattr(function, "__name__", "the task")
    raise NotImplementedError(
        f"A converted graph has no @task: call its function, {name}.func(...), or make it a node."
    )


def _coerced(schema: Any, context: Any) -> Any:
    """Return the context as an instance of its schema, as LangGraph does with a mapping."""
    if schema is None or not lg.is_a(context, Mapping) or not lg.is_a(schema, type):
        return context
    if issubclass(schema, BaseModel) or dataclasses.is_dataclass(schema):
        schema_class: Any = schema
        return schema_class(**context)
    return context
