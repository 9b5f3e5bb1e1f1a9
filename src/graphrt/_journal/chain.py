"""The hash chain over the journal: a small header for each commit, and salted commitments to its lines.

A header holds the hash of the previous header, of the commit's own lines and of the state after it, and no user values.
Its layout is fixed, so that each header can be written in one way only (decisions 0021 and 0120):

    version u8 | seq u64 | entries u32 | at i64, microseconds | kid 8 | prev 32 | body 32 | state 32      125 bytes

- `kid` names the key with which the commit is authenticated (a MAC of its leaf); zeros (`UNKEYED`) without one.
- `prev` is the leaf of the previous header; in the first header, a hash of the thread's id. The leaf of a header is
  SHA-256 of 0x00 and the header (RFC 9162), so that leaves are those of a Merkle tree.
- `body` is SHA-256 over the commitments of the lines; each is SHA-256 of a label, 16 bytes of salt, and the line.
- `state` is SHA-256 over the rolling digests of the fields, sorted by name.

A field's digest is a chain over the commitments of the lines that were folded into it. It is only extended, never
recomputed, however large the field has grown. A header contains only the commitment of a line. Without the salt, the
hashes cannot confirm a guess of the line. So a line can be erased, and the chain still verifies.

Only the seal of a header is stored, from which a reader computes the header again; see `seal`. This module loads
OpenSSL, so only chained threads import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256, shake_256
from hmac import compare_digest
from os import urandom
from struct import Struct, error
from typing import TYPE_CHECKING, Final, final

from graphrt._journal.batch import LATEST_S
from graphrt._journal.body import ERASED_LINE
from graphrt._journal.merkle import Tree
from graphrt._journal.seal import (
    COMMIT,
    PLAIN_BYTES,
    SALT_BYTES,
    SALTS,
    SEED_BYTES,
    STATE_AND_LEAF,
    UNKEYED,
    UNKEYED_BEGIN,
    VERSION,
    Seal,
    packed,
    parsed,
    salts_of,
)
from graphrt.errors import StoreError
from graphrt.errors._codes.arguments import INVALID_ARGUMENT
from graphrt.errors._codes.journal import LOG_KEY_NEEDED, LOG_NOT_KEYED
from graphrt.errors._codes.stores import STORE_DAMAGED

if TYPE_CHECKING:
    from graphrt._journal.log_keys import LogKeys

_HEAD: Final = Struct(">BQIq")
"""The part of a header that needs no hash: version, `seq`, number of entries, time."""
# Each kind of hash begins with a different label, so that a hash of one kind is never valid as another kind.
_GENESIS: Final = b"graphrt/journal/v1\x00"
_FIELD: Final = b"graphrt/field/v1\x00"
LEAF: Final = "\x00"
"""Key of the last header's leaf among the saved digests; no field can have this name."""
KID: Final = "\x00kid"
"""Key of the last header's `kid` among the saved digests, in hexadecimal; missing without a key."""
TREE: Final = "\x00tree"
"""Key of the Merkle tree among the saved digests: its size, a colon, and its roots."""
NAME: Final = "\x00name"
"""Key of the thread's own id among the saved digests, if the thread is a copy; missing if the chain began with it."""
_NO_LEAVES: Final = "0:"
"""The value that `Chain.saved` writes under `TREE` for an empty tree."""
_LEAVES: Final = 256
"""Maximum number of new leaves that wait to be added to the tree. Bounds the memory of a long run."""


