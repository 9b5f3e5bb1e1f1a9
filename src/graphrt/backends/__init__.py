"""Adapters of other engines: hosts that deliver `drive(thread)` by a queue of somebody else. Nothing is imported here.

Experimental: names may change in a minor version (docs/reference/versions.md).

Each engine has a module of its own, behind an extra: `graphrt.backends.dbos` needs `graphrt[dbos]`.
"""
