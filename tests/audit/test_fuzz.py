"""The verifier gives a verdict on any file, in bounded time and memory."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.exporting import canonical, heads_of
from tests.audit.honest_logs import KEY, log
from tests.audit.matrix import is_record

from graphrt.audit import offline
from graphrt.audit.offline import Report, Verdict, check_consistency, check_inclusion, verify

LOG = log()
FIRST = LOG[0]
RECORD = next(line for line in LOG if is_record(line))
SEAL = json.loads(RECORD)["seal"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
KINDS = ("form", "begin", "names", "blob", "data", "text", "count", "lines", "seal", "seq", "head", "recovered", "erased", "log", "thread", "digests", "\x00", "\x00tree", "\x00kid", "size", "root", "at", "kid", "mac")  # fmt: skip
SHAPED = st.recursive(
    st.integers(-2, 70) | st.sampled_from(["", "0" * 64, SEAL, FIRST.decode()]) | JSON,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KINDS), inner, max_size=5),
    max_leaves=20,
)


def judged(data: bytes) -> Report:
    """The report, which is returned for any bytes, in any role."""
    started = time.process_time()
    report = verify(data, key=KEY, anchor=b"".join(heads_of(LOG)))
    for other in (verify(b"".join(LOG[:5]), anchor=data), check_inclusion(data, anchor=data), check_consistency(data)):
        assert isinstance(other.verdict, Verdict)
    assert time.process_time() - started < 5
    assert report.exit_code in (0, 1, 2, 3)
    assert report.sentence
    assert json.loads(report.as_json())["slug"] == report.slug
    return report


@given(st.binary(max_size=300))
def test_verdict_on_any_bytes(data: bytes) -> None:
    assert judged(data).slug == "unreadable"
    assert judged(FIRST + data).exit_code in (1, 2, 3)


@given(st.lists(SHAPED, max_size=5))
def test_verdict_on_any_lines_of_json(values: list[Any]) -> None:
    lines = [
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        for value in values
    ]

    assert judged(FIRST + b"".join(line + b"\n" for line in lines)).exit_code != 0


@given(st.integers(0, len(LOG) - 1), st.data())
def test_verdict_on_any_other_value_in_a_line(at: int, data: st.DataObject) -> None:
    value = json.loads(LOG[at])
    inside = next(iter(value.values()))
    target = inside if isinstance(inside, dict) and data.draw(st.booleans()) else value
    name = data.draw(st.sampled_from(sorted(target)))
    target[name] = data.draw(JSON)
    changed = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )

    report = judged(b"".join([*LOG[:at], changed, b"\n", *LOG[at + 1 :]]))
    assert changed + b"\n" == LOG[at] or report.exit_code in (1, 2)


@given(st.binary(min_size=1, max_size=160), st.integers(0, 60))
def test_verdict_on_any_seal(seal: bytes, cut: int) -> None:
    import base64

    true = base64.b64decode(SEAL)
    for new in (seal, true[:cut] + seal, true[: len(true) - cut] + seal[:cut]):
        line = canonical({**json.loads(RECORD), "seal": base64.b64encode(new).decode()})
        assert new == true or judged(FIRST + LOG[1] + line).exit_code in (1, 2)


NASTY = {
    "nothing": b"",
    "deep lists": b"[" * 200_000,
    "deep lists that end": b'{"names":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "deep objects": b'{"a":' * 100_000,
    "deep structure": canonical({**json.loads(RECORD), "lines": ["[" * 100_000]}),
    "deep vouch": canonical({**json.loads(RECORD), "lines": ['[4,1.0,"r",0,[],[[20,0]],1]', "[" * 100_000]}),
    "a huge number": b'{"names":' + b"9" * 1_000_000 + b"}\n",
    "a huge time": canonical({**json.loads(RECORD), "lines": ["[2," + "9" * 4_000 + ',"r",0,[],[[20,0]]]']}),
    "an infinite time": canonical({**json.loads(RECORD), "lines": ['[2,1e999,"r",0,[],[[20,0]]]']}),
    "NaN": canonical({**json.loads(RECORD), "lines": ['[2,NaN,"r",0,[],[[20,0]]]']}),
    "a float": b'{"recovered":{"bytes":1.5}}\n',
    "NaN bytes": b'{"recovered":{"bytes":NaN}}\n',
    "keys twice": b'{"recovered":{"bytes":1,"bytes":1}}\n',
    "a surrogate": b'{"names":["\\ud800"]}\n',
    "a surrogate in a digest": b'{"begin":{"digests":{"\\ud800":"00"},"seq":1}}\n',
    "bytes that are not UTF-8": b'{"names":["\xff"]}\n',
    "UTF-16": '{"names":[]}\n'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + FIRST,
    "zeros": bytes(100_000),
    "newlines": b"\n" * 10_000,
    "a tree of a huge size": canonical(
        {"begin": {"digests": {"\x00": "00" * 32, "\x00tree": "9" * 4_000 + ":"}, "seq": 1}}
    ),
    "a count that is too large": canonical({**json.loads(RECORD), "count": 2**32}),
    "a number that is too large": canonical({**json.loads(RECORD), "seq": 2**64}),
    "macs that are not there": canonical({**json.loads(RECORD), "seal": "Av8" + "A" * 121}),
}


@pytest.mark.parametrize("what", NASTY)
def test_verdict_on_a_hostile_file(what: str) -> None:
    data = NASTY[what]

    assert judged(data).exit_code in (1, 2)
    assert judged(FIRST + data).exit_code in (1, 2, 3)
    assert judged(FIRST + LOG[1] + RECORD + data).exit_code in (1, 2, 3)
    assert judged(FIRST + LOG[1] + data + RECORD).exit_code in (1, 2, 3)


def test_directory_or_missing_file_is_unreadable(tmp_path: Any) -> None:
    assert verify(tmp_path).slug == verify(tmp_path / "none").slug == "unreadable"
    assert verify(b"".join(LOG), anchor=tmp_path / "none").slug == "unreadable"


def test_findings_are_limited_and_counted() -> None:
    report = verify(FIRST + LOG[1] + b"{}\n" * 1_000)

    assert [one.slug for one in report.findings].count("altered") == offline.MOST_FINDINGS
    assert report.more_findings > 800


class Endless(io.RawIOBase):
    """A line that never ends."""

    def __init__(self) -> None:
        self.given = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert size > 0
        self.given += size
        return b"x" * size


def test_endless_line_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MOST_BYTES", 10_000)
    endless: Any = Endless()

    assert verify(endless).slug == "unreadable"
    assert endless.given < 20_000


def test_memory_grows_with_the_digests_of_a_log_only() -> None:
    """The records are read one at a time: 1,000 more of them need less than 100 bytes each."""

    def peak(lines: list[bytes]) -> int:
        file: Any = Lines(lines)
        tracemalloc.start()
        report = verify(file)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert report.records > 0
        return most

    short, long = chained(500), chained(1_500)
    peak(short)
    assert peak(long) - peak(short) < 100 * 1_000


class Lines:
    """A file that does not store its lines."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = iter(lines)

    def readline(self, _size: int) -> bytes:
        return next(self._lines, b"")


def chained(number: int) -> list[bytes]:
    from tests.audit.small_logs import made

    return made(*[None] * number)
