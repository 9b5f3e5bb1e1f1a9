"""Keys that authenticate the commits of a log: HMAC-SHA256, with a separate key for each log (decision 0120).

A log is the hash chain of one thread. Its id is that of the thread that it began with; a copy of the thread continues
it. The runtime has one secret, the root key, from which the key of each log is derived. A root key has a name (`kid`, 8
bytes), which each commit stores, so that a reader knows which key to verify with after keys were changed. The leaf of a
commit is authenticated: the hash of its header.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final, final

from graphrt._journal.seal import KID_BYTES

_KID: Final = b"graphrt/kid/v1\x00"
"""Label of the hash that gives a key's name. Labels keep a hash of one kind from being valid as one of another kind."""
_LOG: Final = b"graphrt/log-key/v1\x00"


def kid_of(root: bytes) -> bytes:
    """Return the name of the key *root*, which does not reveal the key."""
    return hmac.digest(root, _KID, "sha256")[:KID_BYTES]


def key_of(root: bytes, log: str) -> bytes:
    """Return the key of one log: HKDF-SHA256 (RFC 5869) without salt, whose `info` is a label and the id of the log."""
    secret = hmac.digest(bytes(32), root, "sha256")  # HKDF-Extract; the last line is the first block of HKDF-Expand
    return hmac.digest(secret, _LOG + log.encode() + b"\x01", "sha256")


@final
class KeyRing:
    """The keys of all logs of a runtime: the current key, and those used for older commits.

    Args:
        current: The key for new records.
        older: Previously used keys.
    """

    __slots__ = ("_roots", "kid")

    def __init__(self, current: bytes, older: tuple[bytes, ...] = ()) -> None:
        self._roots: Mapping[bytes, bytes] = {kid_of(root): root for root in (*older, current)}
        """Root keys by name."""
        self.kid: bytes = kid_of(current)
        """Name of the key for new records."""

    def __repr__(self) -> str:  # keeps keys out of logs and tracebacks
        return f"KeyRing(kid={self.kid.hex()!r}, keys={len(self._roots)})"

    def of(self, log: str) -> LogKeys:
        """Return the keys of the log with the id *log*."""
        return LogKeys(log, self._roots, self.kid)


@final
class LogKeys:
    """The keys of one log.

    Args:
        log: Id of the log.
        roots: Root keys by name.
        kid: Name of the root key for new records.
    """

    __slots__ = ("_derived", "_log", "_roots", "kid")

    def __init__(self, log: str, roots: Mapping[bytes, bytes], kid: bytes) -> None:
        self._log = log
        self._roots = roots
        self._derived: dict[bytes, bytes] = {}
        """Keys of this log by the name of their root key, derived at first use."""
        self.kid: bytes = kid
        """Name of the key for new records."""

    def mac(self, kid: bytes, leaf: bytes) -> bytes | None:
        """Return the MAC of *leaf* under the key *kid*; None if that key is not available."""
        key = self._derived.get(kid)
        if key is None:
            if kid not in self._roots:
                return None
            key = self._derived[kid] = key_of(self._roots[kid], self._log)
        return hmac.digest(key, leaf, "sha256")
