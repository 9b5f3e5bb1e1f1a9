"""Human-readable amounts: bytes, seconds, counts, times."""

from __future__ import annotations

from datetime import datetime


def size(amount: float) -> str:
    """Format a number of bytes for people, in powers of 1,000."""
    for unit in ("B", "kB", "MB"):
        if amount < 1_000:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1_000
    return f"{amount:,.1f} GB"


def duration(seconds: float) -> str:
    """Format seconds for people."""
    if seconds < 1:
        return f"{seconds * 1_000:.1f} ms" if seconds < 0.1 else f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def moment(at: float) -> str:
    """Return a time in seconds since the epoch as local date and time."""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):  # a user's own clock may return any time
        return f"{at:g}"
