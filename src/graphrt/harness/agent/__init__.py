"""The standard harness: a loop of model calls and tool calls, with limits, and what it needs of its surroundings."""
