"""Encryption of individual bodies with AES-256-GCM, bound to the place where a body belongs.

A sealed body has this layout, with lengths in bytes:

    magic (3) | form (1) | length of the key id (1) | key id | mark (4) | nonce (12) | ciphertext | tag (16)

A *blob* is a large value. Its name is derived from its content and could confirm a guess, so an encrypted store names
it by an HMAC instead. The mark identifies the key under which blobs were named when the body was written: names are
made with the current key, and looked up under all keys (decision 0046). Everything before the nonce is authenticated
together with the place: thread, kind of body, and number or name. A body that is moved elsewhere therefore fails to
decrypt.

Each thread has its own key, derived from the given one. Nonces are random, and need to be unique only among the bodies
of one thread.

Keys, ciphertexts and names of blobs belong here. Which bodies a store has is in `encrypted`. The package cryptography
is imported at first use.
"""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NoReturn

from graphrt.errors import StoreError, a_type, names
from graphrt.errors._codes.arguments import INVALID_ARGUMENT, MISSING_PACKAGE, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.errors._codes.stores import (
    BAD_KEY,
    ENCRYPTED_BODY_DAMAGED,
    MISSING_KEY,
    NOT_ENCRYPTED,
    OPENED_WITHOUT_KEYS,
    STORE_NEWER,
)

_MAGIC: Final = b"\xd7gE"
"""Begins each sealed body of any form, which distinguishes it from a plain one."""
FORM: Final = b"1"
"""The form of sealed bodies that is written and read."""
_NONCE: Final = 12
_TAG: Final = 16
_MARK: Final = 4
"""Lengths of these parts in bytes."""
_FIT: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}").fullmatch
_FEWEST: Final = 10
"""Minimum number of distinct bytes in a key. 32 random bytes have fewer in less than one of 10 ** 15 keys."""


class Keyring:
    """Keys by id. New bodies are sealed with the current key; old ones are opened with whichever key sealed them.

    The key that seals a body also makes the names of the blobs that are written with it. A thread that was written
    under a single key therefore needs no other key.

    Args:
        keys: 32 random bytes each, by id.
        current: Id of the key for new bodies and blob names. None: the first of *keys*.

    Raises:
        InputError: A key or its id is not acceptable, or *current* names no key (`bad-key`). The error never shows a
            key.
        MissingExtraError: cryptography is not installed.
    """

    __slots__ = ("_cipher", "_current", "_keys", "_mark", "_marks", "_naming", "_threads", "ids")

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None) -> None:
        _check(keys)
        self.ids: Final = tuple(keys)
        self._keys: Final = dict(keys)
        self._current: Final = self._chosen(self.ids[0] if current is None else current)
        # The current key comes first: `name` uses the first key, and `names` returns all in this order.
        self._naming: Final = tuple(
            _derive(self._keys[key], "names") for key in sorted(self.ids, key=lambda key: key != self._current)
        )
        self._marks: Final = tuple(_derive(naming, "mark")[:_MARK] for naming in self._naming)
        self._mark: Final = self._marks[0]
        self._cipher: Final = _aes()
        # The cache belongs to this object: `lru_cache` on the method would keep the keys of every keyring in memory.
        self._threads: Final = lru_cache(maxsize=1024)(self._thread_cipher)

    def __repr__(self) -> str:
        return f"<Keyring of {names(self.ids)}, current {self._current!r}>"

    def __reduce__(self) -> NoReturn:
        """Refuse pickling, which would write keys to a file or another process."""
        raise TypeError("keys are never pickled; open the store again where it is needed")

    def _chosen(self, key: str) -> str:
        """Check that *key*, the id of the current key, was given, and return it.

        Raises:
            InputError: It was not (`input`).
        """
        if key in self._keys:
            return key
        raise UNKNOWN_NAME_IN_ARGUMENT(argument="current=", name=key, what="key of keys=", known_names=self.ids)

    def _thread_cipher(self, key: str, thread: str) -> Any:
        """Return the cipher for bodies of *thread* under the key with the id *key*. Called through a cache."""
        return self._cipher(_derive(self._keys[key], f"bodies of {thread}"))

    def seal(self, body: bytes, thread: str, kind: str, place: object) -> bytes:
        """Encrypt *body* with the current key, for a place.

        Args:
            body: The plain bytes.
            thread: Id of the thread, or name of the schedule, that the body belongs to.
            kind: Kind of the body, such as `record` or `blob`.
            place: Its number, key or name among the bodies of this kind; converted to str.
        """
        header = _header(self._current, self._mark)
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._threads(self._current, thread).encrypt(nonce, body, _bound(header, thread, kind, place))
        return b"".join((header, nonce, sealed))

    def open(self, sealed: bytes, thread: str, kind: str, place: object) -> bytes:
        """Decrypt the body that was sealed for this place: `seal` had the same *thread*, *kind* and *place*.

        Raises:
            StoreError: *sealed* is not encrypted (`downgrade-refused`), a newer version of graphrt encrypted it
                (`store-newer`), a key that it needs was not given (`missing-key`), or it was changed or moved
                (`store-damaged`).
        """
        owner: str | None  # the thread of an error; the memory belongs to none
        if kind == "memory":
            where, owner = f"namespace {thread!r} of the memory, key {place!r}", None
        else:
            # Meta has the place "".
            where, owner = f"thread {thread!r}, {kind}{'' if place == '' else f' {place!r}'}", thread
        # A plain body is refused: otherwise an attacker with write access could replace sealed bodies by plain ones.
        form = sealed[len(_MAGIC) : len(_MAGIC) + 1]
        if not sealed.startswith(_MAGIC) or form < FORM:
            raise NOT_ENCRYPTED(thread=owner, where=where)
        if form > FORM:
            raise STORE_NEWER(
                part="An encrypted body", version=form.decode("latin-1"), form=FORM.decode(), thread=owner, where=where
            )
        at = len(_MAGIC) + 2  # the id of the key is from here to `end`, after one byte with its length
        end = at + sealed[at - 1] if len(sealed) >= at else at
        if len(sealed) < end + _MARK + _NONCE + _TAG:
            raise _damaged(where, owner)
        key = sealed[at:end].decode("ascii", "replace")
        if key not in self._keys:
            raise MISSING_KEY(key=repr(key[:64]), ids=self.ids, thread=owner, where=where)
        header, body = sealed[: end + _MARK], sealed[end + _MARK :]
        invalid = import_module("cryptography.exceptions").InvalidTag
        # A wrong tag is reported below, outside of the `except` block: InvalidTag has no text to show as context.
        try:
            opened: bytes = self._threads(key, thread).decrypt(
                body[:_NONCE], body[_NONCE:], _bound(header, thread, kind, place)
            )
        except invalid:
            opened = b""
        else:
            # The header ends with the mark of the key that named the blobs. Without that key, blobs could not be found
            # by their names, and would look as if they were missing.
            if header[end:] not in self._marks:
                raise MISSING_KEY(key="that derives the names of large values", ids=self.ids, thread=owner, where=where)
            return opened
        raise _damaged(where, owner)

    def name(self, thread: str, name: str) -> str:
        """Return the name under which the blob *name* of *thread* is stored now: an HMAC with the current key."""
        return self.names(thread, name)[0]

    def names(self, thread: str, name: str) -> list[str]:
        """Return all names under which the blob may be stored: one for each key, the current key's first."""
        message = b"".join(_sized(part) for part in (thread, name))
        return [hmac.digest(naming, message, "sha256").hex() for naming in self._naming]


