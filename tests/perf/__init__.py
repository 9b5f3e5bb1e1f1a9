"""Bounds on the cost of a step, in counts: calls and bytes are the same on every machine, times are not."""
