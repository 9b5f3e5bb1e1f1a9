"""Input to an agent while it runs: the signals with a given name that were sent to its thread.

The agent checks between two model calls. A signal is received as with `ctx.receive`: the task requests it and runs
again once it has it, so it is taken only once, and at the same point in every execution. The agent only requests a
signal if one is waiting, so an agent that receives none never pauses.
"""

from __future__ import annotations

from typing import Any, Final, final

from graphrt.harness.agent._host import NO_SIGNAL, Host, Question
from graphrt.harness.agent._model_calls import Caller
from graphrt.harness.messages import UserMessage
from graphrt.harness.tools.results import to_result

__all__ = ["Signals", "message_of"]

_PAUSE: Final = {"pause"}
"""Keys of a signal that asks the agent to pause."""


@final
class Signals:
    """The signals of one run of an agent.

    Args:
        host: The host.
        name: Name of the signals.
        path: Prefix of the keys of the run: the same at every execution.
        agent: Name of the agent.
        caller: Makes the model calls of the run.
    """

    def __init__(self, host: Host, name: str, path: str, agent: str, caller: Caller) -> None:
        self._host = host
        self._name = name
        self._path = path
        self._agent = agent
        self._caller = caller

    async def taken(self) -> list[UserMessage]:
        """Return the signals for the agent as messages of the user: 0..n. A request to pause asks a person first."""
        messages: list[UserMessage] = []
        nth = 0
        while True:
            nth += 1
            calls = self._caller.asked
            value: Any = await self._host.receive(self._name, self._path, calls, nth)
            if value is NO_SIGNAL:
                return messages
            answer: Any = None
            if _is_pause(value):
                payload: dict[str, Any] = {"problem": "paused", "reason": value["pause"], "agent": self._agent}
                (answer,) = self._host.ask([Question(key=f"pause/{self._path}{calls}.{nth}", payload=payload)])
            message = message_of(value, answer)
            if message is not None:
                messages.append(message)


def _is_pause(value: Any) -> bool:
    return type(value) is dict and value.keys() == _PAUSE  # pyright: ignore[reportUnknownMemberType]


def message_of(value: Any, answer: Any) -> UserMessage | None:
    """Return a signal's value as a message: a text or a message as it is, anything else as JSON.

    Args:
        value: The value. If it asks the agent to pause, the message is the *answer*.
        answer: The answer of the person for whom the agent paused. None, True or False: there is no message.
    """
    if _is_pause(value):
        value = answer
        if value is None or isinstance(value, bool):
            return None
    if isinstance(value, UserMessage):
        return value
    return UserMessage(text=to_result(value, tool="signal").text)
