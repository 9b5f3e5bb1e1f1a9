"""Drivers: perform the effects that a flow yields, such as running a node, waiting, writing entries, reading a clock.

`sync` drives a run in the caller's thread, assisted by worker threads. `aio` drives on the running event loop.
`scripted` drives from a table, for tests. Drivers do not decide any rule of the graph.
"""
