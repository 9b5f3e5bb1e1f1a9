"""The watcher of one run: it takes measurements during the run, and turns them into telemetry afterwards.

Public methods are called by the run and only append to the queue. Methods that begin with an underscore run on the
worker thread of the delivery. `Sending` is the common receiver of the watchers of one `Tracing`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

from opentelemetry import context as otel_context
from opentelemetry import propagate, trace

from graphrt import events
from graphrt._forks import run_variable
from graphrt._usage.usage import UNREPORTED
from graphrt.errors import ConflictError
from graphrt.events import Entry, Usage
from graphrt.otel import _names
from graphrt.otel._delivery import Delivery
from graphrt.otel._ids import commit_span, model_span, root_span, run_span, task_span, trace_id_of
from graphrt.otel._metrics import Metrics
from graphrt.otel._projection import Measured, Projection
from graphrt.otel._spans import Emitter, LateSpan, SpanData, SpanLink, Value, context_of, usage_attributes

if TYPE_CHECKING:
    from graphrt.harness.messages import ToolCall

__all__ = ["Redact", "RunWatch", "Sending"]

Redact: TypeAlias = Callable[[str, Any], Any]
"""Function of an attribute's name and its value, as plain data. It returns what to record: data, a text, or None to
record nothing."""


class Sending:
    """The receiver of the data of a `Tracing`'s watchers."""

    def __init__(
        self, *, emitter: Emitter, metrics: Metrics, delivery: Delivery, namespace: str, content: Redact | None
    ) -> None:
        self.emitter: Final = emitter
        self.metrics: Final = metrics
        self.namespace: Final = namespace
        self.content: Final = content
        self.put: Final = delivery.put
        self.warn: Final = delivery.warn


T = TypeVar("T")
TAIL: Final = 64
"""Number of entries read to find the last run of a continued thread; ever more if the run is longer."""


@dataclass(slots=True)
class _Calling:
    """The model call that is running."""

    model: str = ""
    messages: Any = None
    billed: Usage | None = None
    """Usage of its attempts that failed and were billed; None if there were none."""


_calling: Final[ContextVar[_Calling | None]] = run_variable("graphrt_otel_call", None)


