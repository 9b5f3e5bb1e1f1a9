"""Patterns of personal data in texts: ready-made ones, and the user's own, which are bounded.

What replaces a match is in `_redaction`.

A match must cost little, whatever the text. The ready-made expressions have counted repeats only. For the user's own,
`TextPattern` counts in how many ways an expression can match at one place: a repeat has one way for each count, ways in
sequence multiply, alternatives add up. A backtracking matcher takes at most that many ways, of at most the length of
the longest match. So the time for a text is linear in its length.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final, get_args

from graphrt.errors import a_type
from graphrt.errors._codes.audit import BAD_RULES, UNBOUNDED_PATTERN

__all__ = ["FINDERS", "Found", "PatternName", "TextPattern"]

PatternName: TypeAlias = Literal["email", "phone", "card", "iban", "ip"]
"""A ready-made pattern: e-mail addresses; telephone numbers; card numbers, with the Luhn check; IBANs, with their check
digits; IP addresses of both versions."""
LONGEST: Final = 1_000
"""Most characters of a match of the user's own patterns."""
MOST_WAYS: Final = 10_000
"""Most ways in which such an expression may match at one place."""
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class Found(NamedTuple):
    """A match in a text."""

    start: int
    end: int
    same: str
    """The match in one spelling, so that each spelling gets the same pseudonym."""


Finder: TypeAlias = Callable[[str], Iterator[Found]]

_EMAIL: Final = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_PHONE: Final = re.compile(
    r"(?<![\w+])(?:(?:\+|00)[1-9](?:[ ().\-/]{0,2}\d){6,13}"  # international
    r"|\(?0[1-9]\d{0,3}\)?[ \-/]?(?: ?\d){5,9}"  # national, with a zero before the area code
    r"|\(?[2-9]\d\d\)?[ .-]\d{3}[ .-]\d{4})(?!\d)"  # North America
)
_DIGITS: Final = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,}")
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]){11,30}")
_LENGTHS: Final = {
    country: int(size)
    for size, countries in (
        ("15", "NO"), ("16", "BE"), ("18", "DK FI FK FO GL NL SD"), ("19", "MK SI"),
        ("20", "AT BA EE KZ LT LU MN XK"), ("21", "CH HR LI LV"), ("22", "BG BH CR DE GB GE IE ME RS VA"),
        ("23", "AE GI IL IQ OM SO TL"), ("24", "AD CZ ES MD PK RO SA SE SK TN VG"), ("25", "LY PT ST"),
        ("26", "IS TR"), ("27", "BI DJ FR GR IT MC MR SM"), ("28", "AL AZ BY CY DO GT HN HU LB NI PL SV"),
        ("29", "BR EG PS QA UA"), ("30", "JO KW MU YE"), ("31", "MT SC"), ("32", "LC"), ("33", "RU"),
    )
    for country in countries.split()
}  # fmt: skip
"""Length of an IBAN by country, as in the IBAN registry of SWIFT (ISO 13616)."""
_IPV4: Final = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f.]{0,15}){2,8}")


def _emails(text: str) -> Iterator[Found]:
    if "@" in text:
        for match in _EMAIL.finditer(text):
            yield Found(match.start(), match.end(), match[0].lower())


def _phones(text: str) -> Iterator[Found]:
    for match in _PHONE.finditer(text):
        yield Found(match.start(), match.end(), re.sub(r"\D", "", match[0]))


def _cards(text: str) -> Iterator[Found]:
    """Find card numbers in runs of digits. A number begins and ends with the run, or where a group of it does."""
    for match in _DIGITS.finditer(text):
        run = match[0]
        at = [place for place, char in enumerate(run) if char.isdigit()]
        first = 0
        while first + 13 <= len(at):
            begins = at[first] == 0 or not run[at[first] - 1].isdigit()
            found = 0
            for size in range(min(19, len(at) - first), 12, -1) if begins and run[at[first]] in "23456" else ():
                last = at[first + size - 1]
                if last + 1 < len(run) and run[last + 1].isdigit():
                    continue
                if _luhn(number := "".join(run[place] for place in at[first : first + size])):
                    yield Found(match.start() + at[first], match.start() + last + 1, number)
                    found = size
                    break
            first += found or 1


def _luhn(number: str) -> bool:
    total = 0
    for place, char in enumerate(reversed(number)):
        digit = int(char) * (1 + place % 2)
        total += digit - 9 * (digit > 9)
    return total % 10 == 0


def _ibans(text: str) -> Iterator[Found]:
    """Find IBANs, whose length the country says: words behind one look like more of it."""
    at = 0
    while match := _IBAN.search(text, at):
        at = match.start() + 1
        size = _LENGTHS.get(match[0][:2].upper(), 0)
        places = [place for place, char in enumerate(match[0]) if char != " "][:size]
        if len(places) < size or not size:
            continue
        end = match.start() + places[-1] + 1
        code = text[match.start() : end].replace(" ", "").upper()
        if text[end : end + 1].isalnum() or not code.isascii():
            continue
        if int("".join(str(int(char, 36)) for char in code[4:] + code[:4])) % 97 == 1:
            yield Found(match.start(), end, code)
            at = end


