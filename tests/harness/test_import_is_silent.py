"""Importing the harness package, and litellm behind its adapter, has no side effects on the process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphrt.events import Usage
from graphrt.testing import ChatAnswer, FakeChatServer

SOURCE = Path(__file__).parents[2] / "src"

IMPORT = """
import json, sys
before = set(sys.modules)
import graphrt.harness
light = sorted(set(sys.modules) - before)
from graphrt.harness import LiteLLMHarness, MockHarness
LiteLLMHarness("openai/fake")
MockHarness(["x"])
print(json.dumps({"light": light, "litellm": "litellm" in sys.modules}))
"""

CALL = """
import json, logging, os, sys, threading, warnings

reached, written = [], []

def watch(event, args):
    if event == "socket.getaddrinfo":
        reached.append(str(args[0]))
    elif event == "socket.connect" and isinstance(args[1], tuple):
        reached.append(str(args[1][0]))
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        if "__pycache__" not in str(args[0]) and args[0] != os.devnull:
            written.append(str(args[0]))

sys.addaudithook(watch)
import asyncio
from graphrt.harness import LiteLLMHarness, OutputSpec, ToolSpec

harness = LiteLLMHarness("openai/fake", api_base=sys.argv[1], api_key="k", timeout_s=60)
claude = LiteLLMHarness("anthropic/claude-sonnet-4-5", api_base=sys.argv[3], api_key="k", timeout_s=60)
schema = {"type": "object", "properties": {}, "additionalProperties": False}
before = {
    "litellm": "litellm" in sys.modules,
    "filters": list(warnings.filters),
    "handlers": list(logging.getLogger().handlers),
    "level": logging.getLogger().level,
    "environment": dict(os.environ),
}

async def talk():
    reply = await harness.run("hi", tools=[ToolSpec(name="search")])
    streamed = [item async for item in harness.stream("hi")]
    await claude.run("hi", output=OutputSpec(name="empty", schema=schema, strict=True))
    try:
        await harness.run("hi")
    except Exception as error:
        failure = type(error).__name__
    return reply.text, streamed[-1].text, failure

said = asyncio.run(talk())
with open(sys.argv[2], "w") as file:
    json.dump({
        "said": said,
        "reached": sorted(set(reached)),
        "written": written,
        "litellm_before": before["litellm"],
        "filters_kept": before["filters"] == list(warnings.filters),
        "handlers_kept": before["handlers"] == logging.getLogger().handlers,
        "level_kept": before["level"] == logging.getLogger().level,
        "loud_handlers": [
            name
            for name, logger in list(logging.Logger.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and name.startswith("LiteLLM")
            for handler in logger.handlers
            if not isinstance(handler, logging.NullHandler)
        ],
        "environment_new": sorted(set(os.environ) - set(before["environment"])),
        "inside": sys.modules["litellm"].__file__,
        "planted": os.environ.get("PLANTED_BY_DOTENV"),
    }, file)
"""


def environment(*folders: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITELLM", "PYTEST", "COV"))}
    path = os.pathsep.join(map(str, (*folders, SOURCE)))
    return {**kept, "PYTHONPATH": path, "PYTHONWARNINGS": "error", "PYTHONDONTWRITEBYTECODE": "1"}


def test_import_of_the_package_is_light_and_does_not_import_litellm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, env=environment(), timeout=60, check=True
    )

    found = json.loads(done.stdout)
    assert done.stderr == ""
    assert not {"asyncio", "socket", "ssl", "http", "email", "litellm"} & set(found["light"])
    assert found["litellm"] is False


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The state of a fresh process after its first calls, in a directory with a `.env`, with warnings as errors."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".env").write_text("PLANTED_BY_DOTENV=yes\n")
    # litellm searches for a .env above its own folder: simulate an installation inside the project.
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    (folder / "site").mkdir()
    (folder / "site" / "litellm").symlink_to(Path(spec.origin).parent)
    (folder / "talk.py").write_text(CALL)
    answer = ChatAnswer(text="hello", usage=Usage(input_tokens=1, output_tokens=1))
    with FakeChatServer([answer, answer, answer, ChatAnswer.failure(500)]) as server:
        done = subprocess.run(
            [sys.executable, "talk.py", server.url, "found.json", server.anthropic_url],
            capture_output=True,
            text=True,
            env=environment(folder / "site"),
            cwd=folder,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return {**found, "stdout": done.stdout, "stderr": done.stderr}


@pytest.mark.needs("litellm")
@pytest.mark.xdist_group("silence")
class TestFirstCall:
    def test_calls_work_with_tools_on_a_base_install(self, called: dict[str, Any]) -> None:
        assert called["said"] == ["hello", "hello", "TransientModelError"]

    def test_calls_connect_to_the_provider_only(self, called: dict[str, Any]) -> None:
        assert called["reached"] == ["127.0.0.1"]

    def test_nothing_is_printed_until_the_process_ends(self, called: dict[str, Any]) -> None:
        assert called["stdout"] == ""
        assert called["stderr"] == ""

    def test_litellm_is_imported_by_the_first_call(self, called: dict[str, Any]) -> None:
        assert called["litellm_before"] is False

    def test_env_file_of_the_project_is_not_loaded(self, called: dict[str, Any]) -> None:
        assert "site" in Path(called["inside"]).parts
        assert called["planted"] is None

    def test_warning_filters_and_log_handlers_are_unchanged(self, called: dict[str, Any]) -> None:
        assert called["filters_kept"]
        assert called["handlers_kept"]
        assert called["level_kept"]
        assert called["loud_handlers"] == []

    def test_environment_gains_only_the_switches_that_silence_litellm(self, called: dict[str, Any]) -> None:
        switches = {"LITELLM_LOCAL_MODEL_COST_MAP", "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "LITELLM_MODE"}
        assert set(called["environment_new"]) <= {*switches, "TIKTOKEN_CACHE_DIR"}

    def test_no_file_is_written(self, called: dict[str, Any]) -> None:
        assert called["written"] == ["found.json"]
