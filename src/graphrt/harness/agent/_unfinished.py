"""The messages of a turn that was given up, from what its task recorded (decision 0325).

While an agent works, its conversation exists in memory only; the journal has the replies of its models, the results of
its tools, and the answers of people. If the task is abandoned, the conversation is put together from these, so that the
model of the next turn knows what was said and done.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, final

from graphrt.commands import ERASED
from graphrt.harness._reply_data import reply_from
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._long_results import cut
from graphrt.harness.agent._signals import message_of
from graphrt.harness.agent._tool_calls import outcome_data, refused, with_new_arguments
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage
from graphrt.harness.protocol import ModelResponse

__all__ = ["Reply", "Turn"]

_NO_RESULT: Final = "This call has no result: the turn was stopped. It is not known whether the call was carried out."
_NOT_APPROVED: Final = "This call was not carried out: the turn was stopped before a person had approved it."
_ERASED: Final = "This call was carried out, and its result was erased."
_CHANGES_LOST: Final = "The turn was stopped: what this call had changed in the state of the program was given up."
_SIGNAL: Final = re.compile(r"signal/(?P<path>[^/]+/)(?P<calls>\d+)\.(?P<nth>\d+)")
"""Key of the question for a signal, of an agent run that no other agent began."""


class Reply(NamedTuple):
    """A recorded reply of a model."""

    key: str
    """Key of the model call in the task."""
    agent: str | None
    """Name of the agent, if it continues the conversation; None for other calls."""
    data: Mapping[str, Any]
    """The reply as plain data; see `harness._reply_data`."""
    attempt: int
    """Number of attempts of the task that had failed before."""

    @property
    def path(self) -> str:
        """Path of the agent run that made the call."""
        return self.key[: self.key.rfind("/") + 1]


class _Exchange(NamedTuple):
    """A reply to an agent that continues the conversation, and the records of its tool calls."""

    reply: Reply
    response: ModelResponse
    keys: Sequence[str | None]
    """Key of the result or of the question of each call; None for a call without either."""


@final
@dataclass(slots=True, kw_only=True)
class Turn:
    """What a task recorded about its agents. Keys identify calls and questions within the task."""

    replies: Sequence[Reply]
    """The replies of models, in order."""
    partial: Sequence[str]
    """The texts of replies that were cut off, in order."""
    results: Mapping[str, Any]
    """Results of effects, such as tool calls, by their keys."""
    answers: Mapping[str, Any]
    """Answers to questions, and signals that were received, by the keys of the questions."""
    asked: Collection[str]
    """Keys of the questions without an answer."""
    _said: set[str] = field(default_factory=set[str])
    """Keys of the signals that are in the conversation already."""

    def messages(self, ids: set[str]) -> Iterator[Message]:
        """Yield the messages of the turn, in order, without the texts that were cut off.

        The last attempt counts, and of earlier ones the calls that were made and that it did not repeat. A reply whose
        calls all wait for approval is left out: the agent makes them again if they are still wanted.

        Args:
            ids: Ids of the tool calls of the conversation so far, to which those of the turn are added.
        """
        exchanges = self._exchanges()
        last_attempt = max((exchange.reply.attempt for exchange in exchanges), default=0)
        counts: Counter[str] = Counter()  # replies by the path of the agent run
        for exchange in exchanges:
            reply, response = exchange.reply, exchange.response
            if not counts[reply.path]:
                yield from self._signals(reply.path, 0)
            counts[reply.path] += 1
            is_last = exchange is exchanges[-1] and not self.partial
            was_made = any(key in self.results for key in exchange.keys)
            is_said = self._was_begun(exchange) if response.tool_calls else is_last and bool(response.text)
            if was_made or (reply.attempt == last_attempt and is_said):
                yield from self._answered(exchange, ids)
            yield from self._signals(reply.path, counts[reply.path])
        others = {reply.path for reply in self.replies if reply.agent is None}
        for key in self.answers:  # signals to runs that got no reply
            match = _SIGNAL.fullmatch(key)
            if match and match["path"] not in others:
                yield from self._signals(match["path"], int(match["calls"]))

    def cut_off(self) -> Iterator[Message]:
        """Yield the texts that were cut off, as messages."""
        for text in self.partial:
            yield AssistantMessage(text=text, partial=True)

    def _was_begun(self, exchange: _Exchange) -> bool:
        """Return whether a call of a reply was begun or decided: not all of them wait for the approval of a person."""
        waiting = {_base(asked) for asked in self.asked}
        return any(key not in waiting or key in self.results for key in exchange.keys)

    def _exchanges(self) -> list[_Exchange]:
        """Return the replies of the conversation with the keys of their calls; each key belongs to one call at most.

        The last attempt is served first: it repeats calls of earlier ones, and found their results.
        """
        others = [call.id for reply in self.replies if reply.agent is None for call in _response(reply).tool_calls]
        used: set[str] = set()
        found: dict[int, _Exchange] = {}
        for number, reply in sorted(enumerate(self.replies), key=lambda item: (-item[1].attempt, item[0])):
            if reply.agent is not None:
                response = _response(reply)
                keys = [self._key(call, reply.agent, used, others) for call in response.tool_calls]
                found[number] = _Exchange(reply, response, keys)
        return [found[number] for number in sorted(found)]

    def _key(self, call: ToolCall, agent: str, used: set[str], others: Collection[str]) -> str | None:
        """Return the key of the result of a tool call, else of the question about it, and add it to *used*."""
        name = f"tool/{call.name}/{of_arguments({'agent': (agent,), 'arguments': call.arguments})}#"
        made = [
            key for key in self.results if key.startswith(name) and key[len(name) :].isdecimal() and key not in used
        ]
        ids = [_call_of(self.results[key]) for key in made]
        found: str | None
        if call.id in ids:
            found = made[ids.index(call.id)]
        else:  # the agent renamed it, or made it in an earlier attempt, or a person gave its result
            bases = dict.fromkeys(_base(key) for key in (*self.answers, *self.asked) if key.startswith(name))
            rest = [key for key, id_ in zip(made, ids, strict=True) if id_ not in others]
            found = next((key for key in (*rest, *bases) if key not in used), None)
        if found is not None:
            used.add(found)
        return found

    def _answered(self, exchange: _Exchange, ids: set[str]) -> Iterator[Message]:
        """Yield a reply as a message, and the results of its tool calls, under ids that are unique in *ids*."""
        calls: list[ToolCall] = []
        results: list[ToolMessage] = []
        for call, key in zip(exchange.response.tool_calls, exchange.keys, strict=True):
            result = self._result(call, key)
            id_ = _unique(result.tool_call_id, ids)
            calls.append(replace(call, id=id_))
            results.append(replace(result, tool_call_id=id_))
        yield replace(exchange.response.message, tool_calls=tuple(calls))
        yield from results

    def _result(self, call: ToolCall, key: str | None) -> ToolMessage:
        """Return the result of a tool call for the model."""
        answer: Any = next((self.answers[asked] for asked in list(self.answers)[::-1] if _base(asked) == key), None)
        details: dict[str, Any] = answer if issubclass(type(answer), dict) else {}
        if answer is False or details.get("approve") is False or self.results.get(f"{key}/approved") is False:
            text = refused(call, str(details.get("reason") or "")).text
            return ToolMessage(tool_call_id=call.id, text=text, error=True)
        if key is None or key not in self.results:
            text = _NOT_APPROVED if any(_base(asked) == key for asked in self.asked) else _NO_RESULT
            return ToolMessage(tool_call_id=call.id, text=text, error=True)
        if self.results[key] is ERASED:
            return ToolMessage(tool_call_id=call.id, text=_ERASED)
        stored = outcome_data(call, self.results[key])
        text, changed = _as_sent(str(stored["text"])), details.get("arguments")
        if changed is not None and changed != call.arguments:
            text = with_new_arguments(call, changed, text)
        if stored.get("wrote") or stored.get("goto") is not None:
            text = f"{text}\n{_CHANGES_LOST}"
        id_, content = stored.get("call", call.id), tuple(stored.get("content", ()))
        return ToolMessage(tool_call_id=id_, text=text, content=content, error=bool(stored["error"]))

    def _signals(self, path: str, calls: int) -> Iterator[Message]:
        """Yield the messages that were sent to the agent run *path* and received after *calls* model calls, once."""
        for key, value in self.answers.items():
            match = _SIGNAL.fullmatch(key)
            if match and match["path"] == path and int(match["calls"]) == calls and key not in self._said:
                self._said.add(key)
                message = message_of(value, self.answers.get(f"pause/{key.removeprefix('signal/')}"))
                if message is not None:
                    yield message


def _response(reply: Reply) -> ModelResponse:
    return reply_from(reply.data, None, None)


def _call_of(result: Any) -> Any:
    """Return the id of the call that had a recorded *result*; None if it was erased, or if a person gave it."""
    return result.get("call") if issubclass(type(result), dict) else None


def _base(question: str) -> str:
    """Return the key of the tool call that a question is about; a question that is asked again has a number."""
    base, _, times = question.rpartition("/")
    return base if times.isdecimal() else question


def _unique(id_: str, ids: set[str]) -> str:
    """Return *id_*, or another id if it is empty or among *ids*, and add it to them."""
    unique, number = id_, len(ids)
    while not unique or unique in ids:
        number += 1
        unique = f"{id_[:30] or 'call'}-{number}"
    ids.add(unique)
    return unique


def _as_sent(text: str) -> str:
    """Return the result of a tool as far as models are sent it by default."""
    limit = AgentLimits().result_chars
    return text if limit is None or len(text) <= limit else cut(text, limit)
