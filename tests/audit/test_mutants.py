"""A positive control: a verifier without any one of its checks accepts a change that the tests make."""

from __future__ import annotations

import base64
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.audit import matrix
from tests.audit.exporting import canonical, heads_of
from tests.audit.honest_logs import KEY, log, pruned
from tests.audit.matrix import is_record
from tests.audit.small_logs import made, with_gone

from graphrt._journal.chain import Chain
from graphrt._journal.log_keys import KeyRing
from graphrt.audit import offline

SOURCE = Path(offline.__file__).read_text(encoding="utf-8")


@functools.cache
def anchor() -> bytes:
    """The heads of the log. Logs are made by the first test that needs them: every process collects all tests."""
    return b"".join(heads_of(log()))


Case = tuple[bytes, dict[str, Any]]
"""A changed log, and the arguments of the verifier."""


def joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(lines)


def changes(make: Callable[..., Iterable[matrix.Change]], *more: Any) -> Iterator[Case]:
    for change in make(log(), *more):
        if not change.verdicts & {"sound", "redacted"}:
            yield joined(change.lines), {"key": KEY, "anchor": anchor()}


def flips(kind: bytes, step: int = 1, lines: tuple[bytes, ...] = (), **given: Any) -> Iterator[Case]:
    """A flip of each byte of the lines of a kind, in *lines* or in the log."""
    lines = lines or log()
    for at, _, changed in matrix.flips(lines, bits=1, step=step):
        if lines[at].startswith(b'{"%b"' % kind):
            yield joined([*lines[:at], changed, *lines[at + 1 :]]), given


def doubled(kind: bytes) -> Iterator[Case]:
    """Each line of a kind duplicated, directly after itself."""
    for at, line in enumerate(log()):
        if line.startswith(b'{"%b"' % kind):
            yield joined([*log()[:at], line, *log()[at:]]), {"key": KEY, "anchor": anchor()}


def neighbours() -> Iterator[Case]:
    """Each line swapped with the one before it."""
    for at in range(2, len(log())):
        yield joined([*log()[: at - 1], log()[at], log()[at - 1], *log()[at + 1 :]]), {"key": KEY, "anchor": anchor()}


def loose_base64() -> Iterator[Case]:
    """Bits in the last character of base64 that no byte uses."""
    for at, line in enumerate(log()):
        if is_record(line):
            seal = json.loads(line)["seal"]
            last = seal.rstrip("=")[-1]
            other = seal.rstrip("=")[:-1] + chr(ord(last) + 1) + "=" * seal.count("=")
            if base64.b64decode(other) == base64.b64decode(seal):
                yield joined(matrix.with_value(log(), at, seal=other)), {"key": KEY, "anchor": anchor()}


def other_key() -> Iterator[Case]:
    """A whole chain that an attacker without a key computes under our key id."""
    kid = offline.kid_of(KEY)
    lines = made(*[KeyRing(KEY)] * 3, head_key=KEY)[:2]
    prev = offline.genesis("t")
    for seq in (1, 2, 3):
        body = b'[4,%d.0,"forged",0,[],[[20,0]]]' % seq
        salts = offline.hashlib.shake_256(b"graphrt/salts/v2\x00" + bytes(16)).digest(16)
        commit = offline._sha(b"graphrt/commit/v1\x00", salts, body)
        state = offline._sha()
        head = offline.struct.pack(">BQIq", 2, seq, 1, seq * 1_000_000)
        prev = offline._sha(b"\x00", head, kid, prev, offline._sha(commit), state)
        seal = b"\x02\x01" + kid + state + prev + bytes(32) + bytes(16)
        lines.append(
            canonical({"count": 1, "lines": [body.decode()], "seal": base64.b64encode(seal).decode(), "seq": seq})
        )
        yield joined(lines), {"key": KEY}


def shed_key() -> Iterator[Case]:
    """After a record with a key, one without it."""
    body = [b'[4,2.0,"r",0,[],[[20,0]]]']
    lines = made(KeyRing(KEY), head_key=KEY)[:3]
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    chain.seal(1, 1, 1.0, [b'[4,1.0,"r",0,[],[[20,0]]]'], (), 7)
    bare = Chain("t", {name: value for name, value in chain.saved().items() if name != "\x00kid"})
    seal = base64.b64encode(bare.seal(2, 1, 2.0, body, (), 7)).decode()
    yield joined([*lines, canonical({"count": 1, "lines": [body[0].decode()], "seal": seal, "seq": 2})]), {"key": KEY}


def wrong_state() -> Iterator[Case]:
    """A log whose state after a prune differs from the written one."""
    lines = pruned(None)
    begin = json.loads(lines[1])["begin"]
    for name, value in begin["digests"].items():
        if not name.startswith("\x00"):
            digests = {**begin["digests"], name: value[::-1]}
            yield joined([lines[0], canonical({"begin": {**begin, "digests": digests}}), *lines[2:]]), {}


