"""Golden traces: what a run did, as a readable text that a repository keeps, and where another run first differs.

`golden_trace` makes the text, `golden_divergence` compares two of them. Files and options of pytest are the business of
the pytest plugin.
"""

from __future__ import annotations

from graphrt.testing.golden.divergence import golden_divergence
from graphrt.testing.golden.trace import golden_trace

__all__ = ["golden_divergence", "golden_trace"]