def refuse_sealed(body: bytes, thread: str | None) -> None:
    """Check that *body*, which was read without keys, is not encrypted. An export would lack the blobs of the thread.

    Args:
        body: A body of a thread, or an item of the memory.
        thread: The thread; None for the memory.

    Raises:
        StoreError: It is encrypted (`missing-key`).
    """
    if body.startswith(_MAGIC):
        what = "The memory" if thread is None else f"Thread {thread!r}"
        raise OPENED_WITHOUT_KEYS(what=what, thread=thread)


def _check(keys: Mapping[str, bytes]) -> None:
    """Check that there are *keys*, and that each has a valid id and 32 bytes that look random.

    Raises:
        InputError: One is not acceptable (`bad-key`), or has no valid id (`input`).
    """
    if not keys:
        raise BAD_KEY(what="An encrypted store", problem="needs a key")
    if not isinstance(keys, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers need not be typed
        raise BAD_KEY(what="keys=", problem=f"is {a_type(keys)}, not a mapping of ids to keys")
    for key, secret in keys.items():
        if not _is_id(key):
            raise INVALID_ARGUMENT(
                argument="The id of a key",
                value=str(key)[:80],
                wanted="1 to 64 of the characters A-Z a-z 0-9 _ . : -; the id is stored with each body",
            )
        if type(secret) is not bytes:
            why = f"is {type(secret).__name__}, not bytes"
        elif len(secret) != 32:
            why = f"has {len(secret)} bytes, not 32"
        elif len(set(secret)) < _FEWEST:
            why = f"has only {len(set(secret))} different bytes, so it is not random"
        else:
            continue
        raise BAD_KEY(what=f"The key {key!r}", problem=why)


def _is_id(value: Any) -> bool:
    """Return whether *value* can be the id of a key: it is stored in each body, after one byte with its length."""
    return isinstance(value, str) and _FIT(value) is not None


def _derive(key: bytes, purpose: str) -> bytes:
    """Derive a key for one *purpose* from *key*: for blob names, for their mark, or for the bodies of one thread.

    This is the expand step of HKDF for one block (RFC 5869, section 2.3). The extract step is not needed, because
    *key* is uniformly random and has the length of the digest.
    """
    return hmac.digest(key, b"graphrt " + purpose.encode() + b"\x01", "sha256")


def _header(key: str, mark: bytes) -> bytes:
    """Return the start of a sealed body, up to the nonce."""
    return b"".join((_MAGIC, FORM, bytes([len(key)]), key.encode("ascii"), mark))


def _bound(header: bytes, thread: str, kind: str, place: object) -> bytes:
    """Return the data that is authenticated with a body: its place, and the beginning of the sealed body."""
    return b"".join((_sized(thread), _sized(kind), _sized(str(place)), header))


def _sized(text: str) -> bytes:
    """Return *text* as UTF-8 after its length."""
    # The length comes first, so that two parts cannot be split in another way and give the same bytes.
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(4, "big") + data


def _aes() -> Any:
    """Return the class `AESGCM` of the package cryptography.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        return import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM
    except ImportError as error:
        raise MISSING_PACKAGE(
            user="EncryptedStore", package=error.name or "cryptography", extra="crypto", value=error.name
        ) from error


def _damaged(where: str, thread: str | None) -> StoreError:
    """Return the error for a body that is too short, was changed, or was moved to another place."""
    return ENCRYPTED_BODY_DAMAGED(thread=thread, where=where)
