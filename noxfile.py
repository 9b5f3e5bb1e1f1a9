"""Development sessions of graphrt: `nox` runs the gate, and `nox -l` lists all sessions.

`make test` and `.ci/run` do the same without nox; here each session has its own environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import nox

nox.needs_version = ">=2026.4"
nox.options.sessions = ["lint", "floors", "types", "tests", "docs"]
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PARALLEL = ["-n", "auto"]
VENDORED = {"dagre.esm.js": {"name": "@dagrejs/dagre", "version": "3.1.3", "purl": "pkg:npm/%40dagrejs/dagre@3.1.3"}}
"""The vendored files of the wheel, all under the MIT licence."""
LANGGRAPH_SUITES = {
    "langgraph": [
        f"tests/test_{name}.py"
        for name in (
            "pregel",
            "pregel_async",
            "large_cases",
            "large_cases_async",
            "interruption",
            "messages_state",
            "managed_values",
            "parent_command",
            "parent_command_async",
            "pydantic",
            "runtime",
            "graph_callbacks",
            "subgraph_persistence",
            "subgraph_persistence_async",
            "retry",
            "time_travel",
            "state",
            "config_async",
            "utils",
            "subgraph_detection",
            "interleave_arrival_order",
            "delta_channel_update_state",
            "delta_channel_id_stability",
            "trace_policy",
            "tracing_interops",
            "runnable",
            "deprecation",
        )
    ],
    "prebuilt": ["tests"],
}
"""LangGraph's test suites that run graphs, by library; without the functional API, servers and stream formats."""
LOCKED = ["--constraint", "requirements.lock"]
"""The versions that `make test` and CI also use; `make lock` updates them."""


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the tests that need only graphrt and pytest, on each interpreter."""
    session.install(*LOCKED, "--editable", ".[test]")
    session.run("pytest", *PARALLEL, "-m", "not needs", *session.posargs)


@nox.session
def everything(session: nox.Session) -> None:
    """Run all tests and skip none, as CI does."""
    session.install(*LOCKED, "--editable", ".[dev,demo,litellm,node]")
    session.run("pytest", *PARALLEL, *session.posargs, env={"CI": "true"})


@nox.session
@nox.parametrize("resolution", ["lowest-direct", "highest"], ids=["lowest", "newest"])
def versions(session: nox.Session, resolution: str) -> None:
    """Run the quick tests with the lowest and with the newest versions that pyproject.toml allows."""
    session.install("uv")
    requirements = ["--resolution", resolution, "--editable", ".[dev,demo,litellm,node]"]
    session.run("uv", "pip", "install", "--python", session.virtualenv.location, *requirements)
    session.run("pytest", *PARALLEL, "-m", "not slow", *session.posargs)


@nox.session
def full(session: nox.Session) -> None:
    """Run every search in full: hours for all of them, so name a folder: `nox -s full -- tests/faults`."""
    session.install(*LOCKED, "--editable", ".[dev,demo,litellm,node]")
    env = {"GRAPHRT_FULL": "1", "HYPOTHESIS_PROFILE": "thorough", "CI": "true"}
    session.run("pytest", *PARALLEL, *session.posargs, env=env)


@nox.session
def laws(session: nox.Session) -> None:
    """Search the laws thoroughly: thousands of examples each."""
    session.install(*LOCKED, "--editable", ".[test]")
    session.run("pytest", *PARALLEL, "tests/laws", *session.posargs, env={"HYPOTHESIS_PROFILE": "thorough"})


@nox.session
def crash(session: nox.Session) -> None:
    """Kill processes that drive threads at every point where they write: more than 2,000 kills."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", *PARALLEL, "tests/crash", *session.posargs, env={"GRAPHRT_FULL": "1", "CI": "true"})


