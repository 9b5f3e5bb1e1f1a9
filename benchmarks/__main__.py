"""`python -m benchmarks`: compare everything that is installed."""

from benchmarks.compare import main

main()
