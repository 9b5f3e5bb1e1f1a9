"""Rewrite the ignores of a file: `python tests/typing/annotate.py [refused_nodes.py]`, then read the diff.

Lists the lines with a mistake that only one checker notices; such a line has to be changed or removed by hand.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REFUSED = HERE / (sys.argv[1] if len(sys.argv) > 1 else "refused.py")
IGNORES = re.compile(r"  # (type|pyright): ignore\[[^]]*\]")

Rules = dict[int, set[str]]


def output_of(*command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


def of_mypy() -> Rules:
    found: Rules = defaultdict(set)
    text = output_of("mypy", "--no-pretty", "--hide-error-context", str(REFUSED))
    for line, rule in re.findall(rf"{REFUSED.name}:(\d+): error: .*\[([\w-]+)\]$", text, re.MULTILINE):
        found[int(line)].add(rule)
    return found


def of_pyright() -> Rules:
    found: Rules = defaultdict(set)
    report: dict[str, Any] = json.loads(output_of("pyright", "--outputjson", str(REFUSED)))
    for item in report["generalDiagnostics"]:
        found[item["range"]["start"]["line"] + 1].add(item.get("rule", "reportGeneralTypeIssues"))
    return found


def main() -> None:
    lines = [IGNORES.sub("", line) for line in REFUSED.read_text(encoding="utf-8").splitlines()]
    REFUSED.write_text("\n".join(lines) + "\n", encoding="utf-8")
    mypy, pyright = of_mypy(), of_pyright()
    for number in sorted({*mypy, *pyright}):
        text = lines[number - 1]
        if number in mypy:
            text += f"  # type: ignore[{', '.join(sorted(mypy[number]))}]"
        if number in pyright:
            text += f"  # pyright: ignore[{', '.join(sorted(pyright[number]))}]"
        if (number in mypy) != (number in pyright):
            print(f"only {'mypy' if number in mypy else 'pyright'} refuses line {number}: {lines[number - 1]}")  # noqa: T201
        lines[number - 1] = text
    REFUSED.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
