"""The import contracts hold, and each of them detects its breach."""

from __future__ import annotations

import ast
import os
import re
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
    """A copy of the package and its contracts, which tests may break."""
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
def test_contracts_hold(house: Path) -> None:
    code, text = lint(house)

    assert f"{len(CONFIG['contracts'])} kept, 0 broken" in text, text
    assert code == 0


WING = {
    "nodes": "nodes._values",
    "compat": "compat.lar._state",
    "otel": "otel._names",
    "workers": "workers._health",
    "wires": "wires.plain_data",
    "backends": "backends._liveness",
}
DOOR = {"cli": "cli.app", "serve": "serve._bounds", "console": "console.progress"}
"""A module of each package, to plant breaches in."""


@pytest.mark.needs("importlinter")
def test_contracts_detect_every_breach(house: Path) -> None:
    plant(house, "graphrt.errors", "def late():\n    import graphrt.runtime")
    plant(house, "graphrt._engine", "import graphrt.harness")
    breaches = {"graphrt.errors": ["graphrt.runtime"], "graphrt._engine": ["graphrt.harness"]}
    for source in PURE["source_modules"]:
        plant(house, source, "import time")
        breaches.setdefault(source, []).append("time")
    for name in PURE["forbidden_modules"]:
        plant(house, "graphrt.errors", f"import {name}")
        breaches["graphrt.errors"].append(name)
    for contract, modules in ((KIT, {"testing": "testing.recording"}), (WINGS, WING), (DOORS, DOOR)):
        for room, module in modules.items():
            for name in contract["forbidden_modules"]:
                plant(house, f"graphrt.{module}", f"import {name}")
                breaches.setdefault(f"graphrt.{room}", []).append(name)

    code, text = lint(house)

    missed = [
        f"{source}: {name}"
        for source, names in breaches.items()
        for name in names
        if f"{source} is not allowed to import {name}" not in text
    ]
    assert missed == []
    assert [c["name"] for c in CONFIG["contracts"] if f"{c['name']} BROKEN" not in text] == []
    assert code == 1


@pytest.mark.needs("importlinter")
def test_layers_detect_a_package_without_a_layer(house: Path) -> None:
    (house / "graphrt" / "attic.py").write_text('"""A module that nobody listed."""\n', encoding="utf-8")

    code, text = lint(house)

    assert "attic" in text
    assert "kept, 0 broken" not in text
    assert code == 1


def test_no_package_imports_the_public_package() -> None:
    """`graphrt/__init__.py` is for users; importing it would import every layer at once."""
    rooms = {path.stem for path in PACKAGE.iterdir()}
    offenders: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        depth = len(path.relative_to(PACKAGE).parts)
        text = path.read_text(encoding="utf-8")
        if not re.search(r"from (graphrt|\.+) import", text):  # most files: parsing takes two seconds
            continue
        for statement in ast.walk(ast.parse(text)):
            match statement:
                case ast.ImportFrom(level=0, module="graphrt", names=names):
                    pass
                case ast.ImportFrom(level=level, module=None, names=names) if level == depth:
                    pass
                case _:
                    continue
            offenders += [f"{path.relative_to(PACKAGE)}: {name.name}" for name in names if name.name not in rooms]

    assert offenders == []
