"""The table of commands agrees with the commands; listing them imports nothing; the reference has all of them."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from graphrt.cli import audit, builds, exits, schedules, skills
from graphrt.cli.app import COMMANDS, app
from graphrt.cli.schema import RESULTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
ALL = {
    **{name: app for name in COMMANDS if name not in ("audit", "builds", "schedules", "skills")},
    **{f"audit {name}": audit.audit for name in audit.COMMANDS},
    **{f"builds {name}": builds.builds for name in builds.COMMANDS},
    **{f"schedules {name}": schedules.schedules for name in schedules.COMMANDS},
    **{f"skills {name}": skills.skills for name in skills.COMMANDS},
}


def command(name: str) -> click.Command:
    found = ALL[name].get_command(click.Context(app), name.rpartition(" ")[2])
    assert found is not None
    return found


@pytest.mark.parametrize("name", ALL)
def test_table_has_the_first_line_of_each_help(name: str) -> None:
    groups = {
        "audit": audit.COMMANDS,
        "builds": builds.COMMANDS,
        "schedules": schedules.COMMANDS,
        "skills": skills.COMMANDS,
    }
    group = groups.get(name.partition(" ")[0], COMMANDS)
    told = group[name.rpartition(" ")[2]][1]
    first = (command(name).help or "").split("\n")[0]

    assert first.rstrip(".").startswith(told.rstrip(".").split(":")[0].split(",")[0])


def test_reference_has_the_help_of_every_command() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "command_line.py"))["page"]

    assert page(PAGE) == PAGE, "run: python docs/command_line.py"


def test_reference_has_every_exit_code() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)} == set(exits.MEANINGS)


def test_every_command_with_a_document_has_a_schema() -> None:
    without = {"routes", "mutate", "schema", "completion"}

    assert set(RESULTS) == set(ALL) - without


SCRIPT = """
import json, os, sys
sys.argv = ["graphrt", *{words}]
os.environ.update({env})
from graphrt.cli import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write(json.dumps([name for name in sys.modules if "." not in name or name.startswith("graphrt.")]))
"""


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["--help"], {}),
        (["--version"], {}),
        ([], {"_GRAPHRT_COMPLETE": "bash_complete", "COMP_WORDS": "graphrt dr", "COMP_CWORD": "1"}),
    ],
)
def test_listing_and_completing_import_neither_pydantic_nor_rich(words: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(words=words, env=env)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(json.loads(done.stderr))

    assert loaded.isdisjoint({"pydantic", "rich", "asyncio", "sqlite3", "graphrt.runtime", "graphrt.errors"})
    assert done.stdout


def test_missing_click_names_the_extra_to_install() -> None:
    code = "import sys; sys.modules['click'] = None; from graphrt.cli import main; sys.exit(main(['threads']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 2
    assert 'pip install "graphrt[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_extra_has_the_imports_of_the_command_line() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    assert {re.split(r"\W", one)[0] for one in extras["cli"]} == {"click", "rich"}


def test_unknown_command_names_the_closest_one(call) -> None:
    done = call("thread")

    assert done.code == 2
    assert "Did you mean 'threads'?" in done.err
    assert call("threads", "--statuss", "x", "-ojson").document["error"]["code"] == "usage"


def test_common_synonym_suggests_the_command(call) -> None:
    done = call("audit", "redact", "x")

    assert done.code == 2
    assert "Did you mean 'erase'?" in done.err


def test_target_comes_before_the_thread_and_both_before_other_arguments() -> None:
    for name in ALL:
        if name in ("routes", "mutate"):  # they pass their arguments on
            continue
        places = [param.name for param in command(name).params if isinstance(param, click.Argument)]
        first = [place for place in ("target", "targets", "thread") if place in places]

        assert places[: len(first)] == first, name
        assert "thread" not in places or "target" in places, name
