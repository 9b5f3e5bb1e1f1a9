"""Research: a question is planned as several, an agent with a tool looks into each at once, and a report joins them.

Run it with `python -m examples.research_map_reduce`, and its tests with `pytest examples/research_map_reduce`.
"""
