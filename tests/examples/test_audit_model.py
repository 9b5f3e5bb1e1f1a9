"""The audit with a model behind LiteLLMHarness: a scripted server on this machine replaces the provider."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from graphrt.testing import ChatAnswer, FakeChatServer

pytestmark = pytest.mark.needs("litellm")


@pytest.fixture
def ask(audit, site):
    """Audits the site with the model of a server."""

    def call(server: FakeChatServer) -> subprocess.CompletedProcess[str]:
        path = ("--path", str(site.path), "--out", "report.json")
        return audit(*path, "--model", "openai/x", "--api-base", server.url, OPENAI_API_KEY="sk-none")

    return call


def plant(site) -> None:
    site.plain("clear", "License-Expression: MIT", LICENSE="text")
    site.plain("cloudy", "Classifier: License :: OSI Approved :: BSD License", LICENSE="three clauses")


def test_real_model_reads_the_doubtful_licence(ask, site, tmp_path: Path) -> None:
    plant(site)
    answer = json.dumps({"licence": "BSD-3-Clause", "confidence": 0.96, "reason": "it has three clauses"})

    with FakeChatServer([f"```json\n{answer}\n```"]) as server:
        done = ask(server)
        (request,) = server.requests

    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "cloudy 1.0" in request.body["messages"][-1]["content"]
    assert report["licences"] == {"BSD-3-Clause": 1, "MIT": 1}
    assert report["doubtful"][0]["opinion"]["reason"] == "it has three clauses"
    assert (report["usage"]["calls"], report["usage"]["reader"]) == (1, "openai/x")


def test_refused_key_is_reported_and_the_audit_continues(ask, site) -> None:
    plant(site)

    with FakeChatServer([ChatAnswer.failure(401, "bad key")]) as server:
        done = ask(server)

    assert done.returncode == 0
    assert "! the model did not answer: AuthenticationError" in " ".join(done.stdout.split())
    assert "1 failed: AuthenticationError" in done.stdout
    assert "Traceback" not in done.stderr
    assert "sk-none" not in done.stdout + done.stderr
