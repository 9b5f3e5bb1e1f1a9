"""Sessions of the development of graphrt: `nox` runs the gate, `nox -l` lists everything.

`make test` and `.ci/run` do the same without nox; here each session has an environment of its own.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2026.4"
nox.options.sessions = ["lint", "floors", "types", "tests", "docs"]
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PARALLEL = ["-n", "auto"]
LOCKED = ["--constraint", "requirements.lock"]
"""The versions that `make test` and CI use, too; `make lock` renews them."""


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
def oracle(session: nox.Session) -> None:
    """Play 500 random graphs with the build at which issue 34 began, too: the decoded entries are equal."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("python", "-m", "tests.oracle", *session.posargs)


@nox.session
def crash(session: nox.Session) -> None:
    """Kill the processes that drive threads, at every point where they write: 2,000 kills and more."""
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
    """Read the wires by the official clients, which npm installs."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", "-n", "0", "tests/clients", *session.posargs, env={"CI": "true", "GRAPHRT_FULL": "1"})


@nox.session
def storm(session: nox.Session) -> None:
    """Kill four servers and two workers at random while 200 clients talk, five of them in Chromium: five minutes."""
    session.install(*LOCKED, "--editable", ".[dev,browser]")
    session.run("python", "-m", "tests.serve.storm", *session.posargs)


@nox.session
def machine(session: nox.Session) -> None:
    """Use threads at random, on every store, and compare them with a model: 1,000 examples of 100 steps."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("pytest", *PARALLEL, "tests/machine", *session.posargs, env={"GRAPHRT_FULL": "1", "CI": "true"})


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure branch coverage; of the engine it has to be 100 %."""
    session.install(*LOCKED, "--editable", ".[dev]")
    # One process, so that nothing is lost; the oldest supported interpreter would trace most slowly.
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
    """Check that imports only go down, and that each contract would notice a breach."""
    session.install(*LOCKED, "--editable", ".[test]", "import-linter")
    session.run("lint-imports")
    session.run("pytest", "tests/house")


@nox.session
def docs(session: nox.Session) -> None:
    """Run every code block of README.md and docs/, and the checks of their index."""
    session.install(*LOCKED, "--editable", ".[test]")
    session.run("pytest", "README.md", "docs", "tests/house/test_docs_index.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks, one process, nothing else beside them."""
    session.install(*LOCKED, "--editable", ".[dev]")
    session.run("python", "benchmarks/compare.py", *session.posargs)


@nox.session
def dist(session: nox.Session) -> None:
    """Build what is uploaded, into dist/: twice, with equal bytes, tried in an empty project, with a list of its parts."""
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
    session.run("python", "-m", "venv", str(empty / ".venv"))
    python = str(empty / ".venv/bin/python")
    session.run(python, "-m", "pip", "install", "--quiet", str(wheel), external=True)
    parts = f"dist/{wheel.name.removesuffix('.whl')}.cdx.json"
    session.run("cyclonedx-py", "environment", "--output-reproducible", "--output-file", parts, python)
    # The README as it stands, by the wheel alone: pytest and sybil read its blocks.
    session.run(python, "-m", "pip", "install", "--quiet", *LOCKED, "pytest", "sybil", external=True)
    for name in ("README.md", "conftest.py"):
        shutil.copy(name, empty)
    with session.chdir(empty):
        session.run(python, "-m", "pytest", "-q", "README.md", external=True)
    for line in sorted(f"{digest}  {name}" for name, digest in built[0].items()):
        session.log(line)
