"""These tests import LangGraph and LangChain: an interpreter with only the extra `test` does not collect them."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("langgraph") and find_spec("langchain") else ["test_*.py"]
