"""Logs that are built record by record, and the findings of both verifiers in them."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.audit import documented
from tests.audit.exporting import canonical, head, record, withheld

from graphrt._journal.chain import Chain
from graphrt._journal.log_keys import KeyRing
from graphrt._journal.merkle import Tree
from graphrt.audit.offline import Report, verify


def joined(lines: Any) -> bytes:
    return b"".join(lines)


def made(*rings: KeyRing | None, log: str = "t", head_key: bytes | None = None) -> list[bytes]:
    """A small log of one record for each key ring."""
    lines, chain, tree = (
        [canonical({"form": "graphrt-audit/2", "log": log, "thread": log}), canonical({"names": []})],
        None,
        Tree(),
    )
    for seq, ring in enumerate(rings, 1):
        chain = Chain(log, chain.saved() if chain else None, keys=ring.of(log) if ring else None)
        body = [b'[4,%d.0,"r",0,[],[[20,0]]]' % seq]
        seal = chain.seal(seq, 1, float(seq), body, (), 7)
        lines.append(record(seq, 1, body, seal))
        tree.add(chain.leaf)
    lines.append(canonical({"head": head(log, log, len(rings), 5_000_000, tree, head_key)}))
    return lines


def found(lines: Any, **more: Any) -> Report:
    """The report of the log, after checking that the documented verifier agrees."""
    report = verify(joined(lines), **more)
    keys = [*more.get("older", ()), *([more["key"]] if more.get("key") is not None else [])]
    assert documented.agree(report, joined(lines), keys, more.get("anchor")), report
    return report


def with_gone(lines: Any, place: int, gone: list[int]) -> list[bytes]:
    value = json.loads(lines[place])
    kept, seal = withheld([line.encode() for line in value["lines"]], base64.b64decode(value["seal"]), gone)
    return [*lines[:place], record(value["seq"], value["count"], kept, seal), *lines[place + 1 :]]
