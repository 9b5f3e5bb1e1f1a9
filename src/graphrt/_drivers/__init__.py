"""Drivers: perform the effects that a flow yields, such as running a node, waiting, writing entries, reading a clock.

`sync` drives in the caller's thread, with worker threads to help. `aio` drives on the running event loop. `scripted`
drives from a table, for tests. No rule of the graph is decided here.
"""
