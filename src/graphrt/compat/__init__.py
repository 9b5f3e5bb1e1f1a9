"""Interfaces of other systems on top of graphrt: one package for each, which `import graphrt` does not import.

Experimental: names may change in a minor version (docs/reference/versions.md).
"""
