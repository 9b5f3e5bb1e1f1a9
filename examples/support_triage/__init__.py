"""A support desk: a ticket is classified, answered from a knowledge base, reviewed if necessary, and sent once.

Run it with `python -m examples.support_triage`, and its tests with `pytest examples/support_triage`.
"""
