"""Verifies an audit log in its portable form, and proofs taken from one, using only the standard library.

This file does not import graphrt, so an auditor can copy it and run it on its own:

    python offline.py LOG.jsonl --key-file KEY --anchor HEADS.jsonl

`docs/reference/audit-log.md` describes the form. Everything is recomputed from the bytes of the file; nothing that the
file says about itself is trusted. Memory holds one line at a time, and 40 bytes for each record before it.

Up to the first error, each record is checked in full: its number, its lines, its link to the previous record, the state
after it and its MAC. From then on the state is unknown, so the hash of the state in the seal is used unchanged. The
other checks continue, to report which of the later records are damaged too.

This file only reads and judges; `proofs` makes proofs.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import re
import struct
import sys
from array import array
from binascii import a2b_base64, b2a_base64
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from io import BytesIO
from itertools import islice
from os import PathLike, fspath
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias, final

FORM: Final = "graphrt-audit/2"
INCLUSION: Final = "graphrt-inclusion/1"
CONSISTENCY: Final = "graphrt-consistency/1"
MOST_BYTES: Final = 1 << 28
"""Maximum length of a line."""
MOST_FINDINGS: Final = 100
"""Number of findings after which a finding whose slug was already reported is only counted."""
_ERASED: Final = b'{"$t":"erased","v":null}'
_VERSION: Final = 2
_VERSIONS: Final = (_VERSION, 0x82)
"""Versions of seals; the highest bit means that the record has erased lines."""
_BLOB: Final = re.compile(rb'\{"\$t":"blob","v":"([0-9a-f]{64})"\}')
_UNKEYED: Final = bytes(8)
_HEX64: Final = re.compile(r"[0-9a-f]{64}")
_STATE_NAMES: Final = 15
"""Index of the names among the fields of a snapshot."""
_STATE_DIGESTS: Final = 16
_RECORD: Final = {"count", "lines", "seal", "seq"}
_HEAD: Final = frozenset({"at", "kid", "log", "mac", "root", "seq", "size", "thread"})
_SIGNED: Final = _HEAD | {"signature", "signer"}
_KID: Final = re.compile("[0-9a-f]{16}")
_ENCODED: Final = re.compile(rb"[0-9A-Za-z+/=_-]{32,}\s*")
"""A key in text form."""
KEY_BYTES: Final = 32
"""Minimum number of bytes of a key."""
_DISTINCT: Final = 12
"""Minimum number of distinct bytes of a key: 32 random bytes have fewer with a probability of 10^-17."""
_SAMPLES: Final = (b"a-string-secret-at-least-256-bits-long", b"abcdefghijklmnopqrstuvwxyz123456")
"""Sample keys of 32 bytes or more from documentation."""
BAD_DATA: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, struct.error)
"""Exceptions that Python raises for data of an unexpected form."""

CheckSignature: TypeAlias = Callable[[bytes, bytes, bytes], "bool | None"]
"""Takes a public key, a signature and the signed bytes; returns whether they match, None for an untrusted key."""
Source: TypeAlias = "str | PathLike[str] | bytes | BinaryIO"
"""A path, the bytes themselves, or a binary file."""


class Verdict(str, Enum):  # noqa: UP042 - `StrEnum` formats differently from plain strings in older tools
    """What an auditor has to do with a log. The slug of a finding gives details."""

    SOUND = "sound"
    """Accept it: all of it is proved, except the values that were erased lawfully."""
    UNANCHORED = "unanchored"
    """Get a newer anchor: nothing is wrong, but nothing proves that the end is complete."""
    INCOMPLETE = "incomplete"
    """Wait or ask: nothing is wrong, but the log has no proper end or its key proves nothing."""
    WRONG_KEY = "wrong-key"
    """Get the right key."""
    UNREADABLE = "unreadable"
    """Get the right file, or a newer verifier."""
    WITHHELD = "withheld"
    """Ask for the missing values: nothing is wrong, but no record says that they were erased."""
    MISSING = "missing"
    """Ask for the missing records."""
    ALTERED = "altered"
    """Do not trust the first record in doubt or anything after it."""

    @property
    def exit_code(self) -> int:
        """0: proved. 3: nothing is wrong, but not all of it is proved. 2: it cannot be checked. 1: it was changed."""
        return _EXIT_CODES[self]


_EXIT_CODES: Final = {
    Verdict.SOUND: 0,
    Verdict.UNANCHORED: 3,
    Verdict.INCOMPLETE: 3,
    Verdict.WRONG_KEY: 2,
    Verdict.UNREADABLE: 2,
    Verdict.WITHHELD: 3,
    Verdict.MISSING: 1,
    Verdict.ALTERED: 1,
}
VERDICTS: Final = {
    "sound": Verdict.SOUND,
    "redacted": Verdict.SOUND,
    "open-run": Verdict.INCOMPLETE,
    "tail-unanchored": Verdict.UNANCHORED,
    "unanchored": Verdict.UNANCHORED,
    "weak-key": Verdict.INCOMPLETE,
    "torn": Verdict.INCOMPLETE,
    "withheld": Verdict.WITHHELD,
    "key-missing": Verdict.WRONG_KEY,
    "wrong-key": Verdict.WRONG_KEY,
    "newer-form": Verdict.UNREADABLE,
    "unreadable": Verdict.UNREADABLE,
    "truncated": Verdict.MISSING,
    "unkeyed": Verdict.ALTERED,
    "another-log": Verdict.ALTERED,
    "misnamed": Verdict.ALTERED,
    "forked": Verdict.ALTERED,
    "missing": Verdict.MISSING,
    "reordered": Verdict.ALTERED,
    "duplicated": Verdict.ALTERED,
    "altered": Verdict.ALTERED,
}
"""The verdict of each slug, which describes the finding in more detail.

