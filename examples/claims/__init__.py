"""A claims desk: two agents read a photo and an invoice, remember the customer, and pay once, with approval.

Run it with `python -m examples.claims`, and its tests with `pytest examples/claims`.
"""
