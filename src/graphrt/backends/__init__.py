"""Adapters for other engines: hosts that deliver `drive(thread)` through a third-party queue. Imports nothing itself.

Experimental: names may change in a minor version (docs/reference/versions.md).

Each engine has a separate module, behind an extra: `graphrt.backends.dbos` needs `graphrt[dbos]`.
"""
