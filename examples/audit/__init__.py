"""An audit of installed Python distributions: licences, age, size and state, as a graphrt graph.

Run it with `python -m examples.audit`. Only the public face of graphrt is used. Where to read first:

    graph.py      the nodes, the routers and how they are wired
    state.py      what the graph knows, and the reducers that fold it
    __main__.py   how it is driven: store, harness, journal, interrupts
"""
