"""Tools that an agent can call: the `Tool` protocol, and tools made of functions, model classes and MCP servers."""
