"""A log of a shop of any size: requests, releases, and one release that breaks the checkout."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import NamedTuple

_SERVICES = ("checkout", "search", "catalogue", "login")


class Truth(NamedTuple):
    """The facts hidden in the log."""

    release: str
    failed: int
    """Failed requests of the checkout."""


def write_log(path: Path, size: int, seed: int = 7) -> Truth:
    """Write at least *size* characters, and return the hidden facts."""
    chance, written, failed, second = Random(seed), 0, 0, 0  # noqa: S311 - the log is deterministic
    releases, bad = [size * part // 5 for part in (1, 2, 3, 4)], 3
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            second += chance.randrange(1, 4)
            if releases and written >= releases[0]:
                number = 5 - len(releases)
                releases.pop(0)
                line = f"{second:08d} deploy checkout release=v{number} by=ci\n"
                if number == bad:
                    line += f"{second + 1:08d} alert checkout: error rate above 5 % since release v{number}\n"
            else:
                service = chance.choice(_SERVICES)
                broken = len(releases) <= 4 - bad and service == "checkout" and chance.random() < 0.07
                failed += broken
                status, user = (500 if broken else 200), chance.randrange(10_000)
                line = (
                    f"{second:08d} request service={service} status={status} ms={chance.randrange(900)} user={user}\n"
                )
            file.write(line)
            written += len(line)
    return Truth(release=f"v{bad}", failed=failed)