def miscounted() -> Iterator[Case]:
    """A sealed record with fewer entries than its count."""
    chain = Chain("t")
    body = [b'[4,1.0,"r",0,[],[[20,0]]]']
    seal = base64.b64encode(chain.seal(2, 2, 1.0, body, (), 7)).decode()
    yield joined([*made()[:2], canonical({"count": 2, "lines": [body[0].decode()], "seal": seal, "seq": 2})]), {}


def erased() -> Iterator[Case]:
    at = next(at for at, line in enumerate(log()) if is_record(line) and len(json.loads(line)["lines"]) > 1)
    lines = with_gone(log(), at, [1])
    value = json.loads(lines[at])
    changed = matrix.with_value(lines, at, lines=[value["lines"][0], '"forged"', *value["lines"][2:]])
    yield joined(changed), {"key": KEY, "anchor": anchor()}


def untold_prune() -> Iterator[Case]:
    lines = pruned()
    told = next(at for at, line in enumerate(lines) if b'"[4,' in line and b",[[18,0," in line)
    yield joined(lines[:told]), {"key": KEY}


def withheld() -> Iterator[Case]:
    at = next(at for at, line in enumerate(log()) if line.startswith(b'{"count"') and b'"[4,' in line)
    yield joined(with_gone(log(), at, [1])), {"key": KEY, "anchor": anchor()}
    yield joined([line for line in log() if not line.startswith(b'{"blob"')]), {"key": KEY, "anchor": anchor()}


def newer() -> Iterator[Case]:
    chain = Chain("t")
    body = [b'[5,1.0,"r",0,[],[["new"]]]']
    seal = base64.b64encode(chain.seal(1, 1, 1.0, body, (), 7)).decode()
    yield joined([*made()[:2], canonical({"count": 1, "lines": [body[0].decode()], "seal": seal, "seq": 1})]), {}


def versions() -> Iterator[Case]:
    seal = base64.b64decode(json.loads(log()[2])["seal"])
    for version in (0, 3, 7):
        changed = base64.b64encode(bytes([version]) + seal[1:]).decode()
        yield joined(matrix.with_value(log(), 2, seal=changed)), {"key": KEY, "anchor": anchor()}


def bare_without_key() -> Iterator[Case]:
    yield joined(log(key=None)), {"key": KEY, "anchor": joined(heads_of(log(key=None)))}


def weak() -> Iterator[Case]:
    key = b"short"
    lines = made(KeyRing(key), head_key=key)
    yield joined(lines), {"key": key, "anchor": lines[-1]}


def no_key() -> Iterator[Case]:
    yield joined(log()), {"anchor": anchor()}


def forked_anchor() -> Iterator[Case]:
    other = b"".join(heads_of(log(key=None, records=40)))
    yield joined(log(key=None)), {"anchor": other}


def only_anchor() -> Iterator[Case]:
    head = json.loads(heads_of(log())[0])["head"]
    yield joined(log()), {"key": KEY, "anchor": anchor() + canonical({"head": {**head, "at": 7}})}


def open_run() -> Iterator[Case]:
    lines = made(KeyRing(KEY), head_key=KEY)
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    body = [b'[4,1.0,"r",0,[],[[2,0,"resume"]]]']
    seal = base64.b64encode(chain.seal(1, 1, 1.0, body, (), 7)).decode()
    tree = offline._root([chain.leaf]).hex()
    signed = offline.TreeHead.from_dict({**json.loads(lines[-1])["head"], "root": tree}).signed()
    mac = offline.hmac.digest(offline.key_of(KEY, "t"), signed, "sha256").hex()
    head = canonical({"head": {**json.loads(lines[-1])["head"], "root": tree, "mac": mac}})
    yield (
        joined([*lines[:2], canonical({"count": 1, "lines": [body[0].decode()], "seal": seal, "seq": 1}), head]),
        {"key": KEY, "anchor": head},
    )


