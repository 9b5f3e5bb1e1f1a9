"""Prompt templates: text with `{name}` fields that are filled from the state."""

from graphrt.harness.template._template import Template

__all__ = ["Template"]
