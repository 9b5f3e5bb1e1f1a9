"""The plan of a graph: its frozen tables, the schema of its state, and the checks of `compile()`.

It is in the second-lowest layer of the code: it imports only modules of the lowest layer, and all layers above import
it. Compiling inspects nodes, routers and reducers but never calls them.
"""
