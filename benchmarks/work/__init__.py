"""The workloads, one file per library.

Every file has functions named like the workloads of `catalogue.py`. Each takes a size n, prepares (graph built and
compiled) and returns a function without arguments that does the work once and returns the final state, or what was
seen. A workload that a library cannot express is left out of its file.

A file writes the workload the way the library's own documentation would. What they share (the messages, the event
loop, how a final state is compared) is in `common.py`.
"""
