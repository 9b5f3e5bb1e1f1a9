"""Prompt templates: text with fields in braces, filled from the state."""

from graphrt.harness.template._template import Template

__all__ = ["Template"]
