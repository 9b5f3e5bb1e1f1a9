"""The speed of the offline verifier of audit logs, in records a second: a conversation with one message of 420 bytes
per record.

Run it with `python -m benchmarks.audit_verify`. It should be at least 8,000 records a second, with a key and heads.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import statistics
import time

from graphrt._journal.chain import Chain
from graphrt._journal.log_keys import KeyRing, key_of
from graphrt.audit.offline import TreeHead, verify

KEY = b"any 32 bytes or more: 7F2a-91Bc-0dEx"
EVERY = 64
"""Records between two heads."""
TARGET = 8_000


def line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def head(chain: Chain, seq: int) -> bytes:
    tree = chain.tree
    assert tree is not None
    told = {"at": seq, "kid": chain.kid.hex(), "log": "t", "mac": "0" * 64, "root": tree.root().hex(), "seq": seq, "size": tree.size, "thread": "t"}  # fmt: skip
    mac = hmac.digest(key_of(KEY, "t"), TreeHead.of(told).signed(), "sha256").hex()
    return line({"head": {**told, "mac": mac}})


def conversation(records: int) -> tuple[bytes, bytes]:
    """A log, and its last head as the anchor."""
    chain = Chain("t", keys=KeyRing(KEY).of("t"))
    lines = [line({"form": "graphrt-audit/1", "log": "t", "thread": "t"}), line({"names": ["messages", "turn", "say"]})]
    last = b""
    for number in range(1, records + 1):
        structure = f'[2,{1.75e9 + number},"run-1",{2 * number},[],[[8,0,[{number},0,2],[[0,1,1,2]]],[12,0,{number},[0,1],[2]]]]'
        message = json.dumps([{"role": "user", "content": "x" * 380, "n": number}])
        body = [structure.encode(), message.encode(), b"%d" % number]
        seal = chain.seal(2 * number, 2, 1.75e9 + number, body, (("messages", 1), ("turn", 2)), None)
        lines.append(line({"count": 2, "lines": [one.decode() for one in body], "seal": base64.b64encode(seal).decode(), "seq": 2 * number}))  # fmt: skip
        if number % EVERY == 0 or number == records:
            last = head(chain, 2 * number)
            lines.append(last)
    return b"".join(lines), last


def paces(records: int, rounds: int) -> list[float]:
    """Records a second, in each round; processor time."""
    log, anchor = conversation(records)
    found: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        report = verify(log, key=KEY, anchor=anchor)
        found.append(records / (time.process_time() - began))
        assert report.slug == "sound", report.sentence
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    pace = statistics.median(paces(given.records, given.rounds))
    print(f"{given.records:,} records: {pace:,.0f} records a second (target {TARGET:,})")


if __name__ == "__main__":
    main()
