"""The cost of graphrt, measured beside its peers and a hand-written loop. `python -m benchmarks` runs it; see
README.md."""

import os

os.environ.setdefault("GRAPHRT_CHECK_STATE", "0")  # measures a program, not a test
