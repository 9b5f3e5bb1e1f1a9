"""A support desk: a ticket is classified, answered from a knowledge base, read by a person where it matters, sent once.

Run it with `python -m examples.support_triage`, and its tests with `pytest examples/support_triage`.
"""
