"""The names of telemetry are deliberate, documented, and defined in one file."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

from graphrt.otel import _names

ROOT = Path(__file__).parents[2]
OTEL = ROOT / "src" / "graphrt" / "otel"
SNAPSHOT = Path(__file__).with_name("names.txt")


def names() -> dict[str, tuple[str, ...]]:
    return {
        name: (value,) if isinstance(value, str) else value
        for name, value in vars(_names).items()
        if name.isupper() and name != "TYPE_CHECKING" and not name.startswith("_")
    }


def test_names_equal_the_snapshot():
    """A backend depends on the names: change the snapshot and the changelog with them."""
    found = "".join(f"{name} = {' | '.join(value)}\n" for name, value in sorted(names().items()))

    assert found == SNAPSHOT.read_text(encoding="utf-8")


def test_no_other_module_contains_a_name():
    spelt = [
        f"{path.name}: {node.value}"
        for path in OTEL.glob("*.py")
        if path.name != "_names.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"(gen_ai|graphrt)\.[a-z_.]+", node.value)
        and not node.value.startswith(("graphrt.otel", "graphrt.errors"))
    ]

    assert spelt == []


def test_reference_has_exactly_the_names():
    text = (ROOT / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
    told = {code.split(" ")[0] for code in re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)}

    assert told == {value[0] for name, value in names().items() if name != "SCOPE"}


def test_reference_has_the_attributes_and_metrics_of_the_code():
    page = ROOT / "docs" / "reference" / "telemetry.md"
    written = runpy.run_path(str(ROOT / "docs" / "telemetry.py"))["page"](page.read_text(encoding="utf-8"))

    assert written == page.read_text(encoding="utf-8"), "run: python docs/telemetry.py"


def test_missing_package_names_its_extra():
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = sys.modules['opentelemetry.trace'] = None\n"
        "try:\n"
        "    import graphrt.otel\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert 'pip install "graphrt[otel]"' in done.stdout + done.stderr
