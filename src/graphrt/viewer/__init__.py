"""A page that shows threads and their history.

Experimental: names may change in a minor version (docs/reference/versions.md).

    page = graphrt.viewer.html(runtime, "thread-1")      # one file
    graphrt.serve.app(runtime, authorize=who, mounts={"/ui": graphrt.viewer.app(runtime)})

`graphrt show TARGET THREAD --html FILE` writes the file, and `graphrt ui TARGET` serves the page on this machine. Names
are imported on first use: `app` needs starlette (extra `graphrt[serve]`), and `html` needs no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrt.errors._codes.arguments import MISSING_PACKAGE

if TYPE_CHECKING:
    from graphrt.viewer._app import Acting, Viewer, app
    from graphrt.viewer._file import html

__all__ = ["Acting", "Viewer", "app", "html"]

_MODULES = {"Acting": "_app", "Viewer": "_app", "app": "_app", "html": "_file"}


def __getattr__(name: str) -> Any:
    """Import the name from its module at first access (PEP 562)."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] != "starlette":
            raise
        raise MISSING_PACKAGE(user="graphrt.viewer", package=missing, extra="serve", value=missing) from error
