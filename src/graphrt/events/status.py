"""The status of a thread, as stores keep it and snapshots report it."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["Status"]

Status: TypeAlias = Literal["new", "running", "interrupted", "failed", "cancelled", "completed"]
"""Status of a thread:

- `new`: it was claimed, and has no entry yet;
- `running`: a run drives it, or drove it when its process ended; or a fork or an edit left work to do;
- `interrupted`: it waits for answers;
- `failed`: its run raised an error;
- `cancelled`: its run was asked to halt;
- `completed`: nothing is due any more.
"""
