"""Why a value is not written, or what was written cannot be read; and the bounds of both.

Two private exceptions and the numbers they quote. What is refused is decided where the kind of value is known.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "BLOB_BYTES",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INT",
    "TAG",
    "TOO_LONG",
    "DamagedError",
    "NotStorable",
    "step_into",
]

TAG: Final = "$t"
"""The key that marks an object of the form as more than a dict."""
MAX_DEPTH: Final = 100
"""Levels of containers. Each takes at most two levels of JSON, and the reader of JSON stops after 200."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Length of one encoded value."""
TOO_LONG: Final = f"is longer than {MAX_BYTES // 1024**2} MiB when it is encoded"
BLOB_BYTES: Final = 64 * 1024
"""An encoded value of a field that is longer is kept apart, under its hash."""
MAX_INT: Final = 10**4300
"""The first integer that Python itself refuses to read from text."""

_SHOWN_KEY: Final = 40


class NotStorable(ValueError):  # noqa: N818 - private control flow of floor 0, turned into a public error above
    """The value cannot be written exactly, so it is not written at all."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(why, path)
        self.why = why
        """What is wrong with the value at `path`, a clause without a subject: "is a lock"."""
        self._steps: list[str] = []
        self._prefix = path

    def inside(self, step: str) -> None:
        """Note that the value stands inside another, at *step*; called from the innermost outwards."""
        self._steps.append(step)

    def below(self, prefix: str) -> None:
        """Note the path of the outermost value."""
        self._prefix = prefix

    @property
    def fix(self) -> str:
        """What helps, a sentence without its full stop."""
        if self.why == TOO_LONG:
            return (
                "Put it into a file or a store of its own and keep its path or reference, mark the field untracked, "
                "or split it over several fields or updates"
            )
        return (
            "Keep it out of the state, mark the field untracked, or make its class storable with "
            "graphrt.stores.register_type()"
        )

    @property
    def path(self) -> str:
        """Where the value stands, as an expression: `notes[3].when`; empty for the outermost."""
        text = self._prefix + "".join(reversed(self._steps))
        return text.removeprefix(".")

    def __str__(self) -> str:
        return f"The value{f' at {self.path}' if self.path else ''} cannot be stored: it {self.why}."


class DamagedError(ValueError):
    """What was read is not what the codec writes."""


def step_into(key: Any) -> str:
    """The step of a path that leads to the value under *key* of a dict."""
    if key.__class__ is str and key.isidentifier():
        return f".{key}"
    text = ascii(key) if key.__class__ in (str, bytes, int, float, bool, type(None)) else type(key).__name__
    return f"[{text if len(text) <= _SHOWN_KEY else text[:_SHOWN_KEY] + '...'}]"
