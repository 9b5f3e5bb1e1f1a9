"""Structured output: the JSON schema of an `output=` type, and parsing an answer into a value of that type."""
