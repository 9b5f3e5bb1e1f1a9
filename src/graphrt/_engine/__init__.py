"""The sans-IO engine: decides the consequences of each outcome, without a clock, random numbers, threads or I/O."""
