"""Tools of an MCP server for agents: `McpServer` is the connection, `McpTool` one of the server's tools."""

from graphrt.harness.tools.mcp._server import McpServer
from graphrt.harness.tools.mcp._tool import McpTool

__all__ = ["McpServer", "McpTool"]
