"""The choices for when a commit is stored (rule R11). Values only; `commit_queue` applies them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Durability: TypeAlias = Literal["sync", "async", "exit"]
"""`sync`: before anyone sees it. `async`: in order, at most 256 entries later. `exit`: at a pause or at the end."""
DURABILITIES: Final = ("sync", "async", "exit")
"""All choices, as error messages list them."""