@final
class Chain:
    """The end of a thread's hash chain, to which commits are added.

    Args:
        thread: Id of the thread that the chain began with.
        digests: Result of `saved`, to continue from a snapshot; None at the beginning.
        keys: Keys of the log. None neither adds nor checks MACs.
    """

    __slots__ = ("_keys", "_labels", "_leaves", "_tree", "digests", "kid", "leaf", "name", "thread")

    def __init__(self, thread: str, digests: Mapping[str, str] | None = None, *, keys: LogKeys | None = None) -> None:
        data = dict(digests or {})
        tree = data.pop(TREE, _NO_LEAVES)
        self.thread: str = thread
        self.name: str = data.pop(NAME, thread)
        """Id of the thread to which the records belong: the last copy that they name, or the thread with which the
        chain began."""
        self.kid: bytes = bytes.fromhex(data.pop(KID, "")) or UNKEYED
        """Name of the key of the last header; `UNKEYED` without one."""
        self._tree: Tree = _read_tree(tree)
        self._leaves: list[bytes] = []
        """Leaves that are not in the tree yet. A thread that is only read does not need its tree."""
        self.digests: dict[str, bytes] = {name: bytes.fromhex(value) for name, value in data.items()}
        """Maps a field to its rolling digest: a hash over the commitments of all lines that were folded into it."""
        self._labels: list[tuple[str, bytes]] = []
        """Fields sorted by name, each with the bytes that precede its digest in the hash of the state."""
        self._keys = keys
        self.leaf: bytes = self.digests.pop(LEAF, b"") or genesis(thread)
        """Leaf of the last header, which becomes `prev` of the next one."""

    @property
    def tree(self) -> Tree:
        """The tree of all leaves so far, for snapshots and audit logs."""
        self._grow()
        return self._tree

    def _grow(self) -> None:
        """Add the waiting leaves to the tree."""
        for leaf in self._leaves:
            self._tree.add(leaf)
        self._leaves.clear()

    def saved(self) -> dict[str, str]:
        """Return the chain's data for a snapshot: digests in hexadecimal, by field, and the end of the chain."""
        data = {LEAF: self.leaf.hex()}
        if self.kid != UNKEYED:
            data[KID] = self.kid.hex()
        if self.name != self.thread:
            data[NAME] = self.name
        tree = self.tree
        data[TREE] = f"{tree.size}:{b''.join(tree.roots).hex()}"
        return {**data, **{name: value.hex() for name, value in sorted(self.digests.items())}}

    def copy(self) -> Chain:
        """Return an independent copy of the chain, to continue from here."""
        clone = Chain(self.thread, keys=self._keys)
        clone.name, clone.kid, clone.leaf, clone.digests = self.name, self.kid, self.leaf, dict(self.digests)
        clone._tree, clone._leaves = Tree(self._tree.size, self._tree.roots), [*self._leaves]
        return clone

    def agrees(self, saved: Mapping[str, str]) -> bool:
        """Return whether *saved*, from a snapshot, equals what this chain would save."""
        return self.saved() == saved

    def writable(self, *, adopt: bool = False) -> None:
        """Check, before a thread is written, that commits can be added with the available keys.

        Args:
            adopt: Allow a key for a log without one, which is authenticated from here on.

        Raises:
            InputError: The last commit was authenticated with a key that is not available (`log-key-needed`), or there
                is a key but no commit was authenticated so far (`log-not-keyed`).
        """
        check_keys(self.thread, self.kid, self._keys, adopt=adopt or self.leaf == genesis(self.thread))

    def seal(
        self,
        seq: int,
        count: int,
        at: float,
        lines: Sequence[bytes],
        written: Iterable[tuple[str, int]],
        seed: int | None,
    ) -> bytes:
        """Add a commit to the chain, and return its seal.

        Args:
            seq: Number of the commit's last entry.
            count: Number of its entries.
            at: Seconds since the epoch.
            lines: Its body without the checksum, the structure first.
            written: Fields of the state and the numbers of the lines that were folded into them, in order.
            seed: Makes the salts the same in every run (R13); None draws them at random.

        Raises:
            InputError: *at* does not fit into a header; the chain is unchanged.
        """
        try:
            # Checked before anything is hashed: an invalid time must leave the chain unchanged.
            head = _HEAD.pack(VERSION, seq, count, round(at * 1e6))
        except (error, TypeError, ValueError, OverflowError) as cause:
            raise INVALID_ARGUMENT(
                argument="The time that the clock returned",
                value=at,
                wanted="Runtime a clock that returns seconds since the epoch, as time.time does",
                known=f"times are seconds since the epoch, at most {LATEST_S:.0f} before or after it",
                seq=seq,
            ) from cause
        salts_seed = urandom(SEED_BYTES) if seed is None else _seed(seed, seq)
        keys = self._keys
        kid = UNKEYED if keys is None else keys.kid
        # `SALTS` is the label of this hash. As `seal.salts_of`, which would cost a call.
        salts = shake_256(SALTS + salts_seed).digest(SALT_BYTES * len(lines))
        state = self._extend(head, kid, _commits(lines, salts), written)
        if len(self._leaves) >= _LEAVES:
            self._grow()
        if keys is None:  # `writable` has refused a chain whose last header has a key
            return UNKEYED_BEGIN + state + self.leaf + salts_seed  # the result of `packed`
        # Computed before `kid` changes: the first record under a new key also has a MAC under the previous one.
        macs = [mac for signer in self._signers(kid) if (mac := keys.mac(signer, self.leaf)) is not None]
        self.kid = kid
        return packed(kid, state, self.leaf, macs, salts_seed)

    def check(
        self, seq: int, count: int, at: float, lines: Sequence[bytes], written: Sequence[tuple[str, int]], seal: bytes
    ) -> None:
        """Verify a stored commit against its *seal*, and add it to the chain; for *written* see `seal`.

        MACs are verified where their key is known.

        Raises:
            StoreError: The commit was changed, or is not the next one. The chain cannot be used after that.
        """
        parts: Seal | None = None
        # Most seals have no key and no erased lines: they are verified without being taken apart.
        if len(seal) == PLAIN_BYTES and seal.startswith(UNKEYED_BEGIN) and self.kid == UNKEYED:
            kid = UNKEYED
            commits = _commits(lines, shake_256(SALTS + seal[-SEED_BYTES:]).digest(SALT_BYTES * len(lines)))
        else:
            parts, commits = _opened(seal, lines, seq, count)
            kid = parts.kid
        try:
            state = self._extend(_HEAD.pack(VERSION, seq, count, round(at * 1e6)), kid, commits, written)
        except (error, ValueError, OverflowError, IndexError):  # the last: fewer lines than were written
            raise _misfit(seq, count) from None
        if seal[STATE_AND_LEAF] != state + self.leaf:
            raise _misfit(seq, count)
        if parts is not None and (kid != UNKEYED or self.kid != UNKEYED):
            signers = self._signers(kid)
            # A record without a key after one with a key would end the log's proof.
            if kid == UNKEYED or len(signers) != len(parts.macs):
                raise _misfit(seq, count)
            if self._keys is not None:
                check_macs(self._keys, signers, parts, seq)
            self.kid = kid

    def _signers(self, kid: bytes) -> tuple[bytes, ...]:
        """Return the names of the keys of a record's MACs: *kid*, and in the first record under it the previous one."""
        if kid == UNKEYED:
            return ()
        return (kid,) if self.kid in (kid, UNKEYED) else (kid, self.kid)

    def _extend(self, head: bytes, kid: bytes, commits: Sequence[bytes], written: Iterable[tuple[str, int]]) -> bytes:
        """Add a header to the chain: extend the digests of the fields that its commit wrote, then hash it.

        Args:
            head: The part of the header that needs no hash.
            kid: Name of its key.
            commits: The commitments to the lines of the commit.
            written: Fields of the state and the numbers of the lines that were folded into them, in order.

        Returns:
            The hash of the state after the commit.
        """
        digests = self.digests
        for name, number in written:
            before = digests.get(name, b"")
            # The commitment, not the line: a digest of the line itself would be unsalted and could confirm a guess of
            # it.
            digests[name] = sha256(_FIELD + before + commits[number]).digest()
        labels = self._labels
        # Fields are only ever added, so a larger count means a new one.
        if len(labels) != len(digests):
            labels = self._labels = [(name, name.encode() + b"\x00") for name in sorted(digests)]
        labelled = b""
        for name, label in labels:
            labelled += label + digests[name]
        state = sha256(labelled).digest()
        body = sha256(b"".join(commits)).digest()
        leaf = self.leaf = sha256(b"\x00" + head + kid + self.leaf + body + state).digest()
        self._leaves.append(leaf)
        return state


