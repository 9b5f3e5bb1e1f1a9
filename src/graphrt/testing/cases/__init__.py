"""Recorded steps as tests: `case_of` writes a pytest file from a journal, and `replay_case` replays it.

A case is a separate thread: a fork right before the step, with the recorded replies, effects and answers.
"""

from __future__ import annotations

from graphrt.testing.cases.replaying import ReplayedStep, ReplayedTask, replay_case
from graphrt.testing.cases.writing import case_of

__all__ = ["ReplayedStep", "ReplayedTask", "case_of", "replay_case"]