Ordered by severity: a log gets the worst slug among its findings, and the verdict of that slug."""
_RANKS: Final = {slug: rank for rank, slug in enumerate(VERDICTS)}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem found in a log."""

    verdict: Verdict
    slug: str
    """A key of `VERDICTS`."""
    message: str
    """A sentence."""
    line: int | None = None
    """Number of the line in the file, from 1."""
    record: int | None = None
    """Number of the record in the file, from 1: the first record that this finding puts in doubt."""
    seq: int | None = None
    """The first entry that this finding puts in doubt."""
    where: str = "log"
    """`log`, `anchor` or `proof`."""

    @property
    def changed(self) -> bool:
        """Whether the finding means that something was changed."""
        return self.verdict.exit_code == 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a verification, and what is proved despite its findings."""

    verdict: Verdict
    slug: str
    """The finding that decided the verdict."""
    findings: tuple[Finding, ...] = ()
    """All findings in file order; after `MOST_FINDINGS`, only those with new slugs."""
    more_findings: int = 0
    """Number of findings left out of `findings`."""
    proved: str = "Nothing is proved."
    """A sentence about the finding."""
    log: str = ""
    thread: str = ""
    records: int = 0
    """Records in the file that could be read."""
    proved_records: int = 0
    """Number of records from the beginning that are as they were written."""
    proved_seq: int = 0
    """The last entry of those records."""
    authenticated_seq: int = 0
    """The last entry whose MAC was verified; 0 without a key."""
    anchored_seq: int = 0
    """The last entry that an anchored head proves; 0 without one."""
    heads: int = 0
    """Number of heads in the file that match."""
    erased_values: int = 0
    """Number of values that were erased lawfully; the proved records state who erased them, and why."""
    erased_lines: int = 0
    """Number of lines that are missing from the file; the records still have their commitments."""
    withheld_lines: int = 0
    """Number of those lines that no record reports as erased."""
    absent_blobs: int = 0
    """Number of large values that records name by their hashes and that are missing from the file."""

    @property
    def exit_code(self) -> int:
        """The exit code of the script; see `Verdict.exit_code`."""
        return self.verdict.exit_code

    @property
    def first(self) -> Finding | None:
        """The finding that decided the verdict; None if there is none."""
        return next((finding for finding in self.findings if finding.slug == self.slug), None)

    @property
    def first_bad(self) -> int | None:
        """Number of the first record that a change puts in doubt; None if nothing was changed."""
        return min((finding.record or 1 for finding in self.findings if finding.changed), default=None)

    @property
    def sentence(self) -> str:
        """The verdict in plain words, and what is proved."""
        label = self.verdict.value if self.slug == self.verdict.value else f"{self.verdict.value} ({self.slug})"
        message = self.first.message if self.first is not None else "Everything fits."
        return f"{label}: {message} {self.proved}"

    def as_json(self) -> str:
        """Return the report as JSON."""
        return json.dumps({**asdict(self), "sentence": self.sentence, "exit_code": self.exit_code}, ensure_ascii=True)


# --------------------------------------------------------------------------------------------------------- primitives


def _sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def kid_of(root: bytes) -> bytes:
    """Return the name of a root key."""
    return hmac.digest(root, b"graphrt/kid/v1\x00", "sha256")[:8]


def key_of(root: bytes, log: str) -> bytes:
    """Return the key of one log: HKDF-SHA256 (RFC 5869) without salt."""
    secret = hmac.digest(bytes(32), root, "sha256")
    return hmac.digest(secret, b"graphrt/log-key/v1\x00" + log.encode() + b"\x01", "sha256")


def genesis(log: str) -> bytes:
    """Return the value of `prev` in the first header of a log."""
    return _sha(b"graphrt/journal/v1\x00", log.encode())


def weakness(root: bytes) -> str:
    """Return the reason why a key can be guessed; empty if it cannot."""
    if len(root) < KEY_BYTES:
        return f"too short: it has {len(root)} bytes, fewer than {KEY_BYTES}"
    if root in _SAMPLES:
        return "a sample from documentation"
    if len(set(root)) < _DISTINCT:
        return f"not random: it has only {len(set(root))} different bytes"
    return ""


def _joined(left: bytes, right: bytes) -> bytes:
    return _sha(b"\x01", left, right)


def _grow(roots: list[bytes], size: int, leaf: bytes) -> None:
    """Add a leaf to a Merkle tree (RFC 9162) of *size* leaves, represented by the roots of its complete subtrees."""
    while size & 1:
        leaf = hashlib.sha256(b"\x01" + roots.pop() + leaf).digest()
        size >>= 1
    roots.append(leaf)


def _root(roots: Sequence[bytes]) -> bytes:
    node = roots[-1] if roots else _sha()
    for left in reversed(roots[:-1]):
        node = _joined(left, node)
    return node


_dumps: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_dumps_as_is: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:20]} is not an integer")


_loads: Final = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse).decode
_loads_structure: Final = json.JSONDecoder(parse_constant=_refuse).decode


def parse(line: bytes) -> dict[str, Any]:
    """Parse a canonical line, and return its object.

    Raises:
        ValueError: It is not a JSON object, or not written canonically (RFC 8785).
    """
    try:
        value = _loads(line.decode())
        if value.__class__ is not dict:
            raise ValueError("it is not an object")
        begin = value.get("begin")
        if begin.__class__ is dict and begin.get("digests").__class__ is dict:
            # The only object whose keys come from users. RFC 8785 sorts by UTF-16 code units, Python by code points.
            names = sorted(begin["digests"], key=lambda name: name.encode("utf-16-be"))
            begin = dict(sorted({**begin, "digests": {name: begin["digests"][name] for name in names}}.items()))
            same = _dumps_as_is({**value, "begin": begin})
        else:
            same = _dumps(value)
        if same.encode() != line:
            raise ValueError("it is not in canonical form")
    except (RecursionError, MemoryError) as error:
        raise ValueError("it is nested too deeply") from error
    return value


def _int(value: Any, least: int = 0, most: int = (1 << 64) - 1) -> int:
    if value.__class__ is not int or not least <= value <= most:
        raise ValueError("a number is missing or out of range")
    return value


def _text(value: Any) -> str:
    if value.__class__ is not str:
        raise ValueError("a text is missing")
    return value


def _hex(value: Any) -> bytes:
    if not _HEX64.fullmatch(_text(value)):
        raise ValueError("a hash is missing")
    return bytes.fromhex(value)


def _base64(value: Any) -> bytes:
    data = a2b_base64(_text(value), strict_mode=True)
    if b2a_base64(data, newline=False).decode() != value:
        raise ValueError("it is not canonical base64")
    return data


# -------------------------------------------------------------------------------------------------------------- seals


@final
class Sealed:
    """A record with its seal parsed.

    Raises:
        ValueError: It does not have the form of a record.
    """

    version: int
    kid: bytes
    state: bytes
    leaf: bytes
    macs: tuple[bytes, ...]
    commits: list[bytes]
    erased: tuple[int, ...]

    def __init__(self, value: Mapping[str, Any]) -> None:
        if set(value) != _RECORD:
            raise ValueError("it is not a record")
        self.seq: int = _int(value["seq"], 1)
        self.count: int = _int(value["count"], 1, (1 << 32) - 1)
        self.lines: list[bytes] = [line.encode() for line in value["lines"]]
        lines = self.lines
        if not lines or self.count > self.seq or value["lines"].__class__ is not list:
            raise ValueError("it is not a record")
        self._structure(lines[0])
        self._seal(lines, _base64(value["seal"]))

    def _structure(self, line: bytes) -> None:
        structure: Any = _loads_structure(line.decode())
        if structure.__class__ is not list:
            raise ValueError("its structure cannot be read")
        version: Any
        at: Any
        version, at, _, _, *rest = structure
        self.names: Any = rest[0]
        self.entries: Any = rest[1]
        self.more: list[Any] = rest[2:]
        self.newer: bool = _int(version, 4) > 4
        """Whether the structure has a form that this verifier does not know."""
        if at.__class__ not in (int, float):
            raise ValueError("it has no time")
        self.at: int = round(at * 1e6)

    def _seal(self, lines: list[bytes], seal: bytes) -> None:
        self.version, number, self.kid, self.state, self.leaf = struct.unpack_from(">BB8s32s32s", seal)
        end = 74 + 32 * number
        self.macs = tuple(seal[at : at + 32] for at in range(74, end, 32))
        rest = seal[end:]
        if self.version & 0x80:
            self._with_erased(lines, rest)
            return
        if len(rest) != 16 or number > 2:
            raise ValueError("its seal has another length")
        salts = hashlib.shake_256(b"graphrt/salts/v2\x00" + rest).digest(16 * len(lines))
        sha256 = hashlib.sha256
        self.commits = [
            sha256(b"graphrt/commit/v1\x00" + salts[16 * at : 16 * at + 16] + line).digest()
            for at, line in enumerate(lines)
        ]
        self.erased = ()

    def _with_erased(self, lines: list[bytes], rest: bytes) -> None:
        """Parse the commitments in the seal of a record with erased lines."""
        kept: list[bytes] = []
        erased: list[int] = []
        for number, line in enumerate(lines):
            kind, rest = rest[:1], rest[1:]
            size = 16 if kind == b"\x00" else 32
            if kind not in (b"\x00", b"\x01") or len(rest) < size or (kind == b"\x01" and line != _ERASED):
                raise ValueError("its seal does not fit an erased line")
            part, rest = rest[:size], rest[size:]
            kept.append(part if kind == b"\x01" else _sha(b"graphrt/commit/v1\x00", part, line))
            if kind == b"\x01":
                erased.append(number)
        if rest or not erased:
            raise ValueError("its seal does not fit an erased line")
        self.commits, self.erased = kept, tuple(erased)

    def header_leaf(self, seq: int, count: int, prev: bytes, state: bytes) -> bytes:
        """Return the leaf of the header with these numbers and hashes."""
        body = hashlib.sha256(b"".join(self.commits)).digest()
        head = struct.pack(">BQIq", _VERSION, seq, count, self.at)
        return hashlib.sha256(b"\x00" + head + self.kid + prev + body + state).digest()

    def written(self) -> Iterator[tuple[int, int]]:
        """Yield the name number and the line number of each value that is folded into a field, in order."""
        for code, path, *fields in self.entries:
            if path:
                continue  # a nested graph: its writes count when they reach the top-level graph
            updates: Any = ()
            if code == 8 and len(fields) > 1:
                updates = fields[1]
            elif code == 1:
                updates = fields[4:5]
            elif code == 14:
                updates = fields[:1]
            elif code == 17:
                updates = fields[3:4]
            elif code == 27:
                updates = fields[8:9]
            elif code == 16:  # the state at the start of a fork, which contains pending outcomes
                state = fields[2]
                held = state[19] if len(state) > 19 else None
                wrote = [outcome for outcome in held or () if outcome[0] == 8 and len(outcome) > 2]
                updates = [state[0], *(one for outcome in wrote for one in outcome[2] or ())]
            for update in updates or ():
                each = iter(update or ())
                for name in each:
                    yield _int(name), _int(next(each, None), 1)


class TreeHead(NamedTuple):
    """The end of a log at one point in time.

    Anyone who keeps it can later check whether an earlier part of the log was cut or changed.

    It holds no values of the state.
    """

    log: str
    """Id of the thread in which the log began; for a copied thread, the id of its source."""
    thread: str
    """Id of the thread."""
    seq: int
    """Number of the last entry."""
    size: int
    """Number of records so far."""
    root: bytes
    """Root of the Merkle tree over the records' leaves (RFC 9162); 32 bytes."""
    at: int
    """Time of the last record, in microseconds since the epoch."""
    kid: str = ""
    """Name of the key that the head is authenticated with, in hexadecimal; empty without a key."""
    mac: bytes = b""
    """HMAC-SHA256 of all fields above; empty without a key."""
    signature: bytes = b""
    """Ed25519 signature of the same fields; empty if the head is not signed. See `graphrt.audit.signing`."""
    signer: bytes = b""
    """Public key of the signature."""

    @classmethod
    def from_dict(cls, data: Any) -> TreeHead:
        """Return the head from the result of `to_dict`.

        Raises:
            ValueError: It is not a head.
        """
        if data.__class__ is not dict or data.keys() not in (_HEAD, _SIGNED):
            raise ValueError("it is not a head")
        keyed = data["kid"] != "" or data["mac"] != ""
        signed = "signer" in data
        if keyed and not _KID.fullmatch(_text(data["kid"])):
            raise ValueError("it is not a head")
        if signed and len(_base64(data["signature"])) != 64:
            raise ValueError("its signature has another length")
        return cls(
            log=_text(data["log"]),
            thread=_text(data["thread"]),
            seq=_int(data["seq"], 1),
            size=_int(data["size"], 1),
            root=_hex(data["root"]),
            at=_int(data["at"], -(1 << 63), (1 << 63) - 1),
            kid=data["kid"],
            mac=_hex(data["mac"]) if keyed else b"",
            signature=_base64(data["signature"]) if signed else b"",
            signer=_hex(data["signer"]) if signed else b"",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the head as JSON-ready data, in the form used by logs and anchor files."""
        data = {**self._asdict(), "root": self.root.hex(), "mac": self.mac.hex()}
        if not self.signature:
            del data["signature"], data["signer"]
            return data
        return {**data, "signature": b2a_base64(self.signature, newline=False).decode(), "signer": self.signer.hex()}

    def signed(self) -> bytes:
        """Return the bytes that its MAC and its signature cover."""
        numbers = struct.pack(">QQq", self.size, self.seq, self.at)
        return b"graphrt/head/v1\x00" + numbers + self.root + self.thread.encode()


# ------------------------------------------------------------------------------------------------------- verification


@final
class _Keys:
    """The keys of the caller, derived for one log."""

    def __init__(self, log: str, roots: Iterable[bytes]) -> None:
        self.roots = {kid_of(root): root for root in roots}
        self._derived = {kid: key_of(root, log) for kid, root in self.roots.items()}
        self.used: set[bytes] = set()
        """Names of the keys that were used in a check."""

    def fits(self, kid: bytes, data: bytes, mac: bytes) -> bool | None:
        """Return whether *mac* is the MAC of *data*; None if there is no such key."""
        key = self._derived.get(kid)
        if key is None:
            return None
        self.used.add(kid)
        return hmac.compare_digest(hmac.digest(key, data, "sha256"), mac)

    def any_fits(self, data: bytes, mac: bytes) -> bool:
        """Return whether *mac* is the MAC of *data* under any of the keys."""
        return any(hmac.compare_digest(hmac.digest(key, data, "sha256"), mac) for key in self._derived.values())


class _Place(NamedTuple):
    """Location of a finding. 0 means the current position: this line, and the first entry of the next record."""

    line: int = 0
    record: int = 0
    seq: int = 0


_HERE: Final = _Place()
_BEGIN: Final = _Place(record=1, seq=1)


@final
class _Check:
    """One verification of a log: the chain so far, and the findings."""

    def __init__(
        self, roots: Sequence[bytes], anchored: Sequence[tuple[int, TreeHead]], signature: CheckSignature | None = None
    ) -> None:
        self._roots, self._anchored, self._check_signature = roots, anchored, signature
        self._signed: dict[str, list[int]] = {}
        """The findings about signatures of heads, and the entries of those heads."""
        self.findings: list[Finding] = []
        self.more_findings = 0
        self.log = self.thread = self._name = ""
        self.line = self.records = self.heads = self.proved = self.proved_seq = 0
        self.authenticated_seq = self.anchored_seq = self.seq = 0
        self._keys = _Keys("", ())
        self._exact = True
        """Whether everything so far is unchanged since it was written, so that the digests of the fields are known."""
        self._leaf: bytes | None = None
        """Leaf of the last record; None if a record is missing before the next one."""
        self._kid: bytes | None = _UNKEYED
        self._digests: dict[str, bytes] = {}
        self._order: list[tuple[str, bytes]] = []
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._told: int | None = 0
        """Number of names that the records account for; None if no record vouches for the first names."""
        self._tree: list[bytes] | None = []
        self._size = self._begun = 0
        self._pruned = 0
        """The entry up to which the log was pruned, until a record reports it."""
        self._seqs, self._leaves = array("Q"), bytearray()
        self._gaps: list[list[int]] = []
        """First and last missing entry, line, record, and the number of these entries that were found later."""
        self._blobs: set[str] = set()
        self._fresh: dict[str, int] = {}
        """Large values with their lines, until the record that names them."""
        self._absent: set[str] = set()
        self._erased: dict[int, tuple[int, ...]] = {}
        """Numbers of the missing lines, by the last entry of their record."""
        self._lawful: dict[int, set[int]] = {}
        """Lines that an entry reports as erased, in the same form."""
        self._erased_values = 0
        self._forged: list[_Place] = []
        self._genuine = 0
        """Number of records whose MAC is correct."""
        self._unknown: dict[bytes, _Place] = {}
        """Keys that were not given, with the first record that uses each."""
        self._head_lines: set[bytes] = set()
        """Hashes of the heads so far."""
        self._seen_heads: set[int] = set()
        self._anchors: dict[int, list[tuple[int, TreeHead]]] = {}
        self._anchored_records = 0
        self._agreeing: list[int] = []
        """Entries with an anchored head that matches."""
        self._open = self._recovering = False
        self._snapshot: tuple[int, str] | None = None
        """Entry and hash of the snapshot that the log begins with, until a record vouches for it."""
        self._snapshot_names: list[str] = []
        """The names that the snapshot lists."""
        self._beside: dict[str, str] = {}
        """Keys of the staged bodies that records vouch for, with the end of each body."""

    def find(self, slug: str, message: str, at: _Place = _HERE, where: str = "log") -> None:
        """Add a finding, at the next record unless *at* says otherwise."""
        if len(self.findings) >= MOST_FINDINGS and any(finding.slug == slug for finding in self.findings):
            self.more_findings += 1  # but each slug is in `findings`, so the worst one is never hidden
            return
        self.findings.append(
            Finding(
                verdict=VERDICTS[slug],
                slug=slug,
                message=message,
                line=at.line or self.line or None,
                record=at.record or self.records + 1,
                seq=at.seq or self.seq + 1,
                where=where,
            )
        )

    def _break(self, slug: str, message: str, at: _Place = _HERE) -> None:
        self.find(slug, message, at)
        self._exact = False

    # ------------------------------------------------------------------------------------------------------- lines

    def read(self, lines: Iterator[tuple[bytes, bool]]) -> bool:
        """Read the whole file; False if it is not a log that can be read."""
        for line, ended in lines:
            self.line += 1
            if not ended:
                if len(line) > MOST_BYTES:
                    self._break("unreadable", f"Line {self.line} is longer than {MOST_BYTES} bytes.")
                    return self.line > 1
                self.find(
                    "torn" if self.line > 1 else "unreadable",
                    f"Line {self.line} is incomplete, as after a crash or a cut.",
                )
                return self.line > 1
            try:
                value = parse(line)
                self._one(value, line)
            except BAD_DATA as error:
                if self.line == 1:
                    self.find("unreadable", f"It is not an audit log: {str(error)[:100]}.")
                    return False
                self._break("altered", f"Line {self.line} is damaged: {str(error)[:100]}.")
            if not self.thread and not self.log and self.line == 1:
                return False
        if not self.line:
            self.find("unreadable", "The file is empty.")
        return self.line > 0

    def _one(self, value: dict[str, Any], line: bytes) -> None:
        if self.line == 1:
            self._first(value)
        elif "seal" in value:
            self._record(value)
        elif len(value) != 1:
            self._blob(value)
        else:
            [(kind, told)] = value.items()
            read = {
                "head": self._head,
                "names": self._names_line,
                "begin": self._begin,
                "recovered": self._recovered,
                "staged": self._staged,
            }[kind]
            read(told, line)

    def _first(self, value: dict[str, Any]) -> None:
        form = _text(value["form"])
        if re.fullmatch(r"graphrt-audit/[1-9]\d{0,5}", form) and form != FORM:
            if int(form.rpartition("/")[2]) < int(FORM.rpartition("/")[2]):
                self.find("unreadable", f"The log has the form {form}, which an unreleased version of graphrt wrote.")
            else:
                self.find("newer-form", f"The log has the form {form}, which is newer than {FORM}.")
            return
        if form != FORM or value.keys() != {"form", "log", "thread"} or not value["log"] or not value["thread"]:
            raise ValueError("its first line does not name form, log and thread")
        self.log, self.thread = _text(value["log"]), _text(value["thread"])
        self._name = self.log
        self._leaf = genesis(self.log)
        self._keys = _Keys(self.log, self._roots)
        for number, head in self._anchored:
            if (head.log, head.thread) == (self.log, self.thread):
                if self._head_mac(head) is False:
                    self.find(
                        "altered",
                        f"The head of entry {head.seq} in the anchor was changed: its MAC is wrong.",
                        _Place(number, 1),
                        "anchor",
                    )
                else:
                    self._signature(head, line=number, where="anchor")
                    self._anchors.setdefault(head.size, []).append((number, head))

    def _begin(self, told: Any, _line: bytes) -> None:
        if self.seq or self._names or told.keys() not in ({"digests", "seq"}, {"digests", "seq", "snapshot"}):
            raise ValueError("a log begins only once")
        digests = dict(told["digests"])
        if "snapshot" in told:
            self._begin_with(_text(told["snapshot"]), digests, _int(told["seq"], 1))
        tree = _text(digests.pop("\x00tree"))
        self._kid = bytes.fromhex(_text(digests.pop("\x00kid", "00" * 8)))
        self._leaf = _hex(digests.pop("\x00"))
        self._name = _text(digests.pop("\x00name", self.log))
        self._digests = {name: _hex(digest) for name, digest in digests.items()}
        self.seq = self._pruned = _int(told["seq"], 1)
        self._told = None
        size, _, roots = tree.partition(":")
        data = bytes.fromhex(roots)
        self._tree = [data[at : at + 32] for at in range(0, len(data), 32)]
        self._size = self._begun = int(size)
        if f"{self._size}:{data.hex()}" != tree or len(data) != 32 * self._size.bit_count():
            raise ValueError("it has no Merkle tree")
        self._reached()

    def _begin_with(self, snapshot: str, digests: Mapping[str, str], seq: int) -> None:
        """Read the snapshot at the start of a log. It is not trusted until a record vouches for it."""
        lines = snapshot.split("\n")
        [entry] = _loads_structure(lines[0])[5]
        names, kept = entry[2 + _STATE_NAMES], entry[2 + _STATE_DIGESTS]
        if entry[0] != 15 or kept != digests:
            raise ValueError("its snapshot does not keep the same of the chain")
        self._snapshot_names = [_text(name) for name in names]
        self._snapshot = seq, hashlib.sha256(snapshot.encode()).hexdigest()
        self._named(lines)

    def _staged(self, told: Any, _line: bytes) -> None:
        ends: dict[str, str] = {}
        for key, text in told:
            body, _, end = _text(text).rpartition("\n")
            bound = b"graphrt/staged/v1\x00%b\x00%b\x00" % (self.log.encode(), _text(key).encode())
            if key in ends or _sha(bound, body.encode()).hex() != end:
                raise ValueError("a staged body is not what was staged under its key")
            ends[key] = end[:32]
        if self._exact and any(not ends.get(key, "-").startswith(end) for key, end in self._beside.items() if end):
            raise ValueError("a staged body is not the one that a record vouches for")
        if self._exact and not self._beside.keys() <= ends.keys():
            raise ValueError("a staged body is missing")
        self._named([text for _, text in told])

    def _named(self, texts: Sequence[str]) -> None:
        """Compare the large values that precede a line with those that it names."""
        named = {name.decode() for text in texts for name in _BLOB.findall(text.encode())}
        if not self._fresh.keys() <= named:
            raise ValueError("a large value stands before a line that does not name it")
        self._absent |= named - self._blobs
        self._fresh = {}

    def _names_line(self, names: Any, _line: bytes) -> None:
        known = self._names
        if not known and names[: len(self._snapshot_names)] != self._snapshot_names:
            raise ValueError("they are not those of the snapshot")
        if not known and self._snapshot is not None:
            self._told = len(self._snapshot_names)
        if names.__class__ is not list or len({_text(name) for name in names}) != len(names):
            raise ValueError("names are distinct texts")
        again = self._recovering or not known
        if names[: len(known)] != known or (len(names) == len(known) and not again) or (self._fresh and not again):
            raise ValueError("they do not continue the names before them")
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names)}

    def _blob(self, value: dict[str, Any]) -> None:
        if value.keys() not in ({"blob", "text"}, {"blob", "data"}):
            raise ValueError("its kind is not known")
        name, text = _text(value["blob"]), value.get("text")
        data = _base64(value["data"]) if text is None else _text(text).encode()
        if name in self._blobs and not (name in self._fresh and self._recovering):
            self._break("duplicated", f"The large value {name[:12]}... is there twice.")
        elif _sha(data).hex() != name:
            self._break("altered", f"The large value {name[:12]}... is not what was written.")
        elif name in self._absent:
            self._break("reordered", f"The large value {name[:12]}... stands after the record that names it.")
        self._blobs.add(name)
        self._fresh[name] = self.line

    def _recovered(self, told: Any, _line: bytes) -> None:
        if told.keys() != {"bytes"}:
            raise ValueError("it does not say what was recovered")
        _int(told["bytes"], 1)
        self._recovering = True  # names and large values of the lost record may occur again

    # ----------------------------------------------------------------------------------------------------- records

    def _record(self, value: dict[str, Any]) -> None:
        fresh, self._fresh, self._recovering = self._fresh, {}, False
        try:
            one = Sealed(value)
        except BAD_DATA as error:
            try:
                version = _base64(value["seal"])[0]
            except BAD_DATA:
                version = 0
            self._misread(value, version, error)
            return
        first = one.seq - one.count
        if first != self.seq:
            if self._exact and self._follows(one, self.seq + len(one.entries), len(one.entries)):
                self._break(
                    "altered",
                    f"The number of the record that ends with entry {self.seq + len(one.entries)} was changed.",
                )
                self._accept(one, self.seq + len(one.entries))
                return
            if not self._place(one, first):
                return
        self._fill(first + 1, one.seq)
        self._check(one, first)
        self._values(value, fresh)
        self._accept(one, one.seq)

    def _misread(self, value: dict[str, Any], version: int, error: Exception) -> None:
        if version > _VERSION and not version & 0x80:
            self._break("newer-form", f"Record {self.records + 1} has a seal of a newer form ({version}).")
        else:
            self._break("altered", f"Record {self.records + 1} was changed: {str(error)[:100]}.")
        seq: Any = value.get("seq")
        count: Any = value.get("count")
        if seq.__class__ is int and count.__class__ is int and seq - count == self.seq and 0 < count <= seq < 1 << 64:
            self.records += 1
            self.seq, self._leaf, self._kid = seq, None, None
            self._tree = None
        else:
            self._tree = self._leaf = None

    def _place(self, one: Sealed, first: int) -> bool:
        """Report why a record does not follow the previous one; return whether the check continues after it."""
        if first > self.seq:
            self._gap(self.seq + 1, first)
            self._leaf = self._kid = self._tree = None
            return True
        at = bisect_left(self._seqs, one.seq)
        if at < len(self._seqs) and self._seqs[at] == one.seq:
            if bytes(self._leaves[32 * at : 32 * at + 32]) == one.leaf:
                self._break("duplicated", f"The record that ends with entry {one.seq} is there twice.")
            else:
                self._break("altered", f"There are two different records that end with entry {one.seq}.")
        elif not self._fill(first + 1, one.seq):
            self._break("altered", f"The record that ends with entry {one.seq} overlaps with others.")
        return False

    def _gap(self, first: int, last: int) -> None:
        self._exact = False
        if len(self._gaps) < MOST_FINDINGS and (not self._gaps or self._gaps[-1][0] != first):
            self._gaps.append([first, last, self.line, self.records + 1, 0])

    def _fill(self, first: int, last: int) -> bool:
        """Record that entries were found after all; return whether they had seemed to be missing."""
        for gap in self._gaps:
            if gap[0] <= first and last <= gap[1]:
                gap[4] += last - first + 1
                return True
        return False

    def _follows(self, one: Sealed, seq: int, count: int) -> bool:
        """Return whether *one* follows under these numbers; the state is used unchanged."""
        return self._leaf is not None and count > 0 and one.header_leaf(seq, count, self._leaf, one.state) == one.leaf

    def _check(self, one: Sealed, first: int) -> None:
        label = (
            f"The record of entry {one.seq}" if one.count == 1 else f"The record of entries {first + 1} to {one.seq}"
        )
        if self._leaf is not None and not self._follows(one, one.seq, one.count):
            self._break("altered", f"{label} was changed, or does not follow the one before.")
        elif one.newer or (self._leaf is None and one.version not in _VERSIONS):
            self._break("newer-form", f"{label} has a newer form than this verifier knows.")
        elif one.version not in _VERSIONS:
            self._break("altered", f"{label} has the version of its seal changed.")
        elif len(one.entries) != one.count:
            self._break("altered", f"{label} holds {len(one.entries)} entries.")
        elif self._exact:
            try:
                if self._fold(one) != one.state:
                    self._break("altered", f"{label} does not follow from the values before it.")
            except BAD_DATA as error:
                self._break("altered", f"{label} does not fit: {str(error)[:100]}.")
        self._macs(one, label)

    def _fold(self, one: Sealed) -> bytes:
        """Apply the names and values of a record, and return the hash of the state after it."""
        if one.names or one.seq == one.count:
            self._add_names(one)
        for code, path, *fields in one.entries:
            if code == 43 and not path:
                source, copy = map(_text, fields)
                if source != self._name:
                    raise ValueError("it says that the thread is a copy of another one than its records are of")
                self._name = copy
        self._vouched(one)
        digests, names, commits = self._digests, self._names, one.commits
        for number, line in one.written():
            name = names[number]
            digests[name] = hashlib.sha256(b"graphrt/field/v1\x00" + digests.get(name, b"") + commits[line]).digest()
        if len(self._order) != len(digests):
            self._order = [(name, name.encode() + b"\x00") for name in sorted(digests)]
        return hashlib.sha256(b"".join([label + digests[name] for name, label in self._order])).digest()

    def _vouched(self, one: Sealed) -> None:
        """Note what else a record vouches for: staged bodies, and the snapshot at the start of the log."""
        if self._beside and any(not path and code in (12, 27) for code, path, *_ in one.entries):
            self._beside = {}  # the superstep is over, and nothing is staged
        if not one.more or _int(one.more[0], 1) in one.erased:
            return
        told: dict[str, Any] = json.loads(one.lines[_int(one.more[0], 1)])
        self._beside = told.get("staged") or self._beside
        seq, digest = told.get("snapshot") or (0, "")
        if self._snapshot is not None and seq == self._snapshot[0]:
            if digest != self._snapshot[1]:
                raise ValueError("the snapshot that the log begins with is not the one that it vouches for")
            self._snapshot = None

    def _add_names(self, one: Sealed) -> None:
        """Add the names that a record introduces, in the order of their numbers."""
        numbers = self._numbers
        first = one.seq == one.count
        for name in one.names:
            number = numbers.setdefault(_text(name), len(self._names))
            if number == len(self._names):
                self._names.append(name)
            # Only the list has the names of the graph. The first record vouches for them and for its own names.
            if first or self._told is None or number < self._told:
                continue
            if number > self._told:
                raise ValueError("its names are not those of the list")
            self._told += 1
        if first:
            self._told = None
            if one.more:
                line = _int(one.more[0], 1)
                if line in one.erased:  # otherwise anyone could withhold it and change the names
                    raise ValueError("the line that vouches for the names is not there")
                self._told, digest = json.loads(one.lines[line])["names"]
                known = self._names[: _int(self._told)]
                if len(known) != self._told or _sha(_dumps(known).encode()).hex() != digest:
                    raise ValueError("the list of names is not the one that it vouches for")

    def _macs(self, one: Sealed, label: str) -> None:
        """Check the MACs of a record: under its key and, where the key changes, under the previous one."""
        kid, before = one.kid, self._kid
        if kid == _UNKEYED:
            if one.macs or before not in (None, _UNKEYED):
                self._break("altered", f"{label} has no MAC, and the one before has.")
            return
        signers = (kid,) if before in (None, kid, _UNKEYED) else (kid, before)
        if not one.macs or (before is not None and len(signers) != len(one.macs)):
            self._break("altered", f"{label} has another number of MACs than it needs.")
            return
        place = _Place(self.line, self.records + 1, one.seq - one.count + 1)
        fits = [self._keys.fits(signer or b"", one.leaf, mac) for signer, mac in zip(signers, one.macs, strict=False)]
        if False in fits:
            self._forged.append(place)
            self._exact = False
        elif None in fits:
            self._unknown.setdefault(signers[fits.index(None)] or b"", place)
        if True in fits:
            self._genuine += 1
            self.authenticated_seq = one.seq if self._exact else self.authenticated_seq

    def _values(self, value: Mapping[str, Any], fresh: Mapping[str, int]) -> None:
        """Compare the large values that precede a record with those that it names."""
        lines = [line.encode() for line in value["lines"] if '{"$t":"blob"' in line]
        named = {name.decode() for line in lines for name in _BLOB.findall(line)}
        for name in fresh.keys() - named if self._leaf is not None else ():  # otherwise its record may be missing
            self.find("altered", f"The large value {name[:12]}... stands before a record that does not name it.")
            self._exact = False
        self._absent |= named - self._blobs

    def _accept(self, one: Sealed, seq: int) -> None:
        self.records += 1
        self.seq, self._leaf, self._kid = seq, one.leaf, one.kid
        self._seqs.append(seq)
        self._leaves += one.leaf
        if one.erased:
            self._erased[seq] = one.erased
        for code, path, *fields in one.entries if not one.newer else ():
            if not path and code in (1, 2, 19, 20, 21, 22, 42):
                self._open = code <= 2
            elif code == 18 and fields == [self._pruned]:
                self._pruned = 0
            elif code == 34 and self._exact:
                self._erased_values += _int(fields[3]) if len(fields) > 3 else 0
                for erased, *numbers in fields[4] if len(fields) > 4 else ():
                    self._lawful.setdefault(_int(erased, 1), set()).update(map(_int, numbers))
        if self._exact:
            self.proved, self.proved_seq = self.records, seq
        if self._tree is not None:
            _grow(self._tree, self._size, one.leaf)
            self._size += 1
            self._reached()

    # ------------------------------------------------------------------------------------------- heads and anchors

    def _head_mac(self, head: TreeHead) -> bool | None:
        """Return whether the MAC of a head is correct; None if it has none or its key was not given."""
        if not head.mac:
            return None
        fits = self._keys.fits(bytes.fromhex(head.kid), head.signed(), head.mac)
        if fits is None and self._keys.any_fits(head.signed(), head.mac):
            return False  # the name of its key was changed
        return fits

    def _signature(self, head: TreeHead, *, line: int = 0, where: str = "log") -> None:
        """Check the signature of a head, if it has one and a function to check signatures was given."""
        if not head.signature:
            return
        check = self._check_signature
        fits = check(head.signer, head.signature, head.signed()) if check is not None else None
        if fits is False:
            self.find("altered", f"The signature of the head of entry {head.seq} is wrong.", _Place(line), where)
            self._exact = False
        else:
            unknown = "is there, and was not checked" if check is None else "was made with a key that is not trusted"
            told = "fits" if fits else unknown
            self._signed.setdefault(f"{told}: {head.signer.hex()[:16]}", []).append(head.seq)

    def _head(self, told: Any, line: bytes) -> None:
        head = TreeHead.from_dict(told)
        self._signature(head)
        digest = _sha(line)
        if digest in self._head_lines:
            self._break("duplicated", f"The head of entry {head.seq} is there twice.")
            return
        self._head_lines.add(digest)
        self._seen_heads.add(head.seq)
        if (head.log, head.thread) != (self.log, self.thread):
            self._break("another-log", f"The head of entry {head.seq} is that of another log or thread.")
            return
        fits = self._head_mac(head)
        if fits is None and head.mac:
            self._unknown.setdefault(bytes.fromhex(head.kid), _Place(self.line, self.records + 1, self.seq + 1))
        same = self._tree is not None and (head.size, head.root) == (self._size, _root(self._tree))
        if fits is False or (same and head.seq != self.seq) or (self._fresh and not self._recovering):
            self._break("altered", f"The head of entry {head.seq} was changed.")
        elif same:
            self.heads += 1
        elif self._tree is not None and (head.seq == self.seq or head.size == self._size):
            if not self._exact:
                return  # a leaf before it was changed
            self._break("altered", f"The head of entry {head.seq} is not that of the records before it.")
        elif head.seq > self.seq:
            self._gap(self.seq + 1, head.seq)
        elif head.seq < self.seq:
            after = bisect_left(self._seqs, head.seq) + 2
            self._break(
                "reordered",
                f"The head of entry {head.seq} stands after entry {self.seq}.",
                _Place(record=after, seq=head.seq + 1),
            )

    def _reached(self) -> None:
        """Compare the anchored heads of the current size with the records."""
        for number, head in self._anchors.pop(self._size, ()):
            if head.root == _root(self._tree or ()) and head.seq == self.seq:
                if self._exact:
                    self.anchored_seq, self._anchored_records = self.seq, self.records
                    self._agreeing.append(self.seq)
            elif self._exact:
                self._contradicted(number, head)

    def _contradicted(self, number: int, head: TreeHead) -> None:
        genuine = self._head_mac(head) is True
        self.find(
            "forked" if genuine else "altered",
            f"The anchored head of entry {head.seq} is not that of these records"
            + (", though both are genuine: the log has two histories." if genuine else "."),
            _Place(number, self._anchored_records + 1, self.anchored_seq + 1),
            "anchor",
        )
        self._exact = False
        self.proved, self.proved_seq = self._anchored_records, self.anchored_seq

    # --------------------------------------------------------------------------------------------------------- end

    def finish(self) -> None:
        """Find problems that only the whole file shows."""
        for first, last, line, record, came in self._gaps:
            if came == last - first + 1:
                slug, problem = "reordered", "do not stand where they belong"
            else:
                slug, problem = "truncated" if first > self.seq else "missing", "are missing"
            self.find(slug, f"Entries {first} to {last} {problem}.", _Place(line, record, first))
        if self._pruned and self._exact:
            self.find(
                "missing",
                f"Entries up to {self._pruned} are missing, and no record says that they were pruned.",
                _BEGIN,
            )
            self.proved = self.proved_seq = 0
        for told, seqs in self._signed.items():
            self.find(
                "sound", f"The signature of {len(seqs)} heads, up to entry {max(seqs)}, {told}.", _Place(seq=max(seqs))
            )
        self._finish_macs()
        self._finish_anchors()
        self._finish_name()
        if self._fresh or (self._told and self._told < len(self._names) and self._exact):
            self.find("torn", "The file ends before the record that its last lines belong to.")
        if self._open:
            self.find("open-run", "The last run has not ended.", _Place(record=self.records, seq=self.seq))
        self._finish_erased()

    def _withheld(self) -> dict[int, set[int]]:
        """Return the missing lines that no record reports as erased, by the last entry of their record."""
        gone = {seq: set(numbers) - self._lawful.get(seq, set()) for seq, numbers in self._erased.items()}
        return {seq: numbers for seq, numbers in gone.items() if numbers}

    def _finish_erased(self) -> None:
        erased, withheld = sum(map(len, self._erased.values())), self._withheld()
        if withheld or self._absent:
            first = min(withheld, default=self.seq)
            lines = sum(map(len, withheld.values()))
            self.find(
                "withheld",
                f"{lines} lines and {len(self._absent)} large values are not in the file, and no record says that they "
                "were erased.",
                _Place(record=bisect_left(self._seqs, first) + 1, seq=first),
            )
        if erased:
            self.find(
                "redacted",
                f"{erased} lines are not in the file. The records say that {self._erased_values} values were erased.",
                _Place(record=self.records, seq=self.seq),
            )

    def _finish_name(self) -> None:
        """Report that the records, which have no other problem, belong to another thread."""
        changed = any(finding.changed for finding in self.findings)
        if self.records and self._name != self.thread and not changed:
            self.find(
                "misnamed",
                f"The records are those of thread {self._name!r}, and none says that {self.thread!r} is a copy of it.",
                _BEGIN,
            )
            self.proved = self.proved_seq = 0

    def _finish_macs(self) -> None:
        used = self._keys.used
        if self._forged and not self._genuine and not any(finding.changed for finding in self.findings):
            message = "The records fit together, but their MACs are those of another log."
            self.find("another-log", message, self._forged[0])
        else:
            for place in self._forged:
                self.find("altered", f"The MAC of record {place.record} is wrong.", place)
        wrong = bool(self._keys.roots) and not used
        for kid, place in self._unknown.items():
            message = f"Records from {place.record} on are authenticated with the key {kid.hex()}, which was not given."
            self.find("wrong-key" if wrong else "key-missing", message, place)
        if wrong and not self._unknown and self.records:
            self.find("unkeyed", "A key was given, but no record is authenticated.", _BEGIN)
        for kid in sorted(used):
            why = weakness(self._keys.roots[kid])
            if why:
                self.find("weak-key", f"The key {kid.hex()} can be guessed: it is {why}.", _BEGIN)

    def _finish_anchors(self) -> None:
        for number, head in [one for heads in self._anchors.values() for one in heads]:
            if head.size <= self._begun:
                continue  # before the part that a prune left
            if head.seq > self.seq:
                self.find(
                    "truncated",
                    f"The records end with entry {self.seq}, but the anchor has the head of entry {head.seq}.",
                    _Place(number),
                    "anchor",
                )
            elif self._exact and self._tree is not None:
                self._contradicted(number, head)
        for seq in self._agreeing if self._seen_heads else ():
            if seq not in self._seen_heads:
                self.find(
                    "sound",
                    f"The anchor has a head of entry {seq}, and the log has not: nothing is lost by it.",
                    _Place(seq=seq),
                )
        if not self.anchored_seq:
            same = sorted({head.log for _, head in self._anchored if head.thread == self.thread} - {self.log})
            if same:
                self.find(
                    "another-log",
                    f"The anchor has heads of thread {self.thread} under the log {same[0]}, and this is the log {self.log}.",
                    _BEGIN,
                )
                self.proved = self.proved_seq = 0
                return
            others = sorted({head.thread for _, head in self._anchored} - {self.thread})
            other = f" The anchor has heads of {', '.join(others[:3])[:100]} only." if others else ""
            self.find("unanchored", f"No anchored head shows that the end is there.{other}", _BEGIN)
        elif self.anchored_seq < self.seq:
            self.find(
                "tail-unanchored",
                f"The entries after {self.anchored_seq} are not anchored: more could have followed.",
                _Place(record=self._anchored_records + 1, seq=self.anchored_seq + 1),
            )

    def report(self) -> Report:
        """Return the findings."""
        findings = sorted(
            self.findings, key=lambda finding: (finding.record or 0, finding.where != "log", finding.line or 0)
        )
        slug = _worst(findings)
        return Report(
            verdict=VERDICTS[slug],
            slug=slug,
            findings=tuple(findings),
            more_findings=self.more_findings,
            proved=self._in_words() if self.proved else "No record is proved.",
            log=self.log,
            thread=self.thread,
            records=self.records,
            proved_records=self.proved,
            proved_seq=self.proved_seq,
            authenticated_seq=min(self.authenticated_seq, self.proved_seq),
            anchored_seq=self.anchored_seq,
            heads=self.heads,
            erased_values=self._erased_values,
            erased_lines=sum(map(len, self._erased.values())),
            withheld_lines=sum(map(len, self._withheld().values())),
            absent_blobs=len(self._absent),
        )

    def _in_words(self) -> str:
        known = self.proved_seq <= max(self.authenticated_seq, self.anchored_seq)
        how = "are as they were written" if known else "fit together"
        return f"Entries up to {self.proved_seq} ({self.proved} records) {how}."


def _worst(findings: Sequence[Finding]) -> str:
    """Return the worst slug; for a changed log, that of the first change, since others may follow from it."""
    changed = next((finding.slug for finding in findings if finding.changed), None)
    return changed or max((finding.slug for finding in findings), key=_RANKS.__getitem__, default="sound")


def lines_of(source: Source) -> Iterator[tuple[bytes, bool]]:
    """Yield each line without its newline, and whether it had one."""
    if isinstance(source, (str, PathLike)):
        with open(fspath(source), "rb") as opened:  # noqa: PTH123 - this file needs no more modules than it must
            yield from lines_of(opened)
        return
    file = BytesIO(source) if isinstance(source, bytes) else source
    while line := file.readline(MOST_BYTES + 2):
        yield line.removesuffix(b"\n"), line.endswith(b"\n")


def _heads(anchor: Source | None) -> list[tuple[int, TreeHead]]:
    """Return the heads of an anchor file with the numbers of their lines. A torn last line is left out."""
    lines = enumerate(lines_of(anchor), 1) if anchor is not None else ()
    heads: list[tuple[int, TreeHead]] = []
    for number, (line, ended) in lines:
        if ended:
            value = parse(line)
            if value.keys() != {"head"}:
                raise ValueError(f"line {number} is not a head")
            heads.append((number, TreeHead.from_dict(value["head"])))
    return heads


def verify(
    source: Source,
    *,
    key: bytes | None = None,
    older: Sequence[bytes] = (),
    anchor: Source | None = None,
    check_signature: CheckSignature | None = None,
) -> Report:
    """Verify a log. Raises no exception, whatever the file contains.

    Args:
        source: The log.
        key: Root key of the log; None checks no MACs.
        older: Keys that the log was written with before.
        anchor: Heads that were kept outside of the log, one on each line.
        check_signature: Checks signatures of heads; for example, a `graphrt.audit.signing.SignatureCheck`. None checks
            none, and the report mentions that there are signatures.
    """
    given = [*older, *([key] if key is not None else [])]
    roots = [one for one in given if one.__class__ is bytes]
    try:
        heads = _heads(anchor)
    except (*BAD_DATA, OSError) as error:
        report = verify(source, key=key, older=older, check_signature=check_signature)
        message = f"The anchor cannot be read: {str(error)[:100]}."
        unread = Finding(verdict=Verdict.UNREADABLE, slug="unreadable", message=message, where="anchor")
        findings = (*report.findings, unread)
        slug = _worst(findings)
        return replace(report, verdict=VERDICTS[slug], slug=slug, findings=findings)
    check = _Check(roots, heads, check_signature)
    if len(roots) < len(given):
        check.find("key-missing", "A key is not bytes.")
    try:
        if check.read(lines_of(source)):
            check.finish()
    except (OSError, ValueError) as error:
        check.find("unreadable", f"The file cannot be read: {getattr(error, 'strerror', None) or error}.")
    return check.report()


# ------------------------------------------------------------------------------------------------------------- proofs


def check_inclusion(
    proof: Source, *, key: bytes | None = None, older: Sequence[bytes] = (), anchor: Source | None = None
) -> Report:
    """Verify that one record is in the log whose head the proof names.

    Args:
        proof: A document that `graphrt.audit.proofs.inclusion_proof` made.
        key: Root key of the log, which shows that the head is genuine.
        older: Keys that the log was written with before.
        anchor: Heads that were kept outside of the log, which show the same.
    """
    return _proved(proof, _inclusion, [*older, *([key] if key is not None else [])], anchor)


def check_consistency(
    proof: Source, *, key: bytes | None = None, older: Sequence[bytes] = (), anchor: Source | None = None
) -> Report:
    """Verify that the records under an older head are a prefix of those under a newer one. Arguments: see above."""
    return _proved(proof, _consistency, [*older, *([key] if key is not None else [])], anchor)


def _proved(proof: Source, check: Any, roots: Sequence[bytes], anchor: Source | None) -> Report:
    findings: list[Finding] = []
    counts: dict[str, Any] = {}

    def find(slug: str, message: str) -> None:
        findings.append(Finding(verdict=VERDICTS[slug], slug=slug, message=message, where="proof"))

    try:
        (line, _), *more = islice(lines_of(proof), 2)
        if more:
            raise ValueError("it has more than one line")
        value = parse(line)
        wanted, other = str(value["proof"]).split("/"), (INCLUSION if check is _inclusion else CONSISTENCY).split("/")
        if wanted[0] == other[0] and wanted[1].isdecimal() and int(wanted[1]) > int(other[1]):
            find("newer-form", f"The proof has the form {value['proof']!r}, which is newer.")
        elif wanted != other:
            raise ValueError("it is another kind of proof")
        else:
            heads, counts = check(value, find, roots)
            known = {head for _, head in _heads(anchor)}
            for head in heads:
                _genuine(head, roots, known, find)
    except (*BAD_DATA, OSError) as error:
        find("unreadable", f"The proof or the anchor cannot be read: {str(error)[:100]}.")
    slug = _worst(findings)
    verdict = VERDICTS[slug]
    proved = counts if verdict.exit_code in (0, 3) else {}
    return Report(verdict=verdict, slug=slug, findings=tuple(findings), **proved)


def _genuine(head: TreeHead, roots: Sequence[bytes], anchored: set[TreeHead], find: Any) -> None:
    """Check whether an anchor or a MAC vouches for a head."""
    keys = _Keys(head.log, roots)
    fits = keys.fits(bytes.fromhex(head.kid), head.signed(), head.mac) if head.mac else None
    same = [one for one in anchored if (one.log, one.thread, one.size) == (head.log, head.thread, head.size)]
    if fits is False:
        find("altered", f"The MAC of the head of entry {head.seq} is wrong.")
    elif same and (head.root, head.seq) not in {(one.root, one.seq) for one in same}:
        find("forked", f"The anchor has another head of {head.size} records.")
    elif _unsigned(head) in map(_unsigned, same):
        return
    elif roots and fits is None:
        find(
            "wrong-key" if head.mac else "unkeyed", f"The head of entry {head.seq} is not authenticated with this key."
        )
    elif fits is None:
        find(
            "unanchored", f"The proof fits its head of entry {head.seq}, which neither a key nor an anchor vouches for."
        )
    elif why := weakness(keys.roots[bytes.fromhex(head.kid)]):
        find("weak-key", f"The key can be guessed: it is {why}.")


def _unsigned(head: TreeHead) -> TreeHead:
    return head._replace(signature=b"", signer=b"")


def _inclusion(value: Mapping[str, Any], find: Any, roots: Sequence[bytes]) -> tuple[list[TreeHead], dict[str, Any]]:
    if set(value) != {"head", "index", "path", "prev", "proof", "record"}:
        raise ValueError("it is not a proof of inclusion")
    head, one = TreeHead.from_dict(value["head"]), Sealed(value["record"])
    path = [_hex(part) for part in value["path"]]
    known = one.version in _VERSIONS and (one.newer or len(one.entries) == one.count)
    macs = [_Keys(head.log, roots).fits(one.kid, one.leaf, mac) for mac in one.macs[:1]]
    if one.header_leaf(one.seq, one.count, _hex(value["prev"]), one.state) != one.leaf or not known or False in macs:
        find("altered", "The record is not the one that was sealed.")
    elif not includes(head.root, head.size, one.leaf, _int(value["index"]), path):
        find("altered", "The record is not in the log that the head covers.")
    elif one.erased:
        find("withheld", f"{len(one.erased)} lines of the record are not in the proof, which cannot say why.")
    told = f"The record that ends with entry {one.seq} is number {value['index'] + 1} of {head.size} in the log {head.log!r}."
    return [head], {
        "proved": told,
        "log": head.log,
        "thread": head.thread,
        "records": 1,
        "proved_records": 1,
        "proved_seq": one.seq,
    }


def _consistency(value: Mapping[str, Any], find: Any, _roots: Sequence[bytes]) -> tuple[list[TreeHead], dict[str, Any]]:
    if set(value) != {"new", "old", "path", "proof"}:
        raise ValueError("it is not a proof of consistency")
    old, new = TreeHead.from_dict(value["old"]), TreeHead.from_dict(value["new"])
    if (old.log, old.thread) != (new.log, new.thread):
        find("another-log", "The heads are of two logs.")
    elif not extends(old.root, old.size, new.root, new.size, [_hex(part) for part in value["path"]]):
        find("forked", "The records of the older head are not the beginning of those of the newer one.")
    told = f"The first {old.size} of the {new.size} records of the log {new.log!r} are the same under both heads."
    return [old, new], {"proved": told, "log": new.log, "thread": new.thread}


def includes(root: bytes, size: int, leaf: bytes, index: int, path: Sequence[bytes]) -> bool:
    """Return whether *path* shows that *leaf* has the number *index* in the tree (RFC 9162, 2.1.3.2)."""
    if index >= size:
        return False
    fn, sn, node = index, size - 1, leaf
    for part in path:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            node = _joined(part, node)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            node = _joined(node, part)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and node == root


def extends(old_root: bytes, old_size: int, root: bytes, size: int, path: Sequence[bytes]) -> bool:
    """Return whether *path* shows that the older tree is the beginning of the newer one (RFC 9162, 2.1.4.2)."""
    if old_size >= size or not path:
        return old_size == size and not path and old_root == root
    parts = [old_root, *path] if old_size & (old_size - 1) == 0 else list(path)
    fn, sn = old_size - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = parts[0]
    for part in parts[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old, new = _joined(part, old), _joined(part, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = _joined(new, part)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and old == old_root and new == root


# ------------------------------------------------------------------------------------------------------------- script


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify a log or a proof, print the verdict, and return the exit code."""
    parser = argparse.ArgumentParser(description="Verify an audit log, or a proof that was taken from one.")
    parser.add_argument("log", help="the log, or a proof")
    parser.add_argument(
        "--key-file",
        help="file with the root key: its 32 or more bytes as they are, as `graphrt audit keygen` writes them; a newline "
        "at the end is left out",
    )
    parser.add_argument("--older-key-file", action="append", default=[], help="the same for a key that was used before")
    parser.add_argument("--anchor", help="file with heads that were kept outside of the log")
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    given = parser.parse_args(arguments)
    try:
        files = [*given.older_key_file, *([given.key_file] if given.key_file else [])]
        older = [key for path in files for key in _read_keys(path)]
    except OSError as error:
        print(f"The key cannot be read: {error}.", file=sys.stderr)  # noqa: T201 - a script
        return 2
    report = verify(given.log, older=older, anchor=given.anchor)
    if report.slug == "unreadable" and (check := _proof_check(given.log)):
        report = check(given.log, older=older, anchor=given.anchor)
    print(report.as_json() if given.json else report.sentence)  # noqa: T201 - a script
    if report.slug == "wrong-key" and any(_ENCODED.fullmatch(key) for key in older):
        print("The key file holds text: a key is bytes, not hexadecimal or base64.", file=sys.stderr)  # noqa: T201
    return report.exit_code


def _read_keys(path: str) -> tuple[bytes, ...]:
    """Return the possible keys in a file: its bytes, and its bytes without a newline that an editor may have added."""
    with open(path, "rb") as file:  # noqa: PTH123 - this file needs no more modules than it must
        whole = file.read()
    return whole, whole.removesuffix(b"\n").removesuffix(b"\r")


def _proof_check(path: str) -> Any:
    try:
        line, _ = next(lines_of(path))
        kind = str(parse(line)["proof"]).partition("/")[0]
    except (*BAD_DATA, OSError, StopIteration):
        return None
    return {"graphrt-inclusion": check_inclusion, "graphrt-consistency": check_consistency}.get(kind)


if __name__ == "__main__":
    sys.exit(main())
