"""Tools of an agent: what they are, and how functions, classes and servers become tools."""
