"""Programs that demonstrate graphrt; each runs unchanged, without a key or a network."""
