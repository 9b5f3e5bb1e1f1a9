"""Floor 4: in which order effects are asked. The run loop, written once, as generators; drivers perform the effects."""
