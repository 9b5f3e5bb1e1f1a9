"""Models that replace a provider's: the program runs without a key, and the tests without a network."""

from __future__ import annotations

import re

from graphrt.harness import AssistantMessage, ChatModel, FunctionModel, Message, ModelRequest, ToolCall

from .files import seen


def turn(request: ModelRequest) -> tuple[Message, list[str], list[Message]]:
    """Return the customer's last message, the names of the tools called since, and the messages since."""
    last = max(
        n for n, said in enumerate(request.messages) if said.role == "user" and "Do not promise" not in said.text
    )
    since = request.messages[last + 1 :]
    called = [call.name for said in since if isinstance(said, AssistantMessage) for call in said.tool_calls]
    return request.messages[last], called, [*since]


def receive(request: ModelRequest) -> str | ToolCall:
    """Stands for the model of the reception, which knows three kinds of messages."""
    said, called, since = turn(request)
    if said.media:
        return ToolCall(id="", name="transfer_to_assessor")
    if moved := re.search(r"moved to (\w+)", said.text):
        fact = {"key": "town", "text": f"lives in {moved[1]}"}
        return f"Noted: {moved[1]}." if called else ToolCall(id="", name="remember", arguments=fact)
    if "know about me" in said.text:
        return since[-1].text if called else ToolCall(id="", name="recall", arguments={"query": ""})
    return f"Thank you for telling us: {said.text}"


def examine(request: ModelRequest) -> str | ToolCall:
    """Stands for the model of the assessor, which reads the photo and the invoice, and promises too early."""
    said, called, since = turn(request)
    name = re.search(r"[\w-]+\.pdf", said.text)
    if name and "open_file" not in called:
        return ToolCall(id="", name="open_file", arguments={"name": name[0]})
    total = [re.search(r"Total: (\d+) EUR", seen(part.data or b"")) for result in since for part in result.media]
    if not total or not total[0]:
        return "We need a readable invoice." if since[-1].role == "user" else "We will pay what the invoice says."
    if "assess" not in called:
        damage = seen(said.media[0].data or b"")
        return ToolCall(id="", name="assess", arguments={"damage": damage, "amount": int(total[0][1])})
    return ToolCall(id="", name="settle")


def summarise(request: ModelRequest) -> str:
    """Stands for the model that summarises the messages that the others no longer get."""
    before = re.search(r"wrote (\d+) messages", request.text)
    return f"The customer wrote {int(before[1] if before else 0) + request.text.count('user:')} messages."


def offline() -> dict[str, ChatModel]:
    """Models for the agents of the graph, by name, each with a record of its calls."""
    return {
        "reception": FunctionModel(receive),
        "reception-summary": FunctionModel(summarise),
        "assessor": FunctionModel(examine),
        "assessor-summary": FunctionModel(summarise),
    }
