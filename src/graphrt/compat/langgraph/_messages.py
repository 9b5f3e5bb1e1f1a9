"""LangChain's messages in states: their stored form, and ids that are assigned before the fold.

`add_messages` turns texts and pairs into messages and gives an id to those without one. A reducer of graphrt has to be
pure, so that the journal folds to the same state again. So updates are converted and get ids before they are journalled
(`identified`), and `add_messages` generates no ids.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable
from typing import Any, Final

from langchain_core import agents, documents, messages
from langchain_core.messages import BaseMessage, BaseMessageChunk, convert_to_messages, message_chunk_to_message
from langgraph.graph import message as of_langgraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send

from graphrt.stores import register_type

_MESSAGES: Final = (
    "AIMessage",
    "AIMessageChunk",
    "ChatMessage",
    "ChatMessageChunk",
    "FunctionMessage",
    "FunctionMessageChunk",
    "HumanMessage",
    "HumanMessageChunk",
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolMessage",
    "ToolMessageChunk",
)
_OTHERS: Final[tuple[type[Any], ...]] = (
    documents.Document,
    agents.AgentAction,
    agents.AgentActionMessageLog,
    agents.AgentFinish,
    agents.AgentStep,
)


@functools.cache
def register() -> None:
    """Make LangChain's messages, documents and agent actions storable, once per process.

    Their tags begin with `langchain_core.`, since their names are common and graphrt uses some of them for its own
    messages.
    """
    for cls in (*(getattr(messages, name) for name in _MESSAGES), *_OTHERS):
        register_type(cls, tag=f"langchain_core.{cls.__name__}")
    # Programs may send a Command to a node as its state.
    register_type(
        Command,
        tag="langgraph.Command",
        encode=lambda command: [command.graph, command.update, command.resume, command.goto],
        decode=lambda data: Command(graph=data[0], update=data[1], resume=data[2], goto=data[3]),
    )
    register_type(
        Send,
        tag="langgraph.Send",
        encode=lambda send: [send.node, send.arg],
        decode=lambda data: Send(data[0], data[1]),
    )


def is_add_messages(reducer: Any) -> bool:
    """Return whether *reducer* is `add_messages`, `add_messages(format=...)`, or the variant for a `DeltaChannel`."""
    plain = reducer.func if isinstance(reducer, functools.partial) else reducer
    of_delta: Any = getattr(of_langgraph, "_messages_delta_reducer", add_messages)
    return plain in (add_messages, inspect.unwrap(add_messages), of_delta)


def identified(value: Any, make_id: Callable[[], str]) -> list[Any]:
    """Return a node's messages as a list in which each has an id. The caller's messages are not changed.

    Args:
        value: A message, or a list of values that LangChain accepts as messages.
        make_id: Makes an id.
    """
    unconverted: Any = [value] if value.__class__ is not list else value
    if not all(isinstance(message, BaseMessage) for message in unconverted):
        unconverted = convert_to_messages(unconverted)
    return [_identified(message, make_id) for message in unconverted]


def _identified(message: Any, make_id: Callable[[], str]) -> Any:
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    return message if message.id is not None else message.model_copy(update={"id": make_id()})


def random_id() -> str:
    """Return the id for a message in an input."""
    return str(uuid.uuid4())


def drawn_id(drawn: Any) -> str:
    """Return the id for a message that a node wrote; *drawn* is its context's `random`, so that a replay agrees."""
    return str(uuid.UUID(int=drawn.getrandbits(128), version=4))
