"""The status of a thread, as stores keep it and snapshots report it."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Status"]

Status: TypeAlias = Literal["new", "running", "interrupted", "failed", "cancelled", "completed"]
