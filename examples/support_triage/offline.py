"""Models that replace a provider's: the program runs without a key, and the tests without a network."""

from __future__ import annotations

from typing import Any

from graphrt.harness import ChatModel, FunctionModel, ModelRequest


def read(request: ModelRequest) -> dict[str, Any]:
    """Stands for a model that classifies."""
    text = request.text.lower()
    topic = "billing" if "charge" in text else "technical" if "sign in" in text else "other"
    return {"topic": topic, "angry": "!" in text}


def answer(request: ModelRequest) -> str:
    """Stands for a model that writes."""
    lines = dict(line.split(": ", 1) for line in request.text.splitlines())
    thanks = "We are sorry." if "Remark" in lines else "Thank you for asking."
    return f"{thanks} {lines['Article']}"


def offline() -> dict[str, ChatModel]:
    return {"classifier": FunctionModel(read), "writer": FunctionModel(answer)}
