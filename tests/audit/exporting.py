"""Exports a thread of a store in the portable form, written only from the specification of the form."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphrt._journal.merkle import Tree
from graphrt.stores.protocol import Store

BLOB = re.compile(rb'\{"\$t":"blob","v":"([0-9a-f]{64})"\}')
ERASED = b'{"$t":"erased","v":null}'
LEAF = slice(42, 74)
SALTS = b"graphrt/salts/v2\x00"


def canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def leaf_of(seal: bytes) -> bytes:
    return seal[LEAF]


def kid_of(root: bytes) -> bytes:
    return hmac.digest(root, b"graphrt/kid/v1\x00", "sha256")[:8]


def key_of(root: bytes, log: str) -> bytes:
    secret = hmac.digest(bytes(32), root, "sha256")
    return hmac.digest(secret, b"graphrt/log-key/v1\x00" + log.encode() + b"\x01", "sha256")


def head(log: str, thread: str, seq: int, at: int, tree: Tree, key: bytes | None) -> dict[str, Any]:
    """A head of *tree*, authenticated with the root key *key*."""
    signed = b"graphrt/head/v1\x00" + struct.pack(">QQq", tree.size, seq, at) + tree.root() + thread.encode()
    return {
        "at": at,
        "kid": kid_of(key).hex() if key else "",
        "log": log,
        "mac": hmac.digest(key_of(key, log), signed, "sha256").hex() if key else "",
        "root": tree.root().hex(),
        "seq": seq,
        "size": tree.size,
        "thread": thread,
    }


def snapshot_digests(snapshot: bytes) -> dict[str, str]:
    """The chain in a snapshot: the seventeenth field of its only event."""
    [[_, _, *form]] = json.loads(snapshot.split(b"\n")[0])[5]
    digests: dict[str, str] = form[16]
    return digests


def record(seq: int, count: int, lines: Sequence[bytes], seal: bytes) -> bytes:
    texts = [line.decode() for line in lines]
    return canonical({"count": count, "lines": texts, "seal": base64.b64encode(seal).decode(), "seq": seq})


def withheld(lines: Sequence[bytes], seal: bytes, gone: Iterable[int]) -> tuple[list[bytes], bytes]:
    """The lines without those of the numbers *gone*, and the matching seal."""
    end = 74 + 32 * seal[1]
    salts = hashlib.shake_256(SALTS + seal[end:]).digest(16 * len(lines))
    kept, rest = list(lines), b""
    for number, line in enumerate(lines):
        salt = salts[16 * number : 16 * number + 16]
        if number in gone:
            kept[number] = ERASED
            rest += b"\x01" + hashlib.sha256(b"graphrt/commit/v1\x00" + salt + line).digest()
        else:
            rest += b"\x00" + salt
    return kept, b"\x82" + seal[1:end] + rest


def exported(
    store: Store,
    thread: str,
    *,
    key: Callable[[int], bytes | None] = lambda _: None,
    every: int = 0,
    gone: Mapping[int, Iterable[int]] | None = None,
) -> Iterator[bytes]:
    """The lines of the log of *thread*.

    Args:
        key: Root key for the head after an entry.
        every: Number of records between two heads; 0 writes none. The last record always has one.
        gone: Lines to be withheld, by the last entry of their record.
    """
    loaded = store.load(thread)
    meta = json.loads(loaded.meta)
    log, after = meta["chained"], loaded.head.first - 1
    yield canonical({"form": "graphrt-audit/2", "log": log, "thread": thread})
    tree = Tree()
    if after:
        saved = store.load(thread, upto=after).snapshot
        assert saved is not None
        digests = snapshot_digests(saved.body)
        size, _, roots = digests["\x00tree"].partition(":")
        tree = Tree(int(size), [bytes.fromhex(roots[at : at + 64]) for at in range(0, len(roots), 64)])
        yield canonical({"begin": {"digests": digests, "seq": after}})
    records = list(store.records(thread, after=after))
    introduced = {name for one in records for name in json.loads(one.body.split(b"\n")[0])[4]}
    yield canonical({"names": [name for name in meta["names"] if name not in introduced]})
    seen: set[str] = set()
    for number, one in enumerate(records, 1):
        lines = one.body.split(b"\n")[:-1]
        seal = one.seal
        if gone and one.seq in gone:
            lines, seal = withheld(lines, seal, gone[one.seq])
        for name in dict.fromkeys(name.decode() for name in BLOB.findall(b"\n".join(lines))):
            if name not in seen:
                seen.add(name)
                value = store.blobs(thread, [name])[name]
                as_text = canonical({"blob": name, "text": value.decode()})
                as_data = canonical({"blob": name, "data": base64.b64encode(value).decode()})
                yield as_text if len(as_text) <= len(as_data) else as_data
        yield record(one.seq, one.count, lines, seal)
        tree.add(leaf_of(one.seal))
        if every and (number % every == 0 or number == len(records)):
            at = round(json.loads(lines[0])[1] * 1e6) + 1
            yield canonical({"head": head(log, thread, one.seq, at, tree, key(one.seq))})


def heads_of(log: Iterable[bytes]) -> list[bytes]:
    return [line for line in log if line.startswith(b'{"head":')]
