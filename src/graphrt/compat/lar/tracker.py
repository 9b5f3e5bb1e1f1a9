"""The sums of tokens, under the name of Lár's module."""

from __future__ import annotations

from graphrt.compat.lar._log import TokenTracker

__all__ = ["TokenTracker"]