@nox.session
def chaos(session: nox.Session) -> None:
    """Kill, stop and cut off the processes of each kind of host, 300 kills each, and plant seven wrong builds."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", "-n", "0", "tests/workers/chaos", env={"CI": "true", "GRAPHRT_FULL": "1"})
    for host, database in (("worker", "sqlite"), ("worker", "postgres"), ("dbos", "postgres")):
        storm = ["python", "-m", "tests.workers.chaos", "--host", host, "--database", database, "--kills", "300"]
        session.run(*storm, *session.posargs)
        if database == "postgres":
            session.run(*storm, "--machines", *session.posargs)


@nox.session
def tampering(session: nox.Session) -> None:
    """Flip every bit of an audit log, kill its writers 200 times, and verify 1,000 honest logs: about an hour."""
    session.install(*LOCKED, "--editable", ".[dev]")
    env = {"GRAPHRT_FULL": "1", "HYPOTHESIS_PROFILE": "thorough", "CI": "true"}
    session.run("pytest", *PARALLEL, "tests/audit", *session.posargs, env=env)


@nox.session
def clients(session: nox.Session) -> None:
    """Read the wires with the official clients, which npm installs."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", "-n", "0", "tests/clients", *session.posargs, env={"CI": "true", "GRAPHRT_FULL": "1"})


@nox.session
def storm(session: nox.Session) -> None:
    """Kill four servers and two workers at random while 200 clients talk, five of them in Chromium: five minutes."""
    session.install(*LOCKED, "--editable", ".[dev,browser]")
    session.run("python", "-m", "tests.serve.storm", *session.posargs)


@nox.session
def viewer(session: nox.Session) -> None:
    """Use the page of the viewer in Chromium, by keyboard and mouse, and check it with axe-core and tsc: three minutes."""
    session.install(*LOCKED, "--editable", ".[dev,browser]")
    env = {"CI": "true", "GRAPHRT_FULL": "1"}
    session.run("pytest", "-n", "0", "tests/viewer/test_page.py", *session.posargs, env=env)


