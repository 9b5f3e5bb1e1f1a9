"""`Redaction`: rules by which values are redacted when they enter a thread (decision 0126).

`_sensitive_texts` has the patterns, and `_error_texts` redacts errors. The codec walks over a value, and this module
redacts each text in it.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, final

from graphrt._arguments import is_list
from graphrt._codec import NotStorable
from graphrt._codec.texts import CannotHoldError
from graphrt._sensitive_texts import FINDERS, Found, PatternName, TextPattern
from graphrt.audit._error_texts import redacted_error
from graphrt.audit._keys import check_strength
from graphrt.errors import AuditError, a_type
from graphrt.errors._codes.audit import BAD_REDACTION_RULES, REDACTION_FAILED, REDACTION_MISFIT

if TYPE_CHECKING:
    from graphrt._codec import Codec

__all__ = ["Redaction"]

_PATH: Final = re.compile(r"[^\W\d][\w-]{0,99}(?:\.[\w-]{1,100}){0,19}")
_HEX: Final = 16
"""Characters of a pseudonym: 64 bits, so that a collision among a million texts has a probability below 10^-7."""


@final
class Redaction:
    """Rules that redact values before they are stored.

    A text that a rule applies to is replaced by a mask such as `<email>`; with a *key*, by a pseudonym such as
    `<email:3f9a0c21d4b8e657>`, which is the same for every occurrence of a text. Only texts are replaced. A number or a
    time in a named field stops the run, because it cannot be replaced by a text.

    Args:
        fields: Paths of fields whose texts are replaced as a whole, such as `iban` or `customer.email`. A path applies
            wherever its names occur in sequence on the way to a text, through models, dataclasses and mappings. It also
            applies in answers, effects and JSON objects that models write. The keys of messages and tool calls, such as
            the name of a tool, are not fields.
        patterns: Patterns to replace in all texts: names of ready-made patterns, and `TextPattern`s.
        key: 32 or more random bytes, as `generate_key` makes them, for pseudonyms. None gives masks.

    Raises:
        InputError: An argument has a wrong type or value (`bad-redaction-rules`), or the key is weak (`weak-key`).
    """

    __slots__ = ("_fields", "_key", "_marked", "_patterns", "_tokens")

    def __init__(
        self,
        *,
        fields: Sequence[str] = (),
        patterns: Sequence[PatternName | TextPattern] = (),
        key: bytes | None = None,
    ) -> None:
        if key is not None:
            check_strength(key)
        for name, argument in (("fields=", fields), ("patterns=", patterns)):
            if not is_list(argument):
                raise BAD_REDACTION_RULES(what=name, problem=f"it takes a list, not {a_type(argument)}")
        paths: Sequence[Any] = fields
        for path in paths:
            if not isinstance(path, str) or _PATH.fullmatch(path) is None:
                raise BAD_REDACTION_RULES(what="fields=", problem=f"{path!r} is not a path such as 'customer.email'")
        self._key: Final = key
        self._fields: Final = tuple((path, tuple(path.split("."))) for path in dict.fromkeys(fields))
        self._patterns: Final = _patterns(patterns)
        self._marked: frozenset[str] = frozenset()
        self._tokens = self._token_pattern()

    def __repr__(self) -> str:
        fields, names = [path for path, _ in self._fields], [*self._patterns]
        return f"Redaction(fields={fields}, patterns={names}, {'pseudonyms' if self._key else 'masks'})"

    # -- what the engine calls -----------------------------------------------------------------------------------

    def value(
        self, codec: Codec, value: Any, field: str, *, marked: bool, fits: Callable[[Any], Any] | None, what: str
    ) -> Any:
        """Return *value* redacted; see `_engine.redactor.Redactor`."""
        if not (marked or self._fields or self._patterns):
            return value
        if marked and field not in self._marked:
            self._know({field})
        rules = self._texts(field if marked else "", what)
        try:
            redacted = codec.rewrite(value, field, rules)
            return redacted if redacted is value or fits is None else fits(redacted)
        except (NotStorable, AuditError):
            raise
        except CannotHoldError as error:
            problem = str(error)
        except Exception:  # noqa: BLE001 - the user's validator may raise anything, and quote the value
            problem = "its type does not accept the text"
        raise REDACTION_MISFIT(rule=rules.rule, what=what, problem=problem)

    def error(self, error: BaseException) -> BaseException:
        """Return *error* redacted; see `_engine.redactor.Redactor`."""
        if not (self._fields or self._patterns):
            return error
        return redacted_error(error, self._texts(what="an error").shown)

    def label(self, marked: frozenset[str]) -> str:
        """Return the rules and a digest of them, for the log.

        The digest distinguishes configurations and reveals nothing about the key.
        """
        self._know(marked)
        fields = [path for path, _ in self._fields]
        patterns = [
            [pattern.name, pattern.regex.pattern, pattern.regex.flags] if isinstance(pattern, TextPattern) else pattern
            for pattern in self._patterns.values()
        ]
        rules = {"fields": fields, "marked": sorted(marked), "patterns": patterns, "pseudonyms": self._key is not None}
        text = json.dumps(rules, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        names = ",".join((*sorted({*fields, *marked}), *self._patterns))
        return f"{names} sha256:{sha256(text.encode()).hexdigest()[:32]}"

    def _texts(self, marked: str = "", what: str = "a text") -> _Texts:
        """Return the rules for the walk over one value; *marked* is its field, if that is marked `redacted`."""
        return _Texts(self, marked, what)

    # -- texts ---------------------------------------------------------------------------------------------------

    def _know(self, marked: set[str] | frozenset[str]) -> None:
        """Remember the masks of *marked* fields, so that they are not redacted again."""
        if not self._marked.issuperset(marked):
            self._marked |= marked
            self._tokens = self._token_pattern()

    def _token_pattern(self) -> re.Pattern[str]:
        names = sorted({*(path for path, _ in self._fields), *self._patterns, *self._marked})
        known = "|".join(map(re.escape, names)) or "(?!)"
        # A pseudonym contains a letter, which distinguishes it from a card number between < and >.
        return re.compile(rf"(<(?:{known})(?::(?=[0-9]*[a-f])[0-9a-f]{{{_HEX}}})?>)")

    def _token(self, rule: str, same: str) -> str:
        if self._key is None:
            return f"<{rule}>"
        message = f"{rule}\0{same}".encode(errors="surrogatepass")
        number = hmac.new(self._key, message, sha256).hexdigest()
        windows = (number[at : at + _HEX] for at in range(len(number) - _HEX))
        return f"<{rule}:{next((window for window in windows if not window.isdigit()), 'a' * _HEX)}>"

    def _rule_of(self, names: tuple[str, ...]) -> str:
        """Return the path that applies to a text at *names*; empty if none does."""
        for path, parts in self._fields:
            size = len(parts)
            if any(names[at : at + size] == parts for at in range(len(names) - size + 1)):
                return path
        return ""


@final
class _Texts:
    """Replaces the texts of one value; implements `_codec.texts.TextRules`."""

    __slots__ = ("_marked", "_redaction", "_what", "rule")

    def __init__(self, redaction: Redaction, marked: str, what: str) -> None:
        self._redaction = redaction
        self._marked = marked
        self._what = what
        self.rule = ""
        """The last rule that applied."""

    def text(self, text: str, names: tuple[str, ...]) -> str:
        redaction = self._redaction
        rule = self._marked or redaction._rule_of(names)
        if rule:
            self.rule = rule
            return text if not text or redaction._tokens.fullmatch(text) else redaction._token(rule, text)
        if redaction._fields and text[:1] in ("{", "["):
            text = self._inside_json(text, names)
        return self.shown(text)

    def other(self, kind: str, names: tuple[str, ...]) -> None:
        rule = self._marked or self._redaction._rule_of(names)
        if rule:
            self.rule = rule
            raise CannotHoldError(f"a value of type {kind} is not a text")

    def shown(self, text: str) -> str:
        """Return *text* with the matches of all patterns replaced."""
        redaction = self._redaction
        if not redaction._patterns:
            return text
        for name, pattern in redaction._patterns.items():
            find = pattern.find if isinstance(pattern, TextPattern) else FINDERS[pattern]
            # Earlier replacements stay: the parts at odd indexes are masks and pseudonyms.
            parts = redaction._tokens.split(text)
            parts[::2] = [self._replaced(part, name, find) for part in parts[::2]]
            text = "".join(parts)
        return text

    def _replaced(self, text: str, name: str, find: Callable[[str], Iterator[Found]]) -> str:
        failed = ""
        pieces: list[str] = []
        end = 0
        try:
            for match in find(text):
                pieces += (text[end : match.start], self._redaction._token(name, match.same))
                end = match.end
        except Exception as error:  # noqa: BLE001 - the user's check= may raise anything
            failed = type(error).__name__
        if failed:  # raised outside the `except`: the rule's exception may quote the value
            raise REDACTION_FAILED(rule=name, error=failed, what=self._what)
        if not pieces:
            return text
        self.rule = name
        return "".join((*pieces, text[end:]))

    def _inside_json(self, text: str, names: tuple[str, ...]) -> str:
        """Replace fields inside a text that is a JSON object or array, such as a model's answer."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(data, (dict, list)):
            return text
        redacted = self._json(data, names)
        return text if redacted == data else json.dumps(redacted, ensure_ascii=False)

    def _json(self, data: Any, names: tuple[str, ...]) -> Any:
        if data.__class__ is dict:
            return {key: self._json(value, (*names, key)) for key, value in data.items()}
        if data.__class__ is list:
            return [self._json(value, names) for value in data]
        rule = self._redaction._rule_of(names)
        if (
            not rule
            or data is None
            or (isinstance(data, str) and (not data or self._redaction._tokens.fullmatch(data)))
        ):
            return data
        self.rule = rule
        return self._redaction._token(rule, data if isinstance(data, str) else json.dumps(data))


def _patterns(patterns: Sequence[Any]) -> dict[str, str | TextPattern]:
    """Return the patterns by name: the user's own first, then the ready-made ones in their own order.

    Raises:
        InputError: A pattern is unknown, or two have the same name.
    """
    own: dict[str, str | TextPattern] = {}
    for pattern in patterns:
        name = pattern.name if isinstance(pattern, TextPattern) else pattern
        if not isinstance(pattern, TextPattern) and pattern not in tuple(FINDERS):
            raise BAD_REDACTION_RULES(
                what="patterns=", problem=f"{pattern!r} is neither a TextPattern nor one of {', '.join(FINDERS)}"
            )
        if name in own or (isinstance(pattern, TextPattern) and name in FINDERS):
            raise BAD_REDACTION_RULES(what="patterns=", problem=f"two patterns have the name {name!r}")
        own[name] = pattern
    mine = {name: pattern for name, pattern in own.items() if isinstance(pattern, TextPattern)}
    return {**mine, **{name: name for name in FINDERS if name in own}}
