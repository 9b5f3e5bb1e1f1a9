"""Interfaces of other systems on top of graphrt: one package for each, which `import graphrt` does not import."""
