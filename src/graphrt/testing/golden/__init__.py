"""Golden traces and wires: what a run did, or what a front end is sent of it, as a readable text that a repository keeps, and where another run first differs.

`golden_trace` makes the text, `golden_divergence` compares two of them; `golden_wire` makes that of a front end. Files and options of pytest are the business of
the pytest plugin.
"""

from __future__ import annotations

from graphrt.testing.golden.divergence import golden_divergence
from graphrt.testing.golden.trace import golden_trace
from graphrt.testing.golden.wire import golden_wire

__all__ = ["golden_divergence", "golden_trace", "golden_wire"]
