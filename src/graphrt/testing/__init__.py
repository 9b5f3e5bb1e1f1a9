"""Test graphs and harnesses: fakes, helpers and checks for users' own tests.

Names are loaded at their first use; no work may happen here, and nothing else of graphrt may import this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphrt.testing.chat_answers import ChatAnswer, ChatRequest
    from graphrt.testing.chat_server import FakeChatServer
    from graphrt.testing.scripted import run_scripted

__all__ = ["ChatAnswer", "ChatRequest", "FakeChatServer", "run_scripted"]

_HOMES: Final[dict[str, str]] = {
    **dict[str, str].fromkeys(("ChatAnswer", "ChatRequest"), "graphrt.testing.chat_answers"),
    "FakeChatServer": "graphrt.testing.chat_server",
    "run_scripted": "graphrt.testing.scripted",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
