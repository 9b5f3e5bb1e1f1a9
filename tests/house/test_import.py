"""`import graphrt`, and its names, are silent and light, and have no side effects on the process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("asyncio", "sqlite3", "concurrent.futures", "multiprocessing", "socket", "ssl", "http", "email", "litellm")
ALLOWED_PACKAGES = {
    "graphrt",
    "pydantic",
    "pydantic_core",
    "typing_extensions",
    "annotated_types",
    "typing_inspection",
}

SCRIPT = """
import json, sys
before = set(sys.modules)
touched = []

def watch(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.putenv", "os.unsetenv", "sqlite3.")):
        touched.append(event)
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        if "__pycache__" not in str(args[0]):
            touched.append(f"write {args[0]}")

sys.addaudithook(watch)
import warnings
filters = list(warnings.filters)
import graphrt
at_once = sorted(set(sys.modules) - before)
from graphrt import Context, GraphBuilder, Limits, Runtime, open_store
import logging, threading, os
print(json.dumps({
    "at_once": at_once,
    "new": sorted(set(sys.modules) - before),
    "files": {n: getattr(m, "__file__", None) or "" for n, m in sys.modules.items() if n not in before and "." not in n},
    "touched": touched,
    "threads": threading.active_count(),
    "handlers": len(logging.getLogger().handlers),
    "filters_kept": filters == list(warnings.filters),
}))
"""


@pytest.fixture(scope="module")
def imported() -> dict[str, Any]:
    """The state of a fresh interpreter after `import graphrt`, and after the names that every program uses."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1, "graphrt printed something"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_import_alone_loads_only_the_package(imported: dict[str, Any]) -> None:
    """Names are imported when they are first used: the command line needs none of them to print its help."""
    names = imported["at_once"]

    assert "graphrt" in names
    assert [name for name in names if name.startswith(("graphrt.", "pydantic"))] == []


def test_import_loads_nothing_heavy(imported: dict[str, Any]) -> None:
    # `logging` and `threading` are imported by the script itself, after graphrt.
    assert [name for name in HEAVY if name in imported["new"]] == []


def test_import_loads_only_the_declared_dependencies(imported: dict[str, Any]) -> None:
    standard = set(sys.stdlib_module_names)
    third_party = {
        name
        for name, file in imported["files"].items()
        if name not in standard and not name.startswith("_") and (not file or "site-packages" in Path(file).parts)
    }

    assert third_party - {"graphrt"} <= ALLOWED_PACKAGES
    assert len(third_party | {"graphrt"}) <= 6


def test_import_loads_no_ready_made_node(imported: dict[str, Any]) -> None:
    assert [name for name in imported["new"] if name.startswith("graphrt.nodes")] == []


def test_import_loads_no_errors_of_packages_that_it_does_not_load(imported: dict[str, Any]) -> None:
    """Declarations of the test kit, ready-made nodes, agents and models are loaded by the modules that raise them."""
    loaded = {name.rpartition(".")[2] for name in imported["new"] if name.startswith("graphrt.errors._codes.")}

    assert loaded <= {
        *("arguments", "child_threads", "findings", "journal", "labels", "nodes", "schedules", "stores", "threads"),
        "timers",
    }


def test_import_loads_no_compatibility_package(imported: dict[str, Any]) -> None:
    assert [name for name in imported["new"] if name.startswith("graphrt.compat")] == []


def test_import_accesses_neither_network_nor_files_nor_environment(imported: dict[str, Any]) -> None:
    assert imported["touched"] == []


def test_import_does_not_change_threads_logging_or_warnings(imported: dict[str, Any]) -> None:
    assert imported["threads"] == 1
    assert imported["handlers"] == 0
    assert imported["filters_kept"]
