"""How texts of callers are stored in columns of the type bytea."""

from __future__ import annotations


def to_bytes(text: str) -> bytes:
    """Encode a caller's text for storage. Any str is accepted, also with NUL, which PostgreSQL's type text refuses."""
    # A lone surrogate, which strict UTF-8 refuses, is encoded too.
    return text.encode("utf-8", "surrogatepass")


def to_text(stored: bytes) -> str:
    """Decode what `to_bytes` returned."""
    return stored.decode("utf-8", "surrogatepass")
