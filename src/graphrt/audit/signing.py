"""Ed25519 signatures of heads: made and checked with the package `cryptography` (`pip install graphrt[crypto]`).

Anyone with the key of the log can check a MAC and make one. Everyone can check a signature, but only the owner of the
private key can make one. `offline` uses only the standard library, so it leaves the check of signatures to a function:
`verify(..., check_signature=check)`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, final

from graphrt.audit.offline import TreeHead
from graphrt.errors import InputError, a_type
from graphrt.errors._codes.arguments import ARGUMENT_OUT_OF_BOUNDS, MISSING_PACKAGE

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
    """Return the public key of a private key: 32 bytes, for everyone who checks signatures.

    Raises:
        InputError: *private* is not a private key, or `cryptography` is not installed.
    """
    public: bytes = _private(private).public_key().public_bytes_raw()
    return public


def sign(head: TreeHead, private: bytes) -> TreeHead:
    """Return *head* with a signature over the bytes that its MAC covers: size, number, time, root and thread.

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
        trusted: The trusted public keys; a signature by any other key proves nothing.

    Raises:
        InputError: A key is not a public key, or `cryptography` is not installed.
    """

    def __init__(self, trusted: Collection[bytes]) -> None:
        ed25519 = _ed25519()
        self._trusted: Final[dict[bytes, Any]] = {}
        for key in trusted:
            if key.__class__ is not bytes or len(key) != KEY_BYTES:
                raise _bad_key(key)
            self._trusted[key] = ed25519.Ed25519PublicKey.from_public_bytes(key)

    def __call__(self, signer: bytes, signature: bytes, signed: bytes) -> bool | None:
        """Return whether the signature matches *signed*; None if its key is not trusted."""
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
        raise _bad_key(key)
    private_key: Ed25519PrivateKey = ed25519.Ed25519PrivateKey.from_private_bytes(key)
    return private_key


def _bad_key(key: object) -> InputError:
    return ARGUMENT_OUT_OF_BOUNDS(
        problem=f"An Ed25519 key cannot be {a_type(key)} in this form",
        wanted=f"{KEY_BYTES} bytes: generate_signing_key() makes a private key, and public_key() derives its public key",
    )


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MISSING_PACKAGE(user="A signature", package="cryptography", extra="crypto") from error
    return ed25519
