"""The audit as people start it, on real and planted environments, in a separate process where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.testing.warm_python import warm_python

import graphrt

from .conftest import BASE

PATH = os.pathsep.join([str(Path(__file__).parents[2]), str(Path(graphrt.__file__).parents[1])])


def program(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return warm_python().run(
        ["-W", "error", "-m", "examples.audit", *arguments],
        cwd=cwd,
        env={**BASE, "PYTHONPATH": PATH, "PYTHONIOENCODING": "utf-8", **env},
    )


def test_audit_of_its_own_environment(tmp_path: Path) -> None:
    done = program(cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert "● discover" in done.stdout
    assert "packages +" in done.stdout
    assert "MIT" in done.stdout
    assert "report  audit-report.md" in done.stdout
    assert done.stdout.rstrip().endswith("python -m webbrowser audit-report.html")
    assert (tmp_path / "audit-report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    text = (tmp_path / "audit-report.md").read_text(encoding="utf-8")
    assert "| pydantic |" in text
    assert "python -m examples.audit" in text


def test_only_json_is_printed(audit, tmp_path: Path) -> None:
    done = audit("--json")

    data = json.loads(done.stdout)
    assert done.stderr == ""
    assert data["verdict"]["distributions"] == len(data["distributions"]) >= 5
    assert list(tmp_path.iterdir()) == []


def test_graph_prints_mermaid_and_runs_nothing(audit, tmp_path: Path) -> None:
    done = audit("--graph")

    assert done.stdout.startswith("flowchart TD\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("env", [{}, {"COLUMNS": "40"}, {"COLUMNS": "10"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_unusual_environments_in_unusual_terminals(audit, odd_site, env: dict[str, str]) -> None:
    done = audit("--path", str(odd_site.path), **env)

    assert (done.returncode, done.stderr) == (0, "")
    assert "failed" in done.stdout
    assert "\x1b" not in done.stdout


def test_terminal_without_unicode_gets_ascii(odd_site, tmp_path: Path) -> None:
    done = program("--path", str(odd_site.path), cwd=tmp_path, PYTHONIOENCODING="ascii:backslashreplace")

    assert (done.returncode, done.stderr) == (0, "")
    assert "* discover" in done.stdout


def test_strict_turns_the_verdict_into_the_exit_code(audit, odd_site) -> None:
    path = str(odd_site.path)

    assert audit("--path", path, "--quiet").returncode == 0
    assert audit("--path", path, "--quiet", "--strict").returncode == 1


def test_empty_environment_has_nothing_to_audit(audit, site) -> None:
    done = audit("--path", str(site.path), "--strict")

    assert done.returncode == 0
    assert "there are no distributions in" in done.stdout


def test_command_line_sets_the_policies(audit, site) -> None:
    site.plain("weak", "License-Expression: MPL-2.0", LICENSE="text")
    path = str(site.path)

    assert "1 of 1 finding rejected" in audit("--path", path, "--quiet").stdout
    assert "✓ passed" in audit("--path", path, "--quiet", "--allow", "MPL-2.0").stdout
    assert "✓ passed" in audit("--path", path, "--quiet", "--policy", "copyleft-ok").stdout
    assert "✗ failed" in audit("--path", path, "--quiet", "--allow", "*", "--deny", "MPL-*").stdout


def test_review_asks_at_the_terminal(audit, site, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        site.plain(name, "License-Expression: GPL-3.0-only", LICENSE="text")

    done = audit("--path", str(site.path), "--review", stdin="y ours\nwhat?\nn no way\n\nP\n")

    text = (tmp_path / "audit-report.md").read_text(encoding="utf-8")
    assert done.returncode == 0
    assert "asks 4, waits" in done.stdout
    assert "y, n or p, please" in done.stdout
    assert "accepted by person: ours" in text
    assert "rejected by person: no way" in text
    assert text.count("rejected by policy") == 2


def test_review_whose_input_ends_leaves_the_rest_to_the_policy(audit, site) -> None:
    site.plain("a", "License-Expression: GPL-3.0-only", LICENSE="text")

    done = audit("--path", str(site.path), "--review", "--strict")

    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--path", "nowhere"], "--path 'nowhere' does not exist"),
        (["--policy", "nope"], "'nope' is neither permissive nor copyleft-ok nor a .json or .toml file"),
        (["--policy", "nope.toml"], "nope.toml: No such file or directory"),
        (["--deny", "GPL3"], "'GPL3' names no licence; did you mean 'GPL-3.0-only'?"),
        (["--limit", "0"], "--limit must be 1 or more"),
        (["--limit", "many"], "invalid int value: 'many'"),
        (["--json", "--review"], "exclude each other"),
        (["--out", "no/such/folder.md"], "no such folder"),
        (["--bogus"], "unrecognized arguments: --bogus"),
    ],
)
def test_invalid_arguments_are_explained(audit, arguments: list[str], says: str) -> None:
    done = audit(*arguments)

    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_report_can_go_to_standard_output_or_a_json_file(audit, site, tmp_path: Path) -> None:
    printed = audit("--path", str(site.path), "--out", "-")
    audit("--path", str(site.path), "--out", "r.json")

    assert printed.stdout.startswith("# Audit of the installed distributions")
    assert "● discover" in printed.stderr
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["environment"] == str(site.path)


@pytest.mark.skipif(os.name == "nt", reason="pipes break otherwise there")
def test_reader_that_leaves_early_is_not_an_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.audit"],
        cwd=tmp_path,
        env={**BASE, "PYTHONPATH": PATH, "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()

    assert (process.wait(60), errors) == (0, b"")


@pytest.mark.needs("rich")
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_terminal_gets_colours_unless_it_disables_them(site, tmp_path: Path) -> None:
    site.plain("a", "License-Expression: MIT", LICENSE="text")

    assert "\x1b[1m" in on_terminal("--path", str(site.path), cwd=tmp_path)
    assert "\x1b" not in on_terminal("--path", str(site.path), "--no-color", cwd=tmp_path)
    assert "\x1b" not in on_terminal("--path", str(site.path), cwd=tmp_path, NO_COLOR="1")


def on_terminal(*arguments: str, cwd: Path, **env: str) -> str:
    """The output of the audit on a terminal."""
    master, slave = os.openpty()
    process = warm_python().start(
        ["-m", "examples.audit", *arguments],
        cwd=cwd,
        env={**BASE, "PYTHONPATH": PATH, "PYTHONIOENCODING": "utf-8", "TERM": "xterm-256color", **env},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        terminal=True,
    )
    os.close(slave)
    written = b""
    try:
        while piece := os.read(master, 65_536):
            written += piece
    except OSError:  # how Linux reports that the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait(60) == 0
    return written.decode()
