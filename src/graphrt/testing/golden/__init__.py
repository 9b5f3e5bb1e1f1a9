"""Golden traces and wires: the events of a run, or those for a front end, as text to compare with another run.

`golden_trace` makes the text, and `golden_divergence` compares two texts; `golden_wire` makes the text of a front end.
The pytest plugin handles files and options.
"""

from __future__ import annotations

from graphrt.testing.golden.divergence import golden_divergence
from graphrt.testing.golden.trace import golden_trace
from graphrt.testing.golden.wire import golden_wire

__all__ = ["golden_divergence", "golden_trace", "golden_wire"]
