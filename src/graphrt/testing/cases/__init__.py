"""Recorded steps as tests: `case_of` writes a pytest file from a journal, and `replay_case` runs what it holds.

A case is a thread of its own: a fork right before the step, with the replies, effects and answers that were recorded.
"""

from __future__ import annotations

from graphrt.testing.cases.replaying import ReplayedStep, ReplayedTask, replay_case
from graphrt.testing.cases.writing import case_of

__all__ = ["ReplayedStep", "ReplayedTask", "case_of", "replay_case"]
