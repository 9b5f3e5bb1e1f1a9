"""Chaos: hosts whose processes are killed, stopped and cut off at random, over random graphs (decision 0157).

`python -m tests.workers.chaos --host dbos --kills 300` runs it; `nox -s chaos` runs it on every kind of host.
"""
