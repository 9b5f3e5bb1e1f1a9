"""Ed25519 signatures of heads: made and checked with the package `cryptography` (`pip install graphrt[crypto]`).

A MAC can be checked, and made, by whoever has the key of the log. A signature can be checked by everybody, and made by
the owner of the private key alone. `offline` needs the standard library only, so it reports signatures and leaves
checking them to a function: `verify(..., check_signature=check)`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.audit.offline import Head
from graphrt.errors._codes.arguments import MISSING_PACKAGE
from graphrt.errors._codes.audit import BAD_SIGNING_KEY

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["SignatureCheck", "generate_signing_key", "public_key", "sign"]

KEY_BYTES: Final = 32


def generate_signing_key() -> bytes:
    """Return a new private key: 32 bytes.

    Raises:
        InputError: `cryptography` is not installed.
    """
    private: bytes = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw()
    return private


def public_key(private: bytes) -> bytes:
    """Return the public key that belongs to a private one: 32 bytes, to be given to those who check signatures.

    Raises:
        InputError: *private* is not a private key, or `cryptography` is not installed.
    """
    public: bytes = _private(private).public_key().public_bytes_raw()
    return public


def sign(head: Head, private: bytes) -> Head:
    """Return *head* with a signature over the bytes that its MAC is over: size, number, time, root and thread.

    Args:
        head: A head, as `graphrt.audit.head` makes it or an anchor gets it.
        private: The private key: 32 bytes.

    Raises:
        InputError: *private* is not a private key, or `cryptography` is not installed.
    """
    key = _private(private)
    return head._replace(signature=key.sign(head.signed()), signer=key.public_key().public_bytes_raw())


@final
class SignatureCheck:
    """Checks signatures of heads, for `check_signature=` of `graphrt.audit.verify`.

    Args:
        trusted: The public keys that count; a signature by another key is no proof of anything.

    Raises:
        InputError: A key is not a public key, or `cryptography` is not installed.
    """

    def __init__(self, trusted: Collection[bytes]) -> None:
        ed25519 = _ed25519()
        self._trusted: Final[dict[bytes, Any]] = {}
        for key in trusted:
            if key.__class__ is not bytes or len(key) != KEY_BYTES:
                raise BAD_SIGNING_KEY(given=key)
            self._trusted[key] = ed25519.Ed25519PublicKey.from_public_bytes(key)

    def __call__(self, signer: bytes, signature: bytes, signed: bytes) -> bool | None:
        """Return whether the signature is that of *signed*; None if its key is not trusted."""
        from cryptography.exceptions import InvalidSignature

        public = self._trusted.get(signer)
        if public is None:
            return None
        try:
            public.verify(signature, signed)
        except InvalidSignature:
            return False
        return True


def _private(key: bytes) -> Ed25519PrivateKey:
    ed25519 = _ed25519()
    if key.__class__ is not bytes or len(key) != KEY_BYTES:
        raise BAD_SIGNING_KEY(given=key)
    made: Ed25519PrivateKey = ed25519.Ed25519PrivateKey.from_private_bytes(key)
    return made


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MISSING_PACKAGE(user="A signature", package="cryptography", extra="crypto") from error
    return ed25519