@final
class RunWatch:
    """Implements `RunWatcher`, which documents its methods.

    Args:
        opened: The run, as `OpenedRun` describes it.
        sending: The tracer, the meter and the queue.
    """

    __graphrt_reads__: Final = True
    """Entries are only read, so they need not be copied for the watcher."""

    def __init__(self, opened: Any, sending: Sending) -> None:
        self._sending: Final = sending
        self._graph: Final[str] = opened.graph
        self._thread: Final[str | None] = opened.thread
        self._run: Final[str] = opened.run
        self._written = 0
        self._begun_ns = time.time_ns()
        caller = trace.get_current_span().get_span_context()
        inside = opened.thread is None and caller.is_valid
        if inside:  # a run that no other process will continue joins its caller's trace
            self._trace = caller.trace_id
            self._flags = int(caller.trace_flags)
        else:
            key = opened.thread if opened.thread is not None else opened.run
            self._trace = trace_id_of(key, namespace=sending.namespace)
            self._flags = int(sending.emitter.samples(self._trace, f"{_names.INVOKE_WORKFLOW} {opened.graph}"))
        parent = caller.span_id if inside else 0
        self._projection: Final = Projection(
            self._trace,
            thread=opened.thread,
            namespace=sending.namespace,
            graph=opened.graph,
            live=True,
            parent=parent,
        )
        self._span: Final = run_span(self._trace, opened.run) if parent or opened.seq else root_span(self._trace)
        if caller.is_valid and not inside:
            self._projection.caller = SpanLink(caller.trace_id, caller.span_id, "caller")
        if opened.seq:
            self._read(opened)
        if opened.taken_over:
            self._projection.taken_over = True
            sending.put(sending.metrics.taken_over, opened.graph)

    # -- called by the run -----------------------------------------------------------------------------------------------

    def __call__(self, entry: Entry, /) -> None:
        """Process an entry."""
        self._sending.put(self._take, entry)

    def __graphrt_later__(self, make: Callable[[], Iterable[Entry]]) -> None:
        """Process the entries of a step. *make* is called on the worker thread, not here."""
        self._sending.put(self._take_step, make)

    def attempt(self, task: str, node: str, attempt: int, /) -> Callable[[str, str | None], None]:  # noqa: ARG002
        """Make the span of the task the current span until the returned function is called."""
        span = LateSpan(self._trace, self._flags, partial(task_span, self._trace, self._run, task))
        token = otel_context.attach(trace.set_span_in_context(span, otel_context.get_current()))
        started = time.time_ns()

        def end(outcome: str, error: str | None) -> None:
            ended = time.time_ns()
            otel_context.detach(token)
            self._sending.put(self._attempted, task, node, started, ended, outcome, error)

        return end

    async def model_call(self, task: str, failed_attempts: int, key: str, call: Callable[[], Awaitable[T]], /) -> T:
        """Make a model call with its span as the current one."""
        above = self._current() or task_span(self._trace, self._run, task)
        span = model_span(self._trace, self._run, task, failed_attempts, key)
        calling = _Calling()
        token = otel_context.attach(context_of(self._trace, span, self._flags, otel_context.get_current()))
        inner = _calling.set(calling)
        started = time.time_ns()
        response: Any = None
        error: str | None = None
        try:
            response = await call()
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            ended = time.time_ns()
            _calling.reset(inner)
            otel_context.detach(token)
            self._sending.put(self._called, span, above, started, ended, calling, response, error)
        return response  # type: ignore[no-any-return]  # what *call* returned

    async def tool_call(self, call: ToolCall, make: Callable[[], Awaitable[T]], /) -> T:
        """Make a tool call with its span as the current one."""
        above = self._current() or self._span
        span = model_span(self._trace, self._run, "tool", 0, f"{call.id}/{above}/{time.time_ns()}")
        token = otel_context.attach(context_of(self._trace, span, self._flags, otel_context.get_current()))
        started = time.time_ns()
        done: Any = None
        error: str | None = None
        try:
            done = await make()
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            ended = time.time_ns()
            otel_context.detach(token)
            self._sending.put(self._used, span, above, started, ended, call, done, error)
        return done  # type: ignore[no-any-return]  # what *make* returned

    def asks(self, model: str, messages: Any, /) -> None:
        """Record the request of the running model call. The last attempt counts."""
        calling = _calling.get()
        if calling is not None:
            calling.model = model
            calling.messages = messages if self._sending.content is not None else None

    def billed(self, usage: Usage, /) -> None:
        """Add the usage of a failed attempt to that of the running model call."""
        calling = _calling.get()
        if calling is not None:
            calling.billed = usage if calling.billed is None else calling.billed + usage

    def headers(self) -> Mapping[str, str]:
        """Return the headers with the current span, written by the application's propagators."""
        carrier: dict[str, str] = {}
        try:
            propagate.inject(carrier)
        except Exception as error:  # noqa: BLE001 - a propagator of the application must not fail the call
            self._sending.warn(f"no headers could be made: {type(error).__name__}")
        return carrier

    def committed(self, seq: int, count: int, size: int, seconds: float, /) -> None:
        """Record a commit."""
        self._sending.put(self._stored, seq, count, size, time.time_ns(), seconds)

    def ended(self, error: BaseException | None, /) -> None:
        """Record the end of the run."""
        lost = isinstance(error, ConflictError)
        self._sending.put(self._close, time.time_ns(), None if error is None else type(error).__name__, lost)

    def _current(self) -> int:
        """Return the id of the current span if it belongs to this trace, such as one that the node made; else 0."""
        current = trace.get_current_span().get_span_context()
        return current.span_id if current.trace_id == self._trace else 0

    def _read(self, opened: Any) -> None:
        """Fold the entries of the thread's last run, which this one continues."""
        try:
            tail = TAIL
            while True:
                after = max(0, opened.seq - tail)
                entries = list(opened.entries(after))
                if not after or _has_last_run(entries):
                    break
                tail *= 16
            for entry in entries:
                if entry.seq <= opened.seq:
                    for _ in self._projection.feed(entry):  # reported by the process that ran it
                        pass
        except Exception as error:  # noqa: BLE001 - a damaged thread is for the run to report
            self._sending.warn(f"the last run of a thread could not be read: {type(error).__name__}")

    # -- called by the worker thread -------------------------------------------------------------------------------------

    def _take_step(self, make: Callable[[], Iterable[Entry]]) -> None:
        for entry in make():
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry.event, events.TaskRetried):
            self._sending.metrics.retried(self._graph, entry.event.node, entry.event.error)
        for span in self._projection.feed(entry):
            self._emit(span)

    def _emit(self, span: SpanData) -> None:
        status = span.attributes.get(_names.RUN_STATUS)
        if status is not None:
            self._sending.metrics.run_ended(self._graph, str(status), (span.end_ns - span.start_ns) / 1e9)
        span.flags = self._flags
        self._sending.emitter.emit(span)

    def _attempted(self, task: str, node: str, started: int, ended: int, outcome: str, error: str | None) -> None:
        self._sending.metrics.attempt_ended(self._graph, node, outcome, (ended - started) / 1e9)
        known = self._projection.measured.get(task)
        first = started if known is None else known.start_ns
        busy = ended - started + (0 if known is None else known.busy_ns)
        self._projection.measured[task] = Measured(
            node=node, start_ns=first, end_ns=ended, busy_ns=busy, outcome=outcome, error=error
        )

    def _called(
        self, span: int, above: int, started: int, ended: int, calling: _Calling, response: Any, error: str | None
    ) -> None:
        answered = getattr(response, "model", None)
        usage = None if response is None else getattr(response, "usage", None) or UNREPORTED
        if calling.billed is not None:
            usage = calling.billed if usage is None else calling.billed + usage
        model = calling.model or answered or ""
        self._sending.metrics.model_ended(model, usage, error, (ended - started) / 1e9)
        attributes: dict[str, Value] = {
            _names.OPERATION_NAME: _names.CHAT,
            _names.PROVIDER_NAME: _names.provider_of(model),
            **usage_attributes(usage),
        }
        if calling.model:
            attributes[_names.REQUEST_MODEL] = calling.model
        if answered:
            attributes[_names.RESPONSE_MODEL] = answered
        if response is not None:
            attributes[_names.FINISH_REASONS] = (str(getattr(response, "finish_reason", "stop")),)
        if calling.messages is not None:
            self._content(attributes, _names.INPUT_MESSAGES, messages_as_data(calling.messages))
        if response is not None:
            self._content(attributes, _names.OUTPUT_MESSAGES, [reply_as_data(response)])
        name = f"{_names.CHAT} {model}".rstrip()
        self._finish(name, span, above, started, ended, attributes, error, client=True)

    def _used(
        self, span: int, above: int, started: int, ended: int, call: ToolCall, done: Any, error: str | None
    ) -> None:
        if error is None and getattr(done, "error", False):
            error = "tool_error"
        self._sending.metrics.tool_ended(call.name, error, (ended - started) / 1e9)
        attributes: dict[str, Value] = {
            _names.OPERATION_NAME: _names.EXECUTE_TOOL,
            _names.TOOL_NAME: call.name,
            _names.TOOL_CALL_ID: call.id,
            _names.TOOL_TYPE: "function",
        }
        self._content(attributes, _names.TOOL_ARGUMENTS, call.arguments)
        if done is not None:
            self._content(attributes, _names.TOOL_RESULT, getattr(done, "text", ""))
        self._finish(f"{_names.EXECUTE_TOOL} {call.name}", span, above, started, ended, attributes, error)

    def _stored(self, seq: int, count: int, size: int, ended: int, seconds: float) -> None:
        self._written += size
        self._sending.metrics.committed(self._graph, seconds)
        if not count:
            return  # a staged outcome is only counted, since a trace shows entries
        started = ended - round(seconds * 1e9)
        attributes: dict[str, Value] = {
            _names.FIRST_SEQ: seq - count + 1,
            _names.LAST_SEQ: seq,
            _names.SIZE: size,
        }
        span = commit_span(self._trace, self._run, seq)
        self._finish(_names.COMMIT, span, self._span, started, ended, attributes, None)

    def _close(self, at: int, error: str | None, lost: bool) -> None:  # noqa: FBT001 - queued by position
        if lost:
            self._sending.metrics.conflicted(self._graph)
        # Without an entry that ends the run, the store failed to write one.
        for span in self._projection.end(max(at, self._projection.last_ns), "failed", error):
            self._emit(span)
        if self._thread is not None:
            self._sending.metrics.written(self._graph, self._written)

    def _content(self, attributes: dict[str, Value], name: str, value: Any) -> None:
        """Put *value* into *attributes* as JSON, filtered by the content function, if content is recorded."""
        redact = self._sending.content
        if redact is None:
            return
        filtered = redact(name, value)
        if filtered is not None:
            attributes[name] = (
                filtered if isinstance(filtered, str) else json.dumps(filtered, ensure_ascii=False, default=repr)
            )

    def _finish(
        self,
        name: str,
        span: int,
        above: int,
        started: int,
        ended: int,
        attributes: dict[str, Value],
        error: str | None,
        *,
        client: bool = False,
    ) -> None:
        if self._thread is not None:
            attributes[_names.CONVERSATION_ID] = self._thread
        self._sending.emitter.emit(
            SpanData(
                name=name,
                trace=self._trace,
                span=span,
                parent=above,
                start_ns=started,
                end_ns=ended,
                attributes=attributes,
                client=client,
                error=error,
                flags=self._flags,
            )
        )


