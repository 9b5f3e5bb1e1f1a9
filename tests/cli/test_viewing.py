"""`graphrt show --html` writes a page, and `graphrt ui` serves one on loopback until it is stopped."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Called, start

S = ["--store", "runs.db"]


@pytest.mark.parametrize("target", [["flow.py:letters", "paused", *S], ["runs.db", "paused"]])
def test_thread_is_written_as_one_file(
    call: Callable[..., Called], stored: str, folder: Path, target: list[str]
) -> None:
    assert stored
    call("show", *target, "--html", "page.html")
    found = call("show", *target, "--html", "page.html", "-ojson").document["result"]  # replaces the earlier page
    page = (folder / "page.html").read_text(encoding="utf-8")

    assert found == {"thread": "paused", "path": "page.html", "bytes": len(page.encode())}
    assert page.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--html", "p.html", "--at", "3"], "leave out --at"),
        (["--prompts"], "are for --html"),
        (["--html", "none/p.html"], "none/p.html"),
        (["--html", "p.html", "--coverage", "none.json"], ""),
    ],
)
def test_conflicting_options_are_refused(call: Callable[..., Called], stored: str, words: list[str], told: str) -> None:
    assert stored
    found = call("show", "flow.py:letters", "paused", *S, *words)

    assert found.code == (2 if told else 0)
    assert told in found.err


@pytest.mark.needs("uvicorn", "starlette", "httpx")
@pytest.mark.parametrize(
    ("words", "told"), [(["runs.db", "--act"], "needs the graph"), (["runs.db", "flow.py:fan"], "Name one")]
)
def test_invalid_arguments_of_the_viewer_are_refused(
    call: Callable[..., Called], stored: str, words: list[str], told: str
) -> None:
    assert stored
    found = call("ui", *words)

    assert found.code == 2
    assert told in found.err


@pytest.mark.needs("uvicorn", "starlette", "httpx")
@pytest.mark.slow
@pytest.mark.parametrize("target", [["flow.py:letters", *S], ["runs.db"]])
def test_page_is_served_only_with_the_token(
    call: Callable[..., Called], stored: str, folder: Path, target: list[str]
) -> None:
    import httpx

    assert stored
    process = start(["-m", "graphrt", "ui", *target, "--port", "0"], cwd=folder)
    try:
        assert process.stderr is not None
        told = ""
        while (found := re.search(r"open (http://127\.0\.0\.1:\d+)/#token=(\S+)", told)) is None:
            line = process.stderr.readline()
            assert line, told
            told += line
        url, token = found.groups()
        assert "content-security-policy" in httpx.get(f"{url}/").headers
        assert httpx.get(f"{url}/api/threads").status_code == 401
        threads = httpx.get(f"{url}/api/threads", headers={"authorization": f"Bearer {token}"}).json()["threads"]
        assert "paused" in {one["thread"] for one in threads}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