MUTANTS: dict[str, tuple[str, str, Callable[[], Iterator[Case]]]] = {
    "canonical form": ("if same.encode() != line:", "if False:", lambda: changes(matrix.rewritings)),
    "canonical base64": ("if b2a_base64(data, newline=False).decode() != value:", "if False:", loose_base64),
    "links and contents": ("one.header_leaf(seq, count, self._leaf, one.state) == one.leaf", "True", lambda: flips(b"count", 7, log(key=None))),
    "numbers": ("if first != self.seq:", "if False:", lambda: changes(matrix.deletions)),
    "gaps": ("            self._gap(self.seq + 1, first)\n", "            pass\n", lambda: changes(matrix.deletions)),
    "state": ("if self._fold(one) != one.state:", "if self._fold(one) is None:", wrong_state),
    "count of entries": ("elif len(one.entries) != one.count:", "elif False:", miscounted),
    "MACs": ('return hmac.compare_digest(hmac.digest(key, data, "sha256"), mac)\n\n    def any', "return True\n\n    def any", other_key),
    "MACs of records": ("        if False in fits:\n", "        if False:\n", other_key),
    "key that goes": ("if one.macs or before not in (None, _UNKEYED):", "if False:", shed_key),
    "name of the key of a head": ("if fits is None and self._keys.any_fits(head.signed(), head.mac):", "if False:", lambda: flips(b"head", key=KEY, anchor=anchor())),
    "MACs of heads": ("if fits is False or (same and", "if (same and", lambda: flips(b"head", key=KEY, anchor=anchor())),
    "roots of heads": ("elif self._tree is not None and (head.seq == self.seq or head.size == self._size):", "elif False:", lambda: flips(b"head", 1, log(key=None))),
    "place of heads": ("elif head.seq < self.seq:", "elif False:", neighbours),
    "log of heads": ("if (head.log, head.thread) != (self.log, self.thread):\n            self._break", "if False:\n            self._break", lambda: flips(b"head", 1, log(key=None))),
    "heads twice": ("if digest in self._head_lines:", "if False:", lambda: doubled(b"head")),
    "names": ("if len(known) != self._told or _sha(_dumps(known).encode()).hex() != digest:", "if False:", lambda: flips(b"names", key=KEY, anchor=anchor())),
    "prune that nobody tells": ("if self._pruned and self._exact:", "if False:", untold_prune),
    "hash of large values": ("elif _sha(data).hex() != name:", "elif data is None:", lambda: flips(b"blob", key=KEY, anchor=anchor())),
    "large values twice": ("if name in self._blobs and not (name in self._fresh and self._recovering):", "if False:", lambda: doubled(b"blob")),
    "large values of nothing": ("for name in fresh.keys() - named if", "for name in () if", neighbours),
    "records twice": ("if at < len(self._seqs) and self._seqs[at] == one.seq:", "if True:\n            pass\n        elif False:", lambda: doubled(b"count")),
    "erased lines": ('or (kind == b"\\x01" and line != _ERASED)', "", erased),
    "withheld values": ("        if withheld or self._absent:\n", "        if False:\n", withheld),
    "newer records": ("elif one.newer or (self._leaf is None", "elif False and (self._leaf is None", newer),
    "versions of seals": ("elif one.version not in _VERSIONS:", "elif False:", versions),
    "anchored roots": ("            elif self._exact:\n                self._contradicted(number, head)\n", "", forked_anchor),
    "anchored end": ("if head.seq > self.seq:\n                self.find(", "if False:\n                self.find(", lambda: changes(matrix.truncations)),
    "MACs of anchors": ("if self._head_mac(head) is False:", "if False:", only_anchor),
    "no anchor": ("if not self.anchored_seq:", "if False:", lambda: iter([(joined(log()), {"key": KEY})])),
    "tail behind the anchor": ("elif self.anchored_seq < self.seq:", "elif False:", lambda: iter([(joined(log()), {"key": KEY, "anchor": heads_of(log())[0]})])),
    "log without MACs": ("if wrong and not self._unknown and self.records:", "if False:", bare_without_key),
    "missing keys": ("for kid, place in self._unknown.items():", "for kid, place in ():", no_key),
    "weak keys": ("            if why:\n", "            if False:\n", weak),
    "torn lines": ('self.find(\n                    "torn" if self.line > 1', 'return True\n                self.find(\n                    "torn" if self.line > 1', lambda: iter([(joined(log()) + b"{", {"key": KEY, "anchor": anchor()})])),
    "open runs": ("        if self._open:\n", "        if False:\n", open_run),
}  # fmt: skip


def verifier(name: str, source: str) -> ModuleType:
    module = ModuleType(f"mutant_{name.replace(' ', '_')}")
    sys.modules[module.__name__] = module  # dataclasses look up their module
    try:
        exec(compile(source, module.__name__, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module


def verdict(module: Any, case: Case) -> tuple[str, int | None]:
    report = module.verify(case[0], **case[1])
    return report.slug, report.first_bad


@pytest.mark.parametrize("name", MUTANTS)
def test_missing_check_lets_a_change_pass(name: str) -> None:
    """Each mutant gives some change a wrong verdict or reports it at a wrong place."""
    old, new, cases = MUTANTS[name]
    assert SOURCE.count(old) == 1, "the check is written in another way now"
    mutant = verifier(name, SOURCE.replace(old, new))
    tried = 0
    for case in cases():
        tried += 1
        assert verdict(offline, case)[0] not in ("sound", "redacted"), "the whole verifier misses it too"
        if verdict(mutant, case) != verdict(offline, case):
            return

    pytest.fail(f"none of {tried} changes needs this check")
