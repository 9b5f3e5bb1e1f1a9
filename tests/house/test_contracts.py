"""The contracts on imports hold, and each of them notices the breach it is there for."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "graphrt"
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
FLOORS, PURE, KIT, WINGS, DOORS = CONFIG["contracts"]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the package and its contracts, to break things in."""
    shutil.copytree(PACKAGE, tmp_path / "graphrt", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-cache"],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house), "NO_COLOR": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def module_file(house: Path, name: str) -> Path:
    path = house.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def plant(house: Path, module: str, statement: str) -> None:
    path = module_file(house, module)
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")


@pytest.mark.needs("importlinter")
def test_contracts_are_kept(house: Path) -> None:
    code, text = lint(house)

    assert f"{len(CONFIG['contracts'])} kept, 0 broken" in text, text
    assert code == 0


@pytest.mark.needs("importlinter")
def test_floors_notice_an_import_that_goes_up(house: Path) -> None:
    plant(house, "graphrt.errors", "def late():\n    import graphrt.runtime")

    code, text = lint(house)

    assert f"{FLOORS['name']} BROKEN" in text, text
    assert "graphrt.errors is not allowed to import graphrt.runtime" in text
    assert code == 1


@pytest.mark.needs("importlinter")
def test_floors_notice_a_room_that_stands_on_no_floor(house: Path) -> None:
    (house / "graphrt" / "attic.py").write_text('"""A module that nobody listed."""\n', encoding="utf-8")

    code, text = lint(house)

    assert "attic" in text
    assert "kept, 0 broken" not in text
    assert code == 1


@pytest.mark.needs("importlinter")
def test_floors_notice_neighbours_that_know_each_other(house: Path) -> None:
    plant(house, "graphrt._engine", "import graphrt.harness")

    code, text = lint(house)

    assert f"{FLOORS['name']} BROKEN" in text, text
    assert code == 1


@pytest.mark.needs("importlinter")
def test_purity_notices_every_forbidden_module_in_every_pure_room(house: Path) -> None:
    for source in PURE["source_modules"]:
        plant(house, source, "import time")
    for forbidden in PURE["forbidden_modules"]:
        plant(house, "graphrt.errors", f"import {forbidden}")

    code, text = lint(house)

    assert f"{PURE['name']} BROKEN" in text, text
    assert code == 1
    missed = [source for source in PURE["source_modules"] if f"{source} is not allowed to import time" not in text]
    missed += [
        name for name in PURE["forbidden_modules"] if f"graphrt.errors is not allowed to import {name}" not in text
    ]
    assert missed == []


@pytest.mark.needs("importlinter")
def test_the_kit_notices_an_import_of_a_private_room(house: Path) -> None:
    for name in KIT["forbidden_modules"]:
        plant(house, "graphrt.testing.recording", f"import {name}")

    code, text = lint(house)

    assert f"{KIT['name']} BROKEN" in text, text
    assert code == 1
    missed = [
        name for name in KIT["forbidden_modules"] if f"graphrt.testing is not allowed to import {name}" not in text
    ]
    assert missed == []


@pytest.mark.needs("importlinter")
def test_the_wings_notice_an_import_of_a_private_room(house: Path) -> None:
    for name in WINGS["forbidden_modules"]:
        plant(house, "graphrt.nodes._values", f"import {name}")
        plant(house, "graphrt.compat.lar._state", f"import {name}")
        plant(house, "graphrt.otel._names", f"import {name}")
        plant(house, "graphrt.workers._health", f"import {name}")
        plant(house, "graphrt.backends._liveness", f"import {name}")

    code, text = lint(house)

    assert f"{WINGS['name']} BROKEN" in text, text
    assert code == 1
    missed = [
        f"{wing}: {name}"
        for wing in ("graphrt.nodes", "graphrt.otel", "graphrt.workers", "graphrt.backends", "graphrt.compat")
        for name in WINGS["forbidden_modules"]
        if f"{wing} is not allowed to import {name}" not in text
    ]
    assert missed == []


def test_no_room_imports_the_front_door() -> None:
    """`graphrt/__init__.py` is for users; a room that imports it would import every floor at once."""
    rooms = {path.stem for path in PACKAGE.iterdir()}
    offenders: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        depth = len(path.relative_to(PACKAGE).parts)
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match statement:
                case ast.ImportFrom(level=0, module="graphrt", names=names):
                    pass
                case ast.ImportFrom(level=level, module=None, names=names) if level == depth:
                    pass
                case _:
                    continue
            offenders += [f"{path.relative_to(PACKAGE)}: {name.name}" for name in names if name.name not in rooms]

    assert offenders == []
