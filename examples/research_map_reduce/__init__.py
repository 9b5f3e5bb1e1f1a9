"""Research: a question is split, an agent with a tool researches each part in parallel, and a report joins them.

Run it with `python -m examples.research_map_reduce`, and its tests with `pytest examples/research_map_reduce`.
"""
