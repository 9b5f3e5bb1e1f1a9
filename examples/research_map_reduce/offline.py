"""Models that replace a provider's: the program runs without a key, and the tests without a network."""

from __future__ import annotations

import json

from graphrt.harness import ChatModel, FunctionModel, ModelRequest, ToolCall

from .graph import Finding


def planned(request: ModelRequest) -> list[str]:
    """Stands for a model that plans."""
    return [f"What is {word}?" for word in request.text.split() if word != "and"]


def researched(request: ModelRequest) -> ToolCall | Finding:
    """Stands for a model that searches once, and answers with the first document that it gets."""
    if request.messages[-1].role == "user":
        return ToolCall(id="1", name="search", arguments={"words": request.text.strip("?").split()[-1]})
    documents: dict[str, str] = json.loads(request.text)
    return Finding(text=next(iter(documents.values()), "Nobody knows."), sources=list(documents))


def offline() -> dict[str, ChatModel]:
    """Models without a provider; the writer repeats the findings."""
    return {
        "planner": FunctionModel(planned),
        "researcher": FunctionModel(researched),
        "writer": FunctionModel(lambda request: request.text),
    }
