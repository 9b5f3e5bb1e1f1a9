"""Structured output: the JSON schema of an `output=` type, and the parsing of an answer into a value of it."""
