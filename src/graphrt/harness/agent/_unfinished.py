"""The messages of a turn that was given up, from what its task recorded (decision 0183).

While an agent works, its conversation exists in memory only; the journal has the replies of its models, the results of
its tools, and the answers of people. If the task is abandoned, the conversation is put together from these, so that the
model of the next turn knows what was said and done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, final

from graphrt.harness._reply_data import reply_from
from graphrt.harness.agent._digest import of_arguments
from graphrt.harness.agent._long_results import cut
from graphrt.harness.agent._signals import message_of
from graphrt.harness.agent._tool_calls import edited, kept, refused
from graphrt.harness.agent.limits import AgentLimits
from graphrt.harness.messages import AssistantMessage, Message, ToolCall, ToolMessage

__all__ = ["Reply", "Turn"]

_NO_RESULT: Final = "This call has no result: the turn was stopped. It is not known whether the call was carried out."
_NOT_APPROVED: Final = "This call was not carried out: the turn was stopped before a person had approved it."


class Reply(NamedTuple):
    """A recorded reply of a model to an agent."""

    key: str
    """Key of the model call in the task."""
    agent: str
    """Name of the agent."""
    data: Mapping[str, Any]
    """The reply as plain data; see `harness._reply_data`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a task recorded about its agents. Keys identify calls and questions within the task."""

    replies: Sequence[Reply]
    """The replies to agents that continue the conversation, in order."""
    partial: Sequence[tuple[str, str]]
    """The texts of replies that were cut off, in order, with the keys of their calls."""
    results: Mapping[str, Any]
    """Results of effects, such as tool calls, by their keys."""
    started: Collection[str]
    """Keys of the effects of kind `once` that were started."""
    answers: Mapping[str, Any]
    """Answers to questions, and signals that were received, by the keys of the questions."""
    asked: Collection[str]
    """Keys of the questions without an answer."""

    def messages(self) -> Iterator[Message]:
        """Yield the messages of the turn, in order.

        A reply whose tool calls were not begun is left out: the agent repeats it if it is still wanted.
        """
        numbers: Counter[str] = Counter()  # as `_host.number` counts equal tool calls
        replies: Counter[str] = Counter()  # by the path of the agent run
        for reply in self.replies:
            path = _path(reply.key)
            if path not in replies:
                yield from self._signals(path, 0)
            replies[path] += 1
            yield from self._exchange(reply, numbers)
            yield from self._signals(path, replies[path])
        for key, text in self.partial:
            if _path(key) not in replies:
                yield from self._signals(_path(key), 0)
            yield AssistantMessage(text=text, partial=True)

    def _exchange(self, reply: Reply, numbers: Counter[str]) -> Iterator[Message]:
        """Yield a reply as a message, and the results of its tool calls."""
        response = reply_from(reply.data, None, None)
        results: list[ToolMessage] = []
        was_begun = False
        for call in response.tool_calls:
            result, begun = self._outcome(call, self._key(call, reply.agent, numbers))
            results.append(result)
            was_begun = was_begun or begun
        if was_begun or (response.text and not results):
            answered = zip(response.tool_calls, results, strict=True)
            # Agents rename calls whose ids are not unique, and results have the new ids.
            calls = tuple(replace(call, id=result.tool_call_id) for call, result in answered)
            yield replace(response.message, tool_calls=calls)
            yield from results

    def _key(self, call: ToolCall, agent: str, numbers: Counter[str]) -> str:
        """Return the key of the effect of a tool call, as `Tooling` makes it."""
        name = f"tool/{call.name}/{of_arguments({'agent': (agent,), 'arguments': call.arguments})}"
        numbers[name] += 1
        return f"{name}#{numbers[name]}"

    def _outcome(self, call: ToolCall, key: str) -> tuple[ToolMessage, bool]:
        """Return the result of a tool call for the model, and whether the call was begun or refused."""
        answer: Any = next((self.answers[asked] for asked in list(self.answers)[::-1] if _is_about(asked, key)), None)
        details: dict[str, Any] = answer if issubclass(type(answer), dict) else {}
        if answer is False or details.get("approve") is False or self.results.get(f"{key}/approved") is False:
            text = refused(call, str(details.get("reason") or "")).text
            return ToolMessage(tool_call_id=call.id, text=text, error=True), True
        if key not in self.results:
            text = _NOT_APPROVED if any(_is_about(asked, key) for asked in self.asked) else _NO_RESULT
            return ToolMessage(tool_call_id=call.id, text=text, error=True), key in self.started
        stored = kept(call, self.results[key])
        text, changed = _as_sent(str(stored["text"])), details.get("arguments")
        if changed is not None and changed != call.arguments:
            text = edited(call, changed, text)
        id_, content = stored.get("call", call.id), tuple(stored.get("content", ()))
        return ToolMessage(tool_call_id=id_, text=text, content=content, error=bool(stored["error"])), True

    def _signals(self, path: str, calls: int) -> Iterator[Message]:
        """Yield the messages that were sent to the agent run *path* and received after *calls* model calls."""
        place = f"{path}{calls}."
        for key, value in self.answers.items():
            if key.startswith(f"signal/{place}"):
                nth = key.rpartition(".")[2]
                message = message_of(value, self.answers.get(f"pause/{place}{nth}"))
                if message is not None:
                    yield message


def _path(key: str) -> str:
    """Return the path of the agent run that made the model call *key*."""
    return key[: key.rfind("/") + 1]


def _is_about(asked: str, key: str) -> bool:
    """Return whether the question *asked* is about the tool call *key*, for the first time or again."""
    base, _, times = asked.rpartition("/")
    return asked == key or (base == key and times.isdecimal())


def _as_sent(text: str) -> str:
    """Return the result of a tool as far as models are sent it by default."""
    limit = AgentLimits().result_chars
    return text if limit is None or len(text) <= limit else cut(text, limit)
