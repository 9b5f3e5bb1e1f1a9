"""Searches for bugs that one run does not show: other orders, crashes, routes, and changed graphs.

All searches are seeded and bounded, and give an `Exploration`: what was tried, what was found, and what was left out.
"""

from __future__ import annotations

from graphrt.testing.exploring.crashes import explore_crashes, explore_forks
from graphrt.testing.exploring.report import Exploration, Finding
from graphrt.testing.exploring.routes import explore_routes
from graphrt.testing.exploring.schedules import explore_schedules

__all__ = [
    "Exploration",
    "Finding",
    "explore_crashes",
    "explore_forks",
    "explore_routes",
    "explore_schedules",
]
