"""The audit with a model behind LiteLLMHarness: a scripted server on this machine stands for the provider."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphrt
from graphrt.testing import ChatAnswer, FakeChatServer

PATH = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(graphrt.__file__).parents[1])])
pytestmark = pytest.mark.needs("litellm")


def audit(site, server: FakeChatServer, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "examples.audit", "--path", str(site.path), "--out", "report.json"),
            *("--model", "openai/x", "--api-base", server.url),
        ],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": PATH, "PYTHONIOENCODING": "utf-8", "OPENAI_API_KEY": "sk-none"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def plant(site) -> None:
    site.plain("clear", "License-Expression: MIT", LICENSE="text")
    site.plain("cloudy", "Classifier: License :: OSI Approved :: BSD License", LICENSE="three clauses")


def test_a_real_model_reads_the_doubtful_licence(site, tmp_path: Path) -> None:
    plant(site)
    answer = json.dumps({"licence": "BSD-3-Clause", "confidence": 0.96, "reason": "it has three clauses"})

    with FakeChatServer([f"```json\n{answer}\n```"]) as server:
        done = audit(site, server, tmp_path)
        (request,) = server.requests

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "cloudy 1.0" in request.body["messages"][-1]["content"]
    assert report["licences"] == {"BSD-3-Clause": 1, "MIT": 1}
    assert report["doubtful"][0]["opinion"]["reason"] == "it has three clauses"
    assert (report["usage"]["calls"], report["usage"]["reader"]) == (1, "openai/x")


def test_a_refused_key_is_reported_and_the_audit_goes_on(site, tmp_path: Path) -> None:
    plant(site)

    with FakeChatServer([ChatAnswer.failure(401, "bad key")]) as server:
        done = audit(site, server, tmp_path)

    assert done.returncode == 0
    assert "! the model did not answer: AuthenticationError" in " ".join(done.stdout.split())
    assert "1 failed: AuthenticationError" in done.stdout
    assert "Traceback" not in done.stderr
    assert "sk-none" not in done.stdout + done.stderr
