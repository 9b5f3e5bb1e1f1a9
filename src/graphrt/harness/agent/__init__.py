"""The standard harness: a loop of model calls and tool calls, with limits, middleware, approvals and sub-agents."""
