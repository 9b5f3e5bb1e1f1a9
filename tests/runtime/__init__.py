"""The behaviour of runs, rule by rule (docs/reference/rules.md), using only the public API of graphrt."""
