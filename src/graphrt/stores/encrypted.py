"""EncryptedStore: a wrapper around a store that encrypts all bodies.

`wrapper` defines which bodies a store has and the place that each is bound to; `_sealing` has the cipher. Data that a
store must be able to search stays in plain text: thread ids, status, graph name, times, entry numbers, staged keys,
seals, titles, tags, and ids of messages. So do namespaces and keys of the memory, name, graph and time of a schedule,
and an open question except for its payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn, final

from graphrt.stores._sealing import Keyring
from graphrt.stores.protocol import Store
from graphrt.stores.wrapper import StoreWrapper

__all__ = ["EncryptedStore"]


@final
class EncryptedStore(StoreWrapper):
    """A store that keeps its bodies encrypted in another store (AES-256-GCM). Needs the extra `graphrt[crypto]`.

    A body is bound to its thread and its place. A body that was changed or moved is refused (`store-damaged`), and so
    is a plain one (`downgrade-refused`). Encryption cannot detect that a whole thread was reset to an earlier state;
    chained journals can.

    The words and vectors of memory items are sealed with their values, so a search reads and decrypts all items of its
    namespaces.

    Blobs are stored under an HMAC of thread and name, so that equal values cannot be recognised. A copy of a thread, made
    by `Runtime.copy_thread`, is encrypted again under its own id.

    Args:
        store: Any store. It is closed together with this one.
        keys: 32 random bytes each, by an id that is stored with every body. To rotate, add a key and make it current.
            Keep the other keys as long as anything that they sealed. A copy is written with the current key alone.
        current: Id of the key for new bodies, and for the names of new blobs. None: the first of *keys*.

    Raises:
        InputError: A key is not acceptable (`bad-key`).
        MissingExtraError: cryptography is not installed.
    """

    def __init__(self, store: Store, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        self._keys: Final = Keyring(keys, current=current)
        # A blob may have been written under any key of the ring, so it is looked up under all of them (decision 0046).
        super().__init__(store, bodies=self._keys)
        self.encrypted: bool = True

    def __repr__(self) -> str:
        return f"<EncryptedStore over {self.store!r}, keys {', '.join(self._keys.ids)}>"

    def __reduce__(self) -> NoReturn:  # a pickle would carry the keys to a file or another process
        raise TypeError("an EncryptedStore is never pickled: its keys stay where they are")
