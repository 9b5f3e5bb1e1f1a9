"""`python -m graphrt.errors` prints the section that is shipped with the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from graphrt.errors import NodeError
from graphrt.errors.__main__ import main
from graphrt.errors._page import sections

ROOT = Path(__file__).parents[2]


def run(*arguments: str, cwd: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "graphrt.errors", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(path)} if path is not None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_see_line_is_a_command_that_prints_the_section(tmp_path: Path) -> None:
    see = str(NodeError("It failed.")).splitlines()[-1]

    done = run(*see.removeprefix("  See: python -m graphrt.errors ").split(), cwd=tmp_path)

    assert see == "  See: python -m graphrt.errors node-failed"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("node-failed\n===========\n\nA node raised")
    assert "**Fix.**" in done.stdout


def test_command_lists_all_codes_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0

    listed = capsys.readouterr().out.split()
    assert listed == list(sections())
    assert len(listed) > 150


def test_command_suggests_a_code_for_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node-faild"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "There is no error code 'node-faild'. Did you mean 'node-failed'?\n"


def test_command_takes_several_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unknown-key", "wrong-type"]) == 0

    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line in ("unknown-key", "wrong-type")] == [
        "unknown-key",
        "wrong-type",
    ]


def test_sections_end_at_the_next_group() -> None:
    assert "<!--" not in "".join(sections().values())


@pytest.mark.needs("hatchling")
def test_installed_package_has_the_page(tmp_path: Path) -> None:
    build = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)

    done = run("node-failed", cwd=tmp_path, path=site)

    assert (site / "graphrt" / "errors" / "errors.md").read_bytes() == (ROOT / "docs" / "errors.md").read_bytes()
    assert (done.returncode, done.stderr) == (0, "")
    assert "**Fix.**" in done.stdout
