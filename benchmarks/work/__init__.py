"""The workloads, one file per library.

Every file has functions named like the workloads of `catalogue.py`. Each takes a size n, builds and compiles the graph,
and returns a function without arguments that does the work once and returns the final state or the observations. A file
omits workloads that its library cannot express.

A file writes the workload the way the library's own documentation would. The shared parts (messages, the event loop,
the comparison of final states) are in `common.py`.
"""
