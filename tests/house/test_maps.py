"""The maps of the code are correct: READMEs name exactly the existing modules, and all lists of layers agree."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "graphrt"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
ROW = re.compile(r"^\| `([^`|]+)` \| (.+) \|$", re.MULTILINE)
FLOOR = re.compile(r"^\| (\d) (\w+) \| (.+?) \|", re.MULTILINE)
TOLD = re.compile(r"^ {4}(\d) (\w+) {2,}(.+)$", re.MULTILINE)


def modules(room: Path) -> set[str]:
    files = {path.stem for path in room.glob("*.py")} - {"__init__", "__main__"}
    return files | {f"{path.parent.name}/" for path in room.glob("*/__init__.py")}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE)))
def test_readme_of_a_package_names_exactly_its_modules(room: Path) -> None:
    readme = room / "README.md"
    assert readme.exists(), f"{readme.relative_to(ROOT)} is missing"
    _, found, table = readme.read_text(encoding="utf-8").partition("\n## Modules\n")
    assert found, "it has no section Modules"
    named = [name for name, _ in ROW.findall(table.partition("\n## ")[0])]

    assert sorted(named) == sorted(modules(room))


def explained() -> dict[str, int]:
    """Package to layer, according to the documentation."""
    text = (ROOT / "docs" / "explanation" / "floors.md").read_text(encoding="utf-8")
    return {room: int(number) for number, _, rooms in FLOOR.findall(text) for room in re.findall(r"`(\w+)`", rooms)}


def test_every_package_has_a_layer() -> None:
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert set(explained()) == rooms - {"__init__", "__main__"}


def test_package_docstring_has_the_layers_of_the_documentation() -> None:
    told = ast.get_docstring(ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")), clean=False) or ""

    assert {room: int(number) for number, _, rooms in TOLD.findall(told) for room in rooms.split(", ")} == explained()


def test_import_contract_has_the_layers_of_the_documentation() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [re.findall(r"(?<!\()\b\w+\b(?!\))", layer) for layer in config["contracts"][0]["layers"]]
    floors = explained()

    assert {room for layer in layers for room in layer} == set(floors)
    numbers = [{floors[room] for room in layer} for layer in layers if layer]
    assert all(len(layer) == 1 for layer in numbers)
    order = [number for layer in numbers for number in layer]
    assert order == sorted(order, reverse=True)


def test_guide_names_existing_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:\w+/)+\w+(?:\.py|\.md|/)?)`", text))

    assert len(named) > 40
    assert {path for path in named if not any((base / path).exists() for base in (ROOT, PACKAGE))} == set()


def test_every_referenced_rule_is_on_the_page_of_rules() -> None:
    page = (ROOT / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
    told = {int(number) for number in re.findall(r"^## R(\d+)\. ", page, re.MULTILINE)}
    used = {
        int(number)
        for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
        for number in re.findall(r"\b(?:rule |\(|, )R(\d{1,2})\b", path.read_text(encoding="utf-8"))
    }

    assert told == set(range(1, max(told) + 1))
    assert used <= told
