"""An audit of installed Python distributions: licences, age, size and state, as a graphrt graph.

Run it with `python -m examples.audit`. It uses only the public API of graphrt. Where to read first:

    graph.py      the nodes, the routers and how they are wired
    state.py      the state of the graph, and its reducers
    __main__.py   how it is driven: store, harness, journal, interrupts
"""
