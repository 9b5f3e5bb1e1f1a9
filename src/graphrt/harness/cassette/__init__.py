"""Cassettes: model replies and harnesses, and results of MCP servers, recorded once in a file and replayed in every test."""

from graphrt.harness.cassette._cassette import Cassette, CassetteMode, RecordedHarness, RecordedModel
from graphrt.harness.cassette._mcp import RecordedMcpServer

__all__ = ["Cassette", "CassetteMode", "RecordedHarness", "RecordedMcpServer", "RecordedModel"]
