"""The executor, under the name of Lár's module."""

from __future__ import annotations

from graphrt.compat.lar._executor import GraphExecutor, RunOutcome
from graphrt.compat.lar._lowering import EndlessLoopWarning

__all__ = ["EndlessLoopWarning", "GraphExecutor", "RunOutcome"]