@final
class Links:
    """Verifies without the state that each record is unchanged since it was sealed, and follows the previous one.

    The hash of the state in a seal is not verified, because that needs everything that was ever written. MACs are not
    verified either.

    Args:
        leaf: Leaf of the record before the first one, or `genesis` of the thread. If it is None, the first record is
            verified only as far as possible without it.
        name: Id of the thread to which the records belong, as in `Chain.name`; None if it is not known.
    """

    __slots__ = ("_leaf", "name")

    def __init__(self, leaf: bytes | None, name: str | None) -> None:
        self._leaf = leaf
        self.name: str | None = name

    def check(
        self, seq: int, count: int, at: float, lines: Sequence[bytes], _written: Sequence[tuple[str, int]], seal: bytes
    ) -> None:
        """Verify the next commit; see `Chain.check`.

        Raises:
            StoreError: The commit was changed, or is not the one that follows.
        """
        parts, commits = _opened(seal, lines, seq, count)
        if self._leaf is not None and parts.leaf != leaf_of(
            seq, count, at, parts.kid, self._leaf, commits, parts.state
        ):
            raise _misfit(seq, count)
        self._leaf = parts.leaf


def genesis(thread: str) -> bytes:
    """Return the value that replaces the previous leaf in the first record of a chain that began with *thread*."""
    return sha256(_GENESIS + thread.encode()).digest()


