"""Searches for bugs that a single run does not reveal: other orders, crashes, routes, and mutated graphs.

All searches are seeded and bounded. They return an `Exploration`: the cases tried, the findings, and the parts left
out.
"""

from __future__ import annotations

from graphrt.testing.exploring.crashes import explore_crashes, explore_forks
from graphrt.testing.exploring.report import Counterexample, Exploration
from graphrt.testing.exploring.routes import explore_routes
from graphrt.testing.exploring.schedules import explore_schedules

__all__ = [
    "Counterexample",
    "Exploration",
    "explore_crashes",
    "explore_forks",
    "explore_routes",
    "explore_schedules",
]
