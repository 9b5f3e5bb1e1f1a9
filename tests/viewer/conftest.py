"""Threads to display, and viewers that show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.errors import GraphrtError

from . import graphs

if find_spec("starlette") is None or find_spec("httpx") is None:
    collect_ignore_glob = ["test_app.py", "test_acting.py", "test_live.py", "test_rows.py", "browser*"]

TYPES = Path(__file__).parents[2] / "src" / "graphrt" / "viewer" / "page" / "types.d.ts"
HERE = {"x-graphrt-viewer": "1"}
"""Headers of the page in a request that changes something."""


def failed_letter(runtime: Runtime[Any, Any], thread: str = "letter") -> None:
    """Run a letter: it asks for an approval and for a verdict, and fails at its end."""
    runtime.run({"question": "rain", "broken": True}, thread=thread, title="About rain", tags=["post"])
    runtime.resume(thread, answer=True)
    with suppress(GraphrtError):
        runtime.resume(thread, answer={"do": "send", "remark": "good"})


@pytest.fixture
def letters(tmp_path: Path) -> Generator[Runtime[Any, Any]]:
    """A runtime on SQLite with a failed letter, and one that waits for an approval."""
    with ExitStack() as stack:
        store = f"sqlite:///{tmp_path}/runs.db"
        first = stack.enter_context(Runtime(graphs.letters, store=store, harness=graphs.writer()))
        failed_letter(first)
        second = Runtime(graphs.letters, store=first.store, harness=graphs.writer())
        second.run({"question": "snow"}, thread="waiting")
        yield second


@pytest.fixture
def viewer() -> Generator[Callable[..., Any]]:
    """Return a client of a viewer; `caller` is the caller of its requests."""
    from starlette.testclient import TestClient

    from graphrt.serve import Caller
    from graphrt.viewer import app

    with ExitStack() as stack:

        def made(threads: Any, caller: Any = None, **options: Any) -> Any:
            options.setdefault("authorize", lambda _request: caller or Caller(user="ann"))
            return stack.enter_context(TestClient(app(threads, **options), raise_server_exceptions=False))

        yield made


@cache
def interfaces() -> dict[str, tuple[set[str], set[str]]]:
    """Return the documents that `types.d.ts` declares: name to the required keys, and the allowed ones."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", TYPES.read_text(encoding="utf-8"), flags=re.DOTALL)
    own: dict[str, tuple[str, set[str], set[str]]] = {}
    for begin in re.finditer(r"interface (\w+)(?: extends (\w+))? \{", text):
        end, depth = begin.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        flat = text[begin.end() : end - 1]
        # Only the outer level of nested objects
        while (less := re.sub(r"[{\[(][^{}\[\]()]*[}\])]", " ", flat)) != flat:
            flat = less
        keys = re.findall(r"[;\n]\s*(\w+)(\??):", ";" + flat)
        own[begin[1]] = begin[2], {key for key, mark in keys if not mark}, {key for key, mark in keys if mark}
    return {
        name: (needs | (own[above][1] if above else set()), may | (own[above][2] if above else set()))
        for name, (above, needs, may) in own.items()
    }


def check(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Check that a document has the keys that `types.d.ts` declares for it, and return it."""
    needs, may = interfaces()[name]
    assert needs <= set(document) <= needs | may, (name, needs ^ set(document))
    return document
