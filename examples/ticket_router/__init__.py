"""A help desk that sends each ticket on its way by rules: many routers, no model.

Run it with `python -m examples.ticket_router`, and its tests with `pytest examples/ticket_router`.
"""
