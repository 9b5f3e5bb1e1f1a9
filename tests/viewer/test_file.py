"""`html`: one file that loads nothing and in which no text of a thread can act as markup."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from hashlib import sha256
from html import unescape
from typing import Any

import pytest

from graphrt import Runtime
from graphrt.errors import GraphrtError, InputError
from graphrt.harness import allow_model_requests
from graphrt.viewer import html

from . import graphs
from .conftest import check


def data_of(page: str) -> dict[str, Any]:
    """Return the embedded data of a file."""
    found = re.search(r'<script type="application/octet-stream;base64" id="data">([^<]*)</script>', page)
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(b64decode(found[1])))
    return data


def scripts_of(page: str) -> list[str]:
    return re.findall(r'<script type="module">(.*?)</script>', page, re.DOTALL)


def test_file_has_the_documents_of_the_thread(letters: Runtime[Any, Any]) -> None:
    with allow_model_requests(False):
        data = check(data_of(html(letters, "letter", prompts=True, target="app:letters")), "FileData")

    assert check(data["head"], "Head")["notes"] == []
    check(data["graph"], "GraphDoc")
    check(data["thread"], "ThreadDoc")
    check(data["audit"], "AuditDoc")
    calls = [check(one, "CallDoc") for one in data["calls"].values()]
    asked = [
        [(one["role"], [part["kind"] for part in one["parts"]]) for one in call["prompt"]["messages"]] for call in calls
    ]
    assert asked[0] == [("system", ["text"]), ("user", ["text", "media"])]
    assert asked[1][2:] == [("assistant", ["call"]), ("tool", ["result"])]
    assert {one["name"] for one in calls[0]["prompt"]["tools"]} == {"weather", "send"}
    assert data["audit"]["verdict"] == "intact"
    [case] = data["cases"].values()
    assert "from tests.viewer.graphs import letters" in case["text"]
    said = [(one["role"], [part["kind"] for part in one["parts"]]) for one in data["conversation"]["messages"]]
    assert said == [
        ("user", ["data"]),
        ("assistant", ["question"]),
        ("assistant", ["call", "result"]),
        ("assistant", ["call", "result"]),
        ("assistant", ["text"]),
        ("assistant", ["question"]),
        ("assistant", ["error"]),
    ]


def test_prompts_are_included_only_on_request(letters: Runtime[Any, Any]) -> None:
    data = data_of(html(letters, "letter"))

    assert {one["prompt"] for one in data["calls"].values()} == {None}
    assert all("--prompts" in one["prompt_problem"] for one in data["calls"].values())


def test_policy_of_the_file_allows_only_its_own_script_and_style(letters: Runtime[Any, Any]) -> None:
    page = html(letters, "letter")
    policy = re.search(r'<meta http-equiv="content-security-policy" content="([^"]*)">', page)
    assert policy is not None
    [script] = scripts_of(page)
    [style] = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    parts = dict(part.strip().split(" ", 1) for part in unescape(policy[1]).split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["script-src"] == hashed(script)
    assert parts["style-src"] == hashed(style)
    assert "connect-src" not in parts
    outside = page.replace(script, "").replace(style, "")
    assert not re.findall(r'(?:src|href)="(?!data:,"|#)', outside)


@pytest.fixture
def spoilt() -> Any:
    with Runtime(graphs.hostile, store="memory:") as runtime:
        runtime.run({"text": graphs.HOSTILE[0]}, thread="t", title="</title><script>", tags=["x"])
        with suppress(GraphrtError):
            runtime.resume("t", answer=graphs.HOSTILE[2])
        yield runtime


@pytest.mark.parametrize("code", [True, False])
def test_hostile_values_cannot_break_out_of_the_embedded_data(spoilt: Runtime[Any, Any], code: bool) -> None:
    runtime = spoilt if code else Runtime(graphs.letters, store=spoilt.store)
    page = html(runtime, "t")
    data = data_of(page)

    assert page.isascii() or page.encode()  # no lone surrogate
    assert len(re.findall(r"<script\b", page)) == 2
    assert page.count("</script>") == 2
    assert "alert(1)" not in page
    assert "onerror" not in page.replace(scripts_of(page)[0], "")
    assert "<title>&lt;/title&gt;&lt;script&gt; - graphrt</title>" in page
    assert all(text in str(data["rows"]) or repr(text)[1:-1] in str(data["rows"]) for text in graphs.STORED)
    assert data["graph"]["graph"] == graphs.hostile.name
    assert len(page) < 1_000_000  # a text of 10 MB was truncated
    assert "Texts are cut" in data["head"]["notes"][0]
    if code:
        text = next(row for row in data["rows"] if row["node"] == "weigh")["ops"][0][2]
        assert text["$cut"]["size"] == 12 * 900_000


def test_export_of_an_unknown_thread_is_refused(letters: Runtime[Any, Any]) -> None:
    with pytest.raises(InputError, match="no thread"):
        html(letters, "nobody")
    with pytest.raises(InputError):
        html(Runtime(graphs.letters), "letter")
