"""Keys of audit logs: generation, and rejection of keys that can be guessed."""

from __future__ import annotations

from secrets import token_bytes
from typing import Any

from graphrt._journal.log_keys import KeyRing
from graphrt.audit.offline import KEY_BYTES, weakness
from graphrt.errors._codes.audit import WEAK_KEY


def generate_key() -> bytes:
    """Return a new key: 32 random bytes."""
    return token_bytes(KEY_BYTES)


def key_ring(key: Any, older: Any) -> KeyRing:
    """Return the keys of a log, checked.

    Raises:
        InputError: A key is weak, or not bytes.
    """
    keys = (key, *older)
    for candidate in keys:
        check_strength(candidate)
    return KeyRing(keys[0], keys[1:])


def check_strength(key: Any) -> None:
    """Check a key by the verifier's rules for weak keys.

    Raises:
        InputError: It is weak, or not bytes (`weak-key`).
    """
    problem = weakness(key) if key.__class__ is bytes else f"of the type {type(key).__name__}, and must be bytes"
    if problem:
        raise WEAK_KEY(problem=problem)
