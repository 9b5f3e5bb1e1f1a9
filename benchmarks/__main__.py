"""`python -m benchmarks`: compare all installed libraries."""

from benchmarks.compare import main

main()
