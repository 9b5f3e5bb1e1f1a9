"""When a commit is stored (rule R11). Values; `commit_queue` applies them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Durability: TypeAlias = Literal["sync", "async", "exit"]
DURABILITIES: Final = ("sync", "async", "exit")
