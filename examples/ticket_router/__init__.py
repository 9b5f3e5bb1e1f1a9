"""A help desk that routes each ticket by rules: many routers, no model.

Run it with `python -m examples.ticket_router`, and its tests with `pytest examples/ticket_router`.
"""
