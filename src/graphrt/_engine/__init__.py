"""Floor 2: what follows from what. The sans-IO engine: it reads no clock, draws no number and starts nothing."""
