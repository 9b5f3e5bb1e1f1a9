"""The official clients of both protocols take the wire of a thread with all that a chat shows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.wires.chats import ANSWERS, GIVEN, LABEL, PICTURE, fold, opened, wired

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the clients, installed as the lock file says."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs node and npm: the official clients read the wires there")
        pytest.skip("no npm: the official clients are not asked")
    folder = tmp_path_factory.mktemp("clients")
    for name in ("package.json", "package-lock.json", "check.mjs"):
        shutil.copy(HERE / name, folder / name)
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm could not install the official clients: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow  # npm unpacks 50 MB
def test_the_official_clients_take_the_wires_and_have_the_same_texts(clients: Path) -> None:
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
