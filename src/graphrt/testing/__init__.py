"""Tools for users' own tests: a scripted run, a fake chat server, and a conformance suite for stores.

Names are imported at first access, so that `import graphrt.testing` stays cheap. No other package of graphrt may import
this one.
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
"""Public name to the module that defines it."""


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