def check_keys(thread: str, kid: bytes, keys: LogKeys | None, *, adopt: bool) -> None:
    """Check that a record may follow one that was authenticated with the key *kid*, given the available *keys*.

    Args:
        adopt: Allow a key for a log without one.

    Raises:
        InputError: *kid* is not available (`log-key-needed`), or there is a key but no record has one
            (`log-not-keyed`).
    """
    if keys is not None and kid == UNKEYED and not adopt:
        raise LOG_NOT_KEYED(thread=thread)
    if kid != UNKEYED and (keys is None or keys.mac(kid, b"") is None):
        raise LOG_KEY_NEEDED(thread=thread, kid=kid.hex())


def next_seal(
    last: Seal, keys: LogKeys | None, seq: int, at: float, lines: Sequence[bytes], seed: int | None = None
) -> bytes:
    """Return the seal of a record with one entry that does not change the state.

    It only needs the previous record's seal, and neither the graph nor the values of the thread.

    Args:
        last: The seal of the record before.
        keys: Keys of the log; None without any.
        seq: Number of the entry.
        at: Seconds since the epoch.
        lines: The body without the checksum.
        seed: Makes the salts the same each time; None draws them at random.
    """
    kid, before = keys.kid if keys is not None else UNKEYED, last.kid
    salts_seed = urandom(SEED_BYTES) if seed is None else _seed(seed, seq)
    leaf = leaf_of(seq, 1, at, kid, last.leaf, _commits(lines, salts_of(salts_seed, len(lines))), last.state)
    signers = () if keys is None else (kid,) if before in (kid, UNKEYED) else (kid, before)
    macs = [mac for signer in signers if keys is not None and (mac := keys.mac(signer, leaf)) is not None]
    return packed(kid, last.state, leaf, macs, salts_seed)


