"""Tools of an MCP server: the server, the connection to it, and what its tools are to an agent."""

from graphrt.harness.tools.mcp._server import McpServer
from graphrt.harness.tools.mcp._tool import McpTool

__all__ = ["McpServer", "McpTool"]
