"""The node that is running here, for what is called in it without being told. A context variable, and nothing else."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

__all__ = ["NODE"]

NODE: Final[ContextVar[Any]] = ContextVar("graphrt_node", default=None)
"""The Context of the async node that runs here; None outside of nodes that take one."""
