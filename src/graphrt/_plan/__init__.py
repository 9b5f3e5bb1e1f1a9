"""The plan of a graph: its frozen tables, the schema of its state, and the checks of `compile()`.

It is on floor 1 of the code: it imports only what is on floor 0, the lowest, and is imported by all floors above.
Compiling inspects nodes, routers and reducers, and never calls them.
"""
