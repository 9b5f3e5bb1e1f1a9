"""The route explorer: every way that nodes, models and persons may take a graph, within bounds."""

from __future__ import annotations

from graphrt.testing.exploring.routes.search import explore_routes

__all__ = ["explore_routes"]
