"""The official clients of both protocols accept the wire of a thread with everything that a chat shows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.wires.chats import ANSWERS, GIVEN, LABEL, PICTURE, fold, opened, wired


@pytest.mark.slow  # npm unpacks 50 MB
def test_official_clients_accept_the_wires_and_have_the_same_texts(clients: Path) -> None:
    with opened() as shop:
        shop.run(GIVEN, thread="t")
        for answer in ANSWERS:
            shop.resume("t", answer=answer)
        wires = {name: wired(fold(name, shop), shop.entries("t")) for name in ("ai-sdk", "ag-ui")}

    done = subprocess.run(
        ["node", "check.mjs"], cwd=clients, input=json.dumps(wires), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    page: dict[str, Any] = json.loads(done.stdout)
    assert page["warnings"] == []
    assert page["state"] == {"notes": ["talked", "Red and blue."], "colour": "red"}
    said = [one["content"] for one in page["messages"] if one["role"] == "assistant" and one.get("content")]
    assert said == ["The blue one.", "Done: kettle is put aside.", "Red and blue."]
    texts = [one["text"] for one in page["message"]["parts"] if one["type"] == "text"]
    assert texts == ["Done: kettle is put aside.", "Red and blue."]
    made = [one["url"] for one in page["message"]["parts"] if one["type"] == "file"]
    assert made == [LABEL.data_url(), PICTURE.data_url()]
    assert {one["state"] for one in page["message"]["parts"] if one["type"] == "dynamic-tool"} == {"output-available"}
