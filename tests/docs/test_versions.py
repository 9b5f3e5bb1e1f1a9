"""The names and versions in docs/reference/versions.md agree with the code."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import graphrt
from graphrt._journal import body, seal
from graphrt._runs import shared_memory
from graphrt.audit import offline
from graphrt.stores import _archive, _sealing
from graphrt.stores.postgres import _schema as postgres
from graphrt.stores.sqlite import _schema as sqlite

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")


def test_page_lists_the_experimental_modules() -> None:
    rows = re.search(r"\| Module \|.*?\n\n", PAGE, re.DOTALL)
    assert rows is not None
    modules = [name for _, name, _ in pkgutil.iter_modules(graphrt.__path__, "graphrt.") if "._" not in name]
    marked = {name for name in modules if "\nExperimental: " in (importlib.import_module(name).__doc__ or "")}

    assert set(re.findall(r"`(graphrt\.\w+)`", rows[0])) == marked


def test_package_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert graphrt.__version__ == project["version"]
    assert f"## [Unreleased] {graphrt.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_page_lists_the_versions_of_stored_form_1() -> None:
    rows = dict(re.findall(r"^\| ([a-z][\w ,:]+?) \| (\d+) \|", PAGE, re.MULTILINE))

    assert rows == {
        "bodies: records, snapshots, staged bodies": str(body.VERSION),
        "headers and seals": str(seal.VERSION),
        "tables of a SQLite file": str(sqlite.VERSION),
        "tables of a PostgreSQL schema": str(postgres.VERSION),
        "exported threads": str(_archive.MAGIC[7]),
        "exported audit logs": offline.FORM.removeprefix("graphrt-audit/"),
        "exported items of the memory": shared_memory.FORM.removeprefix("graphrt-memory/"),
        "encrypted bodies": _sealing.FORM.decode(),
    }