@nox.session
def machine(session: nox.Session) -> None:
    """Use threads at random on every store, and compare them with a model: 1,000 examples of 100 steps."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", *PARALLEL, "tests/machine", *session.posargs, env={"GRAPHRT_FULL": "1", "CI": "true"})


@nox.session
def langgraph(session: nox.Session) -> None:
    """Run LangGraph's own suites on both engines, from a checkout that LANGGRAPH_REPO names; list what differs."""
    checkout = os.environ.get("LANGGRAPH_REPO")
    if not checkout:
        session.skip("LANGGRAPH_REPO does not name a checkout of LangGraph, at the tag of the installed version")
    tools = (
        "pytest-mock",
        "syrupy",
        "redis",
        "langgraph-checkpoint-postgres",
        "langgraph-checkpoint-sqlite",
        "pycryptodome",
    )
    session.install(*LOCKED, "--editable", ".[dev]", *tools)
    plugin = Path("tests/compat/langgraph").resolve()
    for library, suites in LANGGRAPH_SUITES.items():
        with session.chdir(Path(checkout) / "libs" / library):
            session.run(
                "pytest",
                "-q",
                "-p",
                "no:randomly",
                "-p",
                "no:graphrt",
                "-p",
                "no:xdist",
                "-p",
                "both_engines",
                *suites,
                *session.posargs,
                env={"PYTHONPATH": f"{plugin}{os.pathsep}.", "NO_DOCKER": "true"},
                success_codes=[0, 1],  # some tests of a suite of another minor version fail on LangGraph itself
            )


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure branch coverage, which must be 100 % for the engine."""
    session.install(*LOCKED, "--editable", ".[dev]")
    # One process, so that no data is lost; the oldest supported interpreter would trace most slowly.
    session.run("coverage", "run", "-m", "pytest", "-m", "not needs", *session.posargs)
    session.run("coverage", "combine")
    session.run("coverage", "report")
    session.run("coverage", "report", "--include=src/graphrt/_engine/*", "--fail-under=100")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types: mypy strict, pyright strict, and that every public name has one."""
    session.install(*LOCKED, "--editable", ".[dev,node]")
    session.run("mypy")
    session.run("pyright")
    # An editable install puts errors/errors.md into site-packages/graphrt, where pyright would look for py.typed first.
    session.run("pyright", "--verifytypes", "graphrt", "--ignoreexternal", env={"PYTHONPATH": "src"})


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format."""
    session.install(*LOCKED, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def floors(session: nox.Session) -> None:
    """Check that imports only go down, and that each contract would detect a violation."""
    session.install(*LOCKED, "--editable", ".[test]", "import-linter")
    session.run("lint-imports")
    session.run("pytest", "tests/house")


@nox.session
def docs(session: nox.Session) -> None:
    """Run every code block of README.md and docs/, and the checks of their index."""
    session.install(*LOCKED, "--editable", ".[test,langgraph]")
    session.run(
        "pytest", "README.md", "docs", "tests/house/test_docs_index.py", "tests/test_docs_links.py", *session.posargs
    )


@nox.session
def site(session: nox.Session) -> None:
    """Build the site of the documentation into build/site, where a warning fails, and ask its search 25 questions."""
    session.install(*LOCKED, "--editable", ".[docs,browser]")
    session.run("python", "-m", "sphinx", "--quiet", "--fail-on-warning", "docs", "build/site", *session.posargs)
    session.run("python", "docs/ask_search.py", *filter(None, [shutil.which("chromium")]))


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks in one process, with nothing else running."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("python", "benchmarks/compare.py", *session.posargs)


def add_vendored(session: nox.Session, parts: Path, files: list[str]) -> None:
    """Add the vendored files to a bill of materials, which `cyclonedx-py` made from the installed packages."""
    code = {Path(name).name for name in files if name.endswith(".js")}
    if code != {*VENDORED}:
        session.error(f"VENDORED says nothing, or too much, of {sorted(code ^ {*VENDORED})}")
    data = json.loads(parts.read_text(encoding="utf-8"))
    mit = [{"license": {"id": "MIT", "acknowledgement": "declared"}}]
    data["components"] += [
        {"type": "library", "bom-ref": one["purl"], "licenses": mit, **one} for one in VENDORED.values()
    ]
    parts.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


@nox.session
def dist(session: nox.Session) -> None:
    """Build the release in dist/: twice with equal bytes, tested in an empty project, with a bill of materials."""
    session.install(*LOCKED, "build", "cyclonedx-bom")
    built: list[dict[str, str]] = []
    for _ in range(2):
        shutil.rmtree("dist", ignore_errors=True)
        session.run("python", "-m", "build", "--outdir", "dist", ".", silent=True)
        built.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path("dist").iterdir()})
    if built[0] != built[1]:
        session.error(f"two builds differ: {built}")
    empty = Path(session.create_tmp()).resolve() / "empty"
    shutil.rmtree(empty, ignore_errors=True)
    empty.mkdir()
    wheel = next(Path("dist").glob("*.whl"))
    session.run("python", "-m", "venv", "--without-pip", str(empty / ".venv"))  # pip is not a part of graphrt
    python = str(empty / ".venv/bin/python")
    install = ["python", "-m", "pip", "--python", python, "install", "--quiet"]
    session.run(*install, str(wheel))
    parts = Path(f"dist/{wheel.name.removesuffix('.whl')}.cdx.json")
    session.run("cyclonedx-py", "environment", "--output-reproducible", "--output-file", str(parts), python)
    add_vendored(session, parts, [name for name in zipfile.ZipFile(wheel).namelist() if "/vendor/" in name])
    # Run the README's blocks with only the wheel installed, by pytest and sybil.
    session.run(*install, *LOCKED, "pytest", "sybil")
    for name in ("README.md", "conftest.py"):
        shutil.copy(name, empty)
    with session.chdir(empty):
        session.run(python, "-m", "pytest", "-q", "README.md", external=True)
    for line in sorted(f"{digest}  {name}" for name, digest in built[0].items()):
        session.log(line)
