"""What a step may cost, guarded by counts: calls and bytes are the same on every machine, times are not."""