def _addresses(text: str) -> Iterator[Found]:
    found = [*_valid(_IPV4, text), *(_valid(_IPV6, text) if ":" in text else ())]
    end = -1
    for one in sorted(found):
        if one.start >= end:  # an IPv6 address may end with an IPv4 one
            yield one
            end = one.end


def _valid(pattern: re.Pattern[str], text: str) -> Iterator[Found]:
    for match in pattern.finditer(text):
        said = match[0].rstrip(".") if match[0].endswith((".", "::")) else match[0].rstrip(".:")
        try:
            same = str(ipaddress.ip_address(said))
        except ValueError:
            continue
        if any(char.isalnum() for char in said):
            yield Found(match.start(), match.start() + len(said), same)


FINDERS: Final[dict[str, Finder]] = {
    "iban": _ibans,
    "card": _cards,
    "email": _emails,
    "ip": _addresses,
    "phone": _phones,
}
"""The ready-made patterns, in the order in which they are applied: what is longer and checked goes first."""
if set(FINDERS) != set(get_args(PatternName)):
    raise AssertionError


@final
class TextPattern:
    """A pattern of the user's own.

    Args:
        name: Name for the log and for what replaces a match, such as `customer-number`.
        regex: The compiled expression. It is bounded: without `*`, `+`, `{n,}` and references to groups, with matches
            of 1 to 1,000 characters, and at most 10,000 ways to match at one place.
        check: Tells whether a match is meant, for instance by its check digits; None takes every match.

    Raises:
        InputError: An argument has a wrong type, or the expression is not bounded (`bad-redaction-rules`).
    """

    __slots__ = ("check", "name", "regex")

    def __init__(self, name: str, regex: re.Pattern[str], *, check: Callable[[str], bool] | None = None) -> None:
        text: Any = name  # what type checkers promise, a caller may not keep
        given: Any = regex
        if not isinstance(text, str) or NAME.fullmatch(text) is None:
            raise BAD_RULES(what="The name of a pattern", problem=f"{name!r} is not a word of 1 to 40 characters")
        if given.__class__ is not re.Pattern or given.pattern.__class__ is not str:
            raise BAD_RULES(
                what=f"The pattern {name!r}", problem=f"it is {a_type(regex)}, not a compiled expression of texts"
            )
        if check is not None and not callable(check):
            raise BAD_RULES(what=f"check= of the pattern {name!r}", problem="it is not a function")
        problem = unbounded(regex)
        if problem:
            raise UNBOUNDED_PATTERN(name=name, problem=problem, longest=LONGEST, ways=MOST_WAYS)
        self.name: Final = name
        self.regex: Final = regex
        self.check: Final = check

    def __repr__(self) -> str:
        return f"TextPattern({self.name!r})"

    def find(self, text: str) -> Iterator[Found]:
        """Yield the matches in *text*."""
        for match in self.regex.finditer(text):
            if self.check is None or self.check(match[0]):
                yield Found(match.start(), match.end(), match[0])


class _UnboundedError(ValueError):
    pass


def unbounded(regex: re.Pattern[str]) -> str:
    """Return why *regex* is not bounded; empty if it is."""
    # Not documented; `sre_parse` was, under whose name it stood before Python 3.11. Tests hold what is used of it.
    module: Any = re
    tree: Any = module._parser.parse(regex.pattern, regex.flags)
    least: int
    most: int
    least, most = tree.getwidth()
    try:
        ways = _ways(tree)
    except _UnboundedError as error:
        return str(error)
    if most > LONGEST:
        return f"a match may have {most} characters"
    if least < 1:
        return "it matches an empty text"
    return f"it can match in {ways} ways at one place" if ways > MOST_WAYS else ""


def _ways(tree: Any) -> int:
    ways = 1
    for op, held in tree:
        ways *= _ways_of(str(op), held)
        if ways > 10**9:  # the exact number does not matter any more
            return ways
    return ways


def _ways_of(op: str, held: Any) -> int:
    match op:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT" | "RANGE" | "CATEGORY":
            return 1
        case "SUBPATTERN":
            return _ways(held[3])
        case "ATOMIC_GROUP":
            return _ways(held)
        case "ASSERT" | "ASSERT_NOT":
            return _ways(held[1])
        case "BRANCH":
            return sum(map(_ways, held[1]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most, inner = held
            if int(most) > LONGEST:
                raise _UnboundedError("it has a repeat without a bound, or with one above 1,000")
            once = _ways(inner)
            total = 0
            for count in range(int(least), int(most) + 1):
                total += once**count
                if total > 10**9:
                    break
            return total
        case _:
            raise _UnboundedError(f"{op.lower().replace('_', ' ')} is not supported")
