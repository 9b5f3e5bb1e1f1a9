"""The workflow of "Run the tests in CI": its commands run on a project, pass, and fail where the page says so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import graphrt

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "run-in-ci.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.needs("yaml", "git"), pytest.mark.slow]

RECORDED = """
import os
from pathlib import Path
from graphrt.harness import Cassette, FunctionModel
from graphrt.testing import assert_run, record
from desk.graph import Desk, graph
from desk.offline import answer, offline

def test_recorded():
    path = Path(__file__).parent / "answer.cassette"
    with Cassette(path) as cassette:
        models = {**offline(), "writer": cassette.model(FunctionModel(answer))}
        ticket = {"number": 1, "customer": "c", "ticket": "I cannot sign in."}
        assert_run(record(graph, ticket, deps=Desk(), models=models)).completed()
"""
REAL = """
from graphrt.testing import assert_run, record
from desk.graph import Desk, graph

def test_forgotten():
    run = record(graph, {"number": 1, "customer": "c", "ticket": "?"}, deps=Desk())
    assert_run(run).completed()
"""


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def workflow() -> dict[str, Any]:
    import yaml

    read: dict[str, Any] = yaml.safe_load(block("yaml"))
    return read


def environment(folder: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHRT_", "PYTEST_", "GIT_"))}
    return {
        **env,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(Path(graphrt.__file__).parents[1]), str(folder)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "pytest_graphrt",
        "GIT_CONFIG_GLOBAL": str(folder / "no-such-file"),
    }


def shell(folder: Path, command: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env={**environment(folder), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def run(folder: Path) -> dict[str, str]:
    """Run the commands of the workflow up to the first that fails; return the names of those that ran, with their output."""
    said: dict[str, str] = {}
    (job,) = workflow()["jobs"].values()
    for step in job["steps"]:
        if "run" not in step or step["name"] == "Install":  # installing is tested elsewhere
            continue
        code, said[step["name"]] = shell(folder, step["run"], **workflow()["env"])
        if code:
            said["failed"] = step["name"]
            break
    return said


@pytest.fixture(scope="module")
def made_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as the page assumes it: the package desk with its suite, a recorded test, and a repository."""
    tmp_path = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples" / "support_triage", tmp_path / "desk", ignore=ignored)
    (tmp_path / "pyproject.toml").write_text(block("toml"), encoding="utf-8")
    (tmp_path / "test_recorded.py").write_text(RECORDED, encoding="utf-8")
    assert shell(tmp_path, "pytest -q test_recorded.py", GRAPHRT_CASSETTE="record")[0] == 0
    commit = "git init -q . && git add -A && git -c user.name=n -c user.email=n@example.org commit -q -m all"
    assert shell(tmp_path, commit)[0] == 0
    return tmp_path


@pytest.fixture
def project(made_project: Path, tmp_path: Path) -> Path:
    """The project, as it was made."""
    return shutil.copytree(made_project, tmp_path / "project")


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_commands_of_the_workflow_pass_and_leave_the_reports(project: Path) -> None:
    said = run(project)

    assert "failed" not in said, said
    assert list(said) == ["Check that each graph compiles", "Test", "Check that no test changed a recording"]
    assert re.search(r"support +15 +15 +0 +100%", said["Test"])
    cases = ET.parse(project / "reports" / "junit.xml").getroot().findall(".//testcase")
    assert "test_routing[write-send]" in {case.get("name") for case in cases}
    assert {path.name for path in (project / "reports").iterdir()} == {"junit.xml", "routes.json", "routes.xml"}


def test_workflow_lists_the_reports_that_it_keeps() -> None:
    (job,) = workflow()["jobs"].values()
    kept = next(step["with"]["path"] for step in job["steps"] if step.get("name") == "Keep the reports")

    assert all(f"{kept}{name}" in block("yaml") for name in ("junit.xml", "routes.json", "routes.xml"))


@pytest.mark.full
def test_graph_that_does_not_compile_fails_the_first_check(project: Path) -> None:
    change(project / "desk" / "graph.py", '{"ask": approve, "send": send}', '{"ask": approve}')
    said = run(project)

    assert said["failed"] == "Check that each graph compiles"
    assert "unknown-route" in said[said["failed"]]


@pytest.mark.full
def test_too_few_routes_fail_the_tests(project: Path) -> None:
    (project / "desk" / "test_support_triage.py").unlink()
    said = run(project)

    assert said["failed"] == "Test"
    assert re.search(r"ERROR: Route coverage is \d+\.\d+%, and 90% is required\.", said["Test"])
    assert "interrupt of approve" in said["Test"] or "node approve" in said["Test"]


@pytest.mark.full
def test_a_forgotten_double_fails_the_tests_before_a_request(project: Path) -> None:
    (project / "test_forgotten.py").write_text(REAL, encoding="utf-8")
    said = run(project)

    assert said["failed"] == "Test"
    assert "is forbidden" in said["Test"]


@pytest.mark.full
def test_unrecorded_call_fails_the_tests(project: Path) -> None:
    change(project / "test_recorded.py", "I cannot sign in.", "I cannot sign in today.")
    said = run(project)

    assert said["failed"] == "Test"
    assert "recordings; from the nearest one" in said["Test"]


@pytest.mark.full
def test_a_changed_recording_fails_the_last_check(project: Path) -> None:
    change(project / "test_recorded.py", "Cassette(path)", 'Cassette(path, mode="rewrite")')
    change(project / "desk" / "offline.py", "Thank you for asking.", "Thanks.")
    said = run(project)

    assert said["failed"] == "Check that no test changed a recording"
    assert "Thanks." in said[said["failed"]]


@pytest.mark.full
def test_tests_with_real_requests_are_deselected(project: Path) -> None:
    marked = REAL.replace("def test", "import pytest\n@pytest.mark.graphrt_real_requests\ndef test")
    (project / "test_real.py").write_text(marked, encoding="utf-8")
    said = run(project)

    assert "failed" not in said
    assert "1 deselected" in said["Test"]


@pytest.mark.full
def test_jobs_are_merged_by_the_command_of_the_page(project: Path) -> None:
    command = re.search(r"^python -m graphrt\.testing\.route_coverage .*$", PAGE, re.MULTILINE)
    assert command is not None
    for name, tests in {"one": "test_recorded.py", "two": "desk -k 'not without_asking'"}.items():
        options = "--graphrt-cov -o graphrt_cov_fail_under="
        assert shell(project, f"pytest -q {tests} {options} && mv .graphrt_coverage.json {name}.json")[0] == 0

    assert shell(project, command[0].replace("two.json", ""))[0] == 1
    assert shell(project, command[0])[0] == 0
