"""Models that replace a provider's. They decide by rules from their prompt, and never see the whole log."""

from __future__ import annotations

import re

from graphrt.harness import AgentReply, ChatModel, FunctionModel, ModelRequest, ToolCall

QUESTION = "Which release broke the checkout, and how many of its requests failed?"
FAILED = "How many requests of the service checkout have the status 500?"


def reader(request: ModelRequest) -> AgentReply | ToolCall | str:
    """Find the alert, note the release, count the failed requests piece by piece, answer."""
    last = request.messages[-1]
    noted = re.search(r"- broken by (\w+)", request.messages[1].text)
    if noted is None:
        alert = re.search(r"alert checkout: .* since release (\w+)", last.text)
        if alert is None:
            asked = {"query": "alert checkout: *", "syntax": "glob", "around": 0}
            return ToolCall(id="1", name="search", arguments=asked)
        note = ToolCall(id="2", name="note", arguments={"text": f"broken by {alert[1]}"})
        count = ToolCall(id="3", name="map", arguments={"question": FAILED, "combine": "sum"})
        return AgentReply(tool_calls=(note, count))
    total = re.search(r"sum = (\d+)", last.text)
    return (
        f"Release {noted[1]} broke the checkout; {total[1]} of its requests failed." if total else "I could not tell."
    )


def piece(request: ModelRequest) -> str:
    """Count in one piece."""
    if FAILED not in request.text:
        return "NONE"
    return str(len(re.findall(r"service=checkout status=500", request.text)) or "NONE")


def offline() -> dict[str, ChatModel]:
    """Models by the name of the agent: readers, and sub-calls about pieces."""
    return {"recursive": FunctionModel(reader), "recursive-piece": FunctionModel(piece)}
