"""What graphrt costs, measured beside its peers and a hand-written loop. `python -m benchmarks` runs it; see README.md."""
