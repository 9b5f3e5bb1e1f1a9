"""All threads of the corpus."""

from __future__ import annotations

from typing import Final

from . import cases_paused, cases_stopped
from .hand import Case

CASES: Final[list[Case]] = [*cases_paused.CASES, *cases_stopped.CASES]
