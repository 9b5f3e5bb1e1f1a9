"""The page of a chat: a document, one module and a style sheet, which are files in `chat_page`.

They contain no data of a thread, so that a browser may load them without credentials. The module asks for the token of
the server and sends it with each request.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Final
from urllib.parse import quote

from graphrt.serve._bounds import Bounds

ASSETS: Final = {"chat.js": "text/javascript", "chat.css": "text/css"}
"""Files that the document names, and their media types."""
HEADERS: Final = {
    # Nothing but the page's own module and style sheet, and requests to this server.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cache-control": "no-cache",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of the document and of its files."""


@cache
def asset(name: str) -> bytes:
    """Return the content of a file of the page."""
    return files("graphrt.serve").joinpath("chat_page", name).read_bytes()


def document(graph: str, *, root: str, path: str, bounds: Bounds) -> bytes:
    """Return the document.

    Args:
        graph: Name of the graph.
        root: Path at which the application is mounted; empty for none.
        path: Path of the chat within it.
        bounds: Limits on the files of a message, which the page checks before it sends them.
    """
    threads = f"{root}/graphs/{quote(graph, safe='')}/threads"
    values = {"graph": graph, "threads": threads, "chat": f"{root}{quote(path)}"}
    values |= {name: str(getattr(bounds, name)) for name in ("files", "file_bytes", "chat_body_bytes")}
    text = asset("index.html").decode()
    return Template(text).substitute({name: escape(value) for name, value in values.items()}).encode()
