"""Floor 5: who performs effects. Drivers run nodes, wait, read clocks; they know no rule of the graph.

`sync` drives in the caller with worker threads to help, `aio` on asyncio, `scripted` from a table without either.
"""
