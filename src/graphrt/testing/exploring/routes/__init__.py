"""The route explorer: every path through a graph that nodes, models and people may choose, within bounds."""

from __future__ import annotations

from graphrt.testing.exploring.routes.search import explore_routes

__all__ = ["explore_routes"]
