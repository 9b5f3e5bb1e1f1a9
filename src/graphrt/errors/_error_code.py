"""Declarations of errors and findings: one value holds the code, the class and the texts, a call fills in the rest.

The values themselves are in `_codes`. A raise names one and gives the fields of its templates:

    raise UNKNOWN_THREAD(thread=thread)

A template is a `str.format` text whose fields are plain names. Besides the usual conversions and format specifications
it knows `{items:names}`, `{value:brief}`, `{value:type}`, `{value:a_type}`, `{noun:a}`, `{error:described}`,
`{number:count entry}` for a number, or the length of a collection, with its noun, and `{items:is|are}`, which chooses by
the number, or by the length of a collection. An error must not be lost while its text is made: a field that is missing,
or a `__repr__` that raises, leaves a mark in the text. A test over the syntax tree finds missing fields.

Declarations are plain classes with `Final` attributes, because `import graphrt` makes some 250 of them: two frozen
dataclasses cost 3 ms, two named tuples 0.5 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar, overload

from graphrt.errors import GraphrtError, Place, Problem, _words, describe_error

_E_co = TypeVar("_E_co", bound=GraphrtError, covariant=True)  # frozen: nothing puts another class in
_F = TypeVar("_F", bound=GraphrtError)


class ErrorCode(Generic[_E_co]):
    """One text of an error code. Calling it returns the error.

    A field of a call that is a data attribute of the class, such as `node` or `thread`, becomes an attribute of the error,
    whether a template shows it or not.

    Args:
        code: Stable slug, with a section in `docs/errors.md`.
        error: Class of the error.
        what: Template of the first line: what happened, with the value.
        known: Template of the "Known" line; empty for none.
        fix: Template of the "Fix" line; empty for none.
        where: Template of the "Where" line; empty if the call gives it, or the attributes say enough.
        boundary: The error passes through its run as it is, instead of becoming the cause of a `NodeError`.
    """

    __slots__ = ("boundary", "code", "error", "fix", "known", "what", "where")

    def __init__(
        self,
        code: str,
        error: type[_E_co],
        what: str,
        known: str = "",
        fix: str = "",
        where: str = "",
        *,
        boundary: bool = False,
    ) -> None:
        self.code: Final = code
        self.error: Final = error
        self.what: Final = what
        self.known: Final = known
        self.fix: Final = fix
        self.where: Final = where
        self.boundary: Final = boundary

    def __call__(
        self,
        *,
        where: str | Place | None = None,
        known: str | None = None,
        fix: str | None = None,
        guess: str = "",
        boundary: bool | None = None,
        **fields: Any,
    ) -> _E_co:
        """Return the error.

        Args:
            where: Where it happened; None takes the declaration's.
            known: "Known" line, if the declaration's does not fit.
            fix: "Fix" line, if the declaration's does not fit.
            guess: Name that was probably meant, and becomes the "Fix" line; empty for none.
            boundary: Whether it passes through its run as it is; None takes the declaration's.
            **fields: The fields of all templates that are used, and more attributes of the error.
        """
        attributes = {name: value for name, value in fields.items() if name in self.error._data_attributes}
        if self.boundary if boundary is None else boundary:
            attributes["boundary"] = True
        if guess:
            fix = f"Did you mean {guess!r}?"
        return self.error(
            fill(self.what, fields),
            code=self.code,
            where=fill(self.where, fields) if where is None else where,
            known=fill(self.known, fields) if known is None else known,
            fix=fill(self.fix, fields) if fix is None else fix,
            **attributes,
        )

    @overload
    def variant(
        self,
        what: str,
        *,
        known: str = "",
        fix: str = "",
        where: str | None = None,
        boundary: bool | None = None,
    ) -> ErrorCode[_E_co]: ...
    @overload
    def variant(
        self,
        what: str,
        *,
        error: type[_F],
        known: str = "",
        fix: str = "",
        where: str | None = None,
        boundary: bool | None = None,
    ) -> ErrorCode[_F]: ...
    def variant(
        self,
        what: str,
        *,
        error: type[Any] | None = None,
        known: str = "",
        fix: str = "",
        where: str | None = None,
        boundary: bool | None = None,
    ) -> ErrorCode[Any]:
        """Return another text of this code, for when the caller has to do something else.

        Its class, `where` and `boundary` are those of this text unless they are given.
        """
        return ErrorCode(
            self.code,
            error or self.error,
            what,
            known,
            fix,
            self.where if where is None else where,
            boundary=self.boundary if boundary is None else boundary,
        )


class Finding:
    """One text of a finding of `compile()`. Calling it returns the problem.

    Args:
        code: Stable slug, with a section in `docs/errors.md`.
        what: Template of what is wrong, with the names.
        fix: Template of what to do; empty for none.
        judgement: It considers what routers could do, and `compile(allow=...)` accepts it by its code.
    """

    __slots__ = ("code", "fix", "judgement", "what")

    def __init__(self, code: str, what: str, fix: str = "", *, judgement: bool = False) -> None:
        self.code: Final = code
        self.what: Final = what
        self.fix: Final = fix
        self.judgement: Final = judgement

    def __call__(
        self, *, node: str | None = None, where: str = "", fix: str | None = None, guess: str = "", **fields: Any
    ) -> Problem:
        """Return the problem.

        Args:
            node: Name of the node that it is about; None if it is about the graph. The templates may show it.
            where: `file:line` of the call that declared it; empty if unknown.
            fix: The fix, if that of the declaration does not fit.
            guess: Name that was probably meant, and becomes what to do; empty for none.
            **fields: The fields of the templates.
        """
        fields["node"] = node
        if guess:
            fix = f"Did you mean {guess!r}?"
        hint = fill(self.fix, fields) if fix is None else fix
        return Problem(code=self.code, message=fill(self.what, fields), node=node, hint=hint, where=where)

    def variant(self, what: str, *, fix: str = "") -> Finding:
        """Return another text of this code."""
        return Finding(self.code, what, fix, judgement=self.judgement)


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "names": lambda items: _words.names(items) or "none",
    "a_type": _words.a_type,
    "a": _words.a,
    "described": describe_error,
    "brief": _words.brief,
    "type": lambda value: type(value).__name__,
}
"""Format specifications of templates, beside those of the values themselves."""
_COUNT: Final = "count "


def fill(template: str, fields: Mapping[str, Any]) -> str:
    """Return *template* with *fields* filled in. A field that is missing, or cannot be shown, leaves a mark."""
    if "{" not in template and "}" not in template:
        return template
    from string import Formatter  # imported here: most programs never raise

    parts: list[str] = []
    for text, name, spec, conversion in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(_shown(fields[name], spec or "", conversion) if name in fields else f"{{{name}}}")
    return "".join(parts)


def _shown(value: Any, spec: str, conversion: str | None) -> str:
    """Return *value* as a template shows it; its class if it cannot be shown."""
    try:
        if conversion == "r":
            return repr(value)
        if "|" in spec:
            singular, _, plural = spec.partition("|")
            return singular if (value if isinstance(value, int) else len(value)) == 1 else plural
        if spec.startswith(_COUNT):
            return _words.count(value if isinstance(value, int) else len(value), spec.removeprefix(_COUNT))
        if spec in _WORDS:
            return _WORDS[spec](value)
        return format(value, spec)
    except Exception:  # noqa: BLE001 - user code; the error that is reported matters more
        return f"<{type(value).__name__}>"
