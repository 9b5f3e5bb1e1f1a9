"""Keys of audit logs: making one, and refusing what could be guessed."""

from __future__ import annotations

from secrets import token_bytes
from typing import Any, Final

from graphrt._journal.log_keys import KeyRing
from graphrt.errors._codes.audit import WEAK_KEY

KEY_BYTES: Final = 32
"""Least length of a key."""
_DISTINCT: Final = 12
"""Least number of distinct bytes: 32 random bytes have fewer once in 10^17 times."""
SAMPLES: Final = (b"a-string-secret-at-least-256-bits-long", b"abcdefghijklmnopqrstuvwxyz123456")
"""Long keys that documentation shows, which the verifier calls weak too."""


def generate_key() -> bytes:
    """Return a new key: 32 random bytes."""
    return token_bytes(KEY_BYTES)


def key_ring(key: Any, older: Any) -> KeyRing:
    """Return the keys of a log, checked.

    Raises:
        InputError: A key is weak, or not bytes.
    """
    return KeyRing(_checked(key), tuple(_checked(one) for one in older))


def _checked(key: Any) -> bytes:
    problem = weakness(key)
    if problem:
        raise WEAK_KEY(problem=problem)
    checked: bytes = key
    return checked


def weakness(key: Any) -> str:
    """Return what is wrong with *key*; empty if nothing is."""
    if key.__class__ is not bytes:
        return f"of the type {type(key).__name__}, and must be bytes"
    if len(key) < KEY_BYTES:
        return f"too short: {len(key)} bytes, of at least {KEY_BYTES}"
    if len(set(key)) < _DISTINCT:
        return f"not random: it has only {len(set(key))} different bytes"
    if key in SAMPLES:
        return "a sample from documentation"
    return ""