def _opened(seal: bytes, lines: Sequence[bytes], seq: int, count: int) -> tuple[Seal, list[bytes]]:
    """Parse the *seal* of a record, and return it with the commitments to the record's *lines*.

    Raises:
        StoreError: It is not a seal for this number of lines, or a line that it marks as erased still has its value.
    """
    parts = parsed(seal, len(lines))
    if parts is None:
        raise _misfit(seq, count)
    commits = _kept_commits(lines, parts.kept) if parts.kept else _commits(lines, parts.salts)
    if commits is None:
        raise _misfit(seq, count)
    return parts, commits


def _kept_commits(lines: Sequence[bytes], pairs: Sequence[tuple[bytes, bytes]]) -> list[bytes] | None:
    """Return the commitments to *lines*; None if a line marked as erased still has its value.

    Args:
        pairs: A pair for each line: its salt and b"", or b"" and its commitment if it was erased.
    """
    if any(commitment and line != ERASED_LINE for (_, commitment), line in zip(pairs, lines, strict=True)):
        return None
    return [
        commitment or sha256(COMMIT + salt + line).digest()
        for (salt, commitment), line in zip(pairs, lines, strict=True)
    ]


def _commits(lines: Sequence[bytes], salts: bytes) -> list[bytes]:
    """Return the commitments to *lines*; *salts* contains all salts, concatenated."""
    # A loop, because a comprehension costs a call before CPython 3.12 (PEP 709), and this runs for every record.
    commitments: list[bytes] = []
    begin = 0
    for line in lines:
        end = begin + SALT_BYTES
        commitments.append(sha256(COMMIT + salts[begin:end] + line).digest())
        begin = end
    return commitments


def leaf_of(seq: int, count: int, at: float, kid: bytes, prev: bytes, commits: Sequence[bytes], state: bytes) -> bytes:
    """Return the leaf of a header; empty if the numbers do not fit, so that no seal matches."""
    try:
        head = _HEAD.pack(VERSION, seq, count, round(at * 1e6))
    except (error, ValueError, OverflowError):
        return b""
    body = sha256(b"".join(commits)).digest()
    return sha256(b"\x00" + head + kid + prev + body + state).digest()


def check_macs(keys: LogKeys, signers: Sequence[bytes], seal: Seal, seq: int) -> None:
    """Check the MACs of a seal by the names of their keys. MACs whose key is not available are not checked.

    Raises:
        StoreError: A MAC does not match.
    """
    for kid, mac in zip(signers, seal.macs, strict=True):
        own = keys.mac(kid, seal.leaf)
        if own is not None and not compare_digest(own, mac):
            raise STORE_DAMAGED(
                problem=f"Entry {seq} of the journal was not written with the key {kid.hex()}: its MAC does not match",
                seq=seq,
                known="its hash matches, so it was changed by a party that knows the format and does not have the key; "
                "graphrt.audit.verify() says what is still proved",
            )


def _read_tree(saved: str) -> Tree:
    """Return the tree that `Chain.saved` wrote under `TREE`: size, colon, and roots of 32 bytes in hexadecimal."""
    size, _, roots = saved.partition(":")
    data = bytes.fromhex(roots)
    return Tree(int(size), [data[at : at + 32] for at in range(0, len(data), 32)])


def _misfit(seq: int, count: int) -> StoreError:
    """Return the error for a record of *count* entries, the last of them *seq*, that does not fit its seal."""
    return STORE_DAMAGED(
        problem=f"Entry {seq} of the journal is not what was written: its seal does not match",
        seq=seq,
        fix="Restore the database from a backup, or fork the thread from an entry before it." if seq > count else None,
        known=f"entries before {seq - count + 1} are as they were written" if seq > count else "it is the first",
    )


def _seed(seed: int, seq: int) -> bytes:
    """Return the seed of a record's salts in a seeded run. Anyone with the run's seed can confirm a guess of a line."""
    return shake_256(f"graphrt/salt/{seed}/{seq}".encode()).digest(SEED_BYTES)
