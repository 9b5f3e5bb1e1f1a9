"""Floor 2, the sans-IO engine: decides what follows from what, without a clock, random numbers, threads or I/O."""
