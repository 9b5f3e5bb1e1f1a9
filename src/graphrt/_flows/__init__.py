"""The run loop, written once as generators: they yield effects in order, and drivers perform them."""
