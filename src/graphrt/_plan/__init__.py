"""The plan of a graph (floor 1): its frozen tables, the schema of its state, and the checks of `compile()`.

Compiling inspects nodes, routers and reducers, and never calls them.
"""
