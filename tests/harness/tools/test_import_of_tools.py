"""Importing and building tools does not require the packages that only some of them need."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys
from graphrt.harness import Injected, McpServer, Tool, ToolContext, ToolPolicy, ToolRegistry, ToolResult, tool

McpServer.stdio("python", ["server.py"])

@tool
def add(a: int) -> int:
    "Add."
    return a

add.check({"a": 1})
import threading
heavy = {"griffe", "mcp", "httpx2", "jsonschema", "litellm"}
print(json.dumps([sorted(heavy & set(sys.modules)), threading.active_count()]))
"""


def test_building_tools_and_servers_imports_no_optional_package_and_starts_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stderr == ""
    assert json.loads(done.stdout) == [[], 1]
