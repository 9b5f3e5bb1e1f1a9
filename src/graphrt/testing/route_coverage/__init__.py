"""Route coverage: the nodes, edges, labels and exits of graphs that were taken, and by which tests.

`pytest --graphrt-cov` uses it; `python -m graphrt.testing.route_coverage` merges and reports the data of several runs.
"""

from graphrt.testing.route_coverage.arcs import Arc, declared
from graphrt.testing.route_coverage.data import CoverageData, GraphData, load
from graphrt.testing.route_coverage.summary import GraphSummary, Summary, summarise

__all__ = ["Arc", "CoverageData", "GraphData", "GraphSummary", "Summary", "declared", "load", "summarise"]