_BEGINNINGS: Final = (events.RunStarted, events.RunResumed)
_BOUNDARIES: Final = (events.RunStarted, events.SuperstepCommitted, events.ThreadForked)


def _has_last_run(entries: list[Entry]) -> bool:
    """Return whether *entries* includes the beginning of the last run and of the superstep open at that time."""
    at_top = [entry.event for entry in entries if not entry.path]
    beginnings = [number for number, event in enumerate(at_top) if isinstance(event, _BEGINNINGS)]
    return bool(beginnings) and any(isinstance(event, _BOUNDARIES) for event in at_top[: beginnings[-1] + 1])


def messages_as_data(messages: Any) -> list[dict[str, Any]]:
    """Return messages in the form of the GenAI conventions: a role, and parts."""
    if isinstance(messages, str):
        return [{"role": "user", "parts": [{"type": "text", "content": messages}]}]
    return [_message_as_data(message) for message in messages]


def _message_as_data(message: Any) -> dict[str, Any]:
    role = str(getattr(message, "role", "user"))
    parts: list[dict[str, Any]] = []
    called = getattr(message, "tool_call_id", None)
    text = getattr(message, "text", None)
    if called is not None:
        parts.append({"type": "tool_call_response", "id": called, "response": text})
    elif text:
        parts.append({"type": "text", "content": text})
    parts += [_call_as_data(call) for call in getattr(message, "tool_calls", ())]
    return {"role": role, "parts": parts}


def _call_as_data(call: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": dict(call.arguments)}


def reply_as_data(reply: Any) -> dict[str, Any]:
    """Return a reply in the form of the GenAI conventions."""
    message = _message_as_data(reply)
    return {**message, "role": "assistant", "finish_reason": str(getattr(reply, "finish_reason", "stop"))}
