"""Exceptions for values that cannot be stored and for damaged data, and the size limits of the stored form.

The modules for the individual types decide which values are refused.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "BLOB_BYTES",
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_INT",
    "MIN_INT",
    "TAG",
    "TOO_LONG",
    "ClassChangedError",
    "DamagedError",
    "NotStorable",
    "step_into",
]

TAG: Final = "$t"
"""Key of the type tag: a JSON object with this key is not a plain dict."""
MAX_DEPTH: Final = 100
"""Maximum number of levels of nested containers. Each is at most two levels of JSON, and pydantic_core's JSON parser
accepts 200."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""Greatest length of one encoded value, in bytes."""
TOO_LONG: Final = f"is longer than {MAX_BYTES // 1024**2} MiB when it is encoded"
"""Refusal reason for a value above MAX_BYTES. It has its own remedy (`NotStorable.fix`)."""
BLOB_BYTES: Final = 64 * 1024
"""Length in bytes above which the encoded value of a field is stored as a blob, under its SHA-256."""
MAX_INT: Final = 10**4300
"""The smallest positive integer that is refused. Python's `int()` reads texts of up to 4,300 digits by default."""
MIN_INT: Final = -(10**4299)
"""The greatest negative integer that is refused: the JSON parser of pydantic 2.14.0 and older counts the sign as a digit."""

_SHOWN_KEY: Final = 40
"""Maximum number of characters of a dict key that a path shows."""


class NotStorable(ValueError):  # noqa: N818 - private: callers turn it into a public error
    """A value cannot be stored exactly, so it is not stored at all.

    The encoder of the innermost value raises it. The enclosing encoders add their position (`inside`), and the codec
    adds the name that its caller gave (`below`). The engine and the runtime then raise an error for the user.

    Args:
        why: The reason, as the attribute `why`.
        path: Location of the outermost value, for instance the name of a field.
    """

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(why, path)
        self.why = why
        """The reason, as a clause about the value at `path` without its subject, for instance "is a lock"."""
        self._steps: list[str] = []
        self._prefix = path

    def inside(self, step: str) -> None:
        """Add *step* to the path: the value is at *step* of another one, for instance `[3]`, or `` for the same place.

        Called from the innermost value outwards.
        """
        self._steps.append(step)

    def below(self, prefix: str) -> None:
        """Set the location of the outermost value, with which the path begins."""
        self._prefix = prefix

    @property
    def fix(self) -> str:
        """The remedy for the user's error message: a sentence without the final period."""
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
        """The path of the value as an expression, such as `notes[3].when`; empty for the outermost value."""
        text = self._prefix + "".join(reversed(self._steps))
        return text.removeprefix(".")

    def __str__(self) -> str:
        return f"The value{f' at {self.path}' if self.path else ''} cannot be stored: it {self.why}."


class DamagedError(ValueError):
    """Stored data is not in the form that the codec writes."""


class ClassChangedError(DamagedError):
    """Stored data does not fit its class. Most likely, the class has changed since the data was written."""


def step_into(key: Any) -> str:
    """Return the step of a path that leads to the value under *key* of a dict: `.name` or `[key]`, shortened."""
    if key.__class__ is str and key.isidentifier():
        return f".{key}"
    # For any other key only the class is shown, because its repr() is user code.
    text = ascii(key) if key.__class__ in (str, bytes, int, float, bool, type(None)) else type(key).__name__
    return f"[{text if len(text) <= _SHOWN_KEY else text[:_SHOWN_KEY] + '...'}]"
