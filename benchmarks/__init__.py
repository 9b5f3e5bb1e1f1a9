"""What graphrt costs, measured beside its peers and a hand-written loop. `python -m benchmarks` runs it; see README.md."""

import os

os.environ.setdefault("GRAPHRT_CHECK_STATE", "0")  # a program is measured, not a test
