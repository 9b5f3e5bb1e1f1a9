"""Regular expressions by RE2, whose time is linear in the text: `pip install 'graphrt[regex-search]'`.

This is the only file that imports `re2`. Models write the expressions, so `re`, which backtracks, is not a substitute.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from graphrt.nodes._recursive.globs import PatternError, check_length

__all__ = ["RegularExpression"]

_MAX_WORK: Final = 2_000_000_000
"""Maximum product of instructions and characters. If its states do not fit into memory, RE2 takes a step for each:
about a minute. A bound in seconds would make the result of a search depend on the machine."""
_NOT_HERE: Final = (
    "regular expressions are not available here. Search with syntax 'literal' for a text as it is, "
    "or with 'glob', where * stands for any characters of a line, ? for one, and [a-z] for one of a set"
)


class RegularExpression:
    """An expression in the syntax of RE2, ready to search. `^` and `$` are the ends of a line.

    Args:
        source: The expression.
        length: Characters that it will search.
        ignore_case: Whether upper and lower case are the same.

    Raises:
        PatternError: It is invalid, too long, too large for the text, matches an empty text, or RE2 is not installed.
    """

    def __init__(self, source: str, *, length: int, ignore_case: bool = False) -> None:
        check_length(source)
        re2 = _re2()
        options = re2.Options()
        options.never_nl = True
        options.log_errors = False
        options.case_sensitive = not ignore_case
        try:
            re2.compile(source, options)  # without the flag first, so that error messages do not quote the flag
            compiled = re2.compile(f"(?m){source}", options)
        except re2.error as error:
            problem = error.args[0] if error.args else ""
            raise PatternError(problem.decode("utf-8", "replace") if isinstance(problem, bytes) else problem) from None
        size = max(compiled.programsize, compiled.reverseprogramsize)
        if size * length > _MAX_WORK:
            raise PatternError(f"it is too large for {length} characters: search {_MAX_WORK // size} at a time")
        if compiled.fullmatch("") is not None:
            raise PatternError("it matches an empty text")
        self._compiled: Final[Any] = compiled

    def spans(self, lines: str, /) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match in *lines*; see `LinePattern.spans`."""
        for match in self._compiled.finditer(lines):
            start, end = match.span()
            if start < end:
                yield start, end


def _re2() -> Any:
    """Return the module of google-re2, which has no types.

    Raises:
        PatternError: It is not installed.
    """
    try:
        re2 = import_module("re2")
    except ImportError:
        raise PatternError(_NOT_HERE) from None
    if not hasattr(re2, "Options"):  # another package has a module of that name, and may fall back to `re`
        raise PatternError(_NOT_HERE)
    return re2
