"""Threads over HTTP: `app`, an ASGI application, and `Client`, which has the verbs of `Runtime` (extra `graphrt[serve]`).

Experimental: names may change in a minor version (docs/reference/versions.md).

    app = graphrt.serve.app(runtime, authorize=who)        # starts, shows, answers, edits; drives nothing
    client = graphrt.serve.Client("http://localhost:8000", "research", token="...")

`graphrt serve module:graph --store URL` runs the application together with a worker. Names are imported on first use: a
client needs only httpx, and a server starlette.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt.errors._codes.arguments import MISSING_PACKAGE

if TYPE_CHECKING:
    from graphrt.serve._access import ALL_RIGHTS, Authorize, Caller, LoopbackAccess, Right, anyone
    from graphrt.serve._asgi import Application, app
    from graphrt.serve._bounds import Bounds
    from graphrt.serve._chat import AgUiAgent, ChatProtocol, Projection, Turn, UiMessageChat
    from graphrt.serve._client import Client, ClientOptions, RemoteSchedules
    from graphrt.serve._client_values import (
        QuestionsWanted,
        RemoteEntry,
        RemoteLiveItem,
        RemoteQuestion,
        RemoteState,
        RemoteThread,
        ScheduleOptions,
        StartOptions,
        ThreadsWanted,
    )
    from graphrt.serve._server import serve

__all__ = [
    "ALL_RIGHTS",
    "AgUiAgent",
    "Application",
    "Authorize",
    "Bounds",
    "Caller",
    "ChatProtocol",
    "Client",
    "ClientOptions",
    "LoopbackAccess",
    "Projection",
    "QuestionsWanted",
    "RemoteEntry",
    "RemoteLiveItem",
    "RemoteQuestion",
    "RemoteSchedules",
    "RemoteState",
    "RemoteThread",
    "Right",
    "ScheduleOptions",
    "StartOptions",
    "ThreadsWanted",
    "Turn",
    "UiMessageChat",
    "anyone",
    "app",
    "serve",
]

_MODULES = {
    **dict.fromkeys(("ALL_RIGHTS", "Authorize", "Caller", "LoopbackAccess", "Right", "anyone"), "_access"),
    **dict.fromkeys(("Application", "app"), "_asgi"),
    "Bounds": "_bounds",
    **dict.fromkeys(("AgUiAgent", "ChatProtocol", "Projection", "Turn", "UiMessageChat"), "_chat"),
    **dict.fromkeys(("Client", "ClientOptions", "RemoteSchedules"), "_client"),
    **dict.fromkeys(
        (
            "QuestionsWanted",
            "RemoteEntry",
            "RemoteLiveItem",
            "RemoteQuestion",
            "RemoteState",
            "RemoteThread",
            "ScheduleOptions",
            "StartOptions",
            "ThreadsWanted",
        ),
        "_client_values",
    ),
    "serve": "_server",
}


def __getattr__(name: str) -> Any:
    """Import the name from its module at first access (PEP 562)."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] not in ("starlette", "httpx", "uvicorn"):
            raise
        raise MISSING_PACKAGE(user="graphrt.serve", package=missing, extra="serve", value=missing) from error
