"""The parts of `recursive`: the long text, its tools, prompts, sub-calls, and the graph of a reader."""
