"""Sensitive texts: which parts of a text are credentials or personal data.

One set of patterns serves all code that writes or shows texts: errors and log lines (`redact`, `RedactingFilter`),
cassettes (`without_credentials`), and the rules of audit logs (`FINDERS`, `TextPattern`). The callers decide how a
match is replaced in values, messages or replies.

Functions take a text and return it redacted. The only state is the set of credentials that this process has used,
because other libraries may later log them; a `RedactingFilter` cleans those lines. Which call used which credential is
not recorded.

Matching must be cheap for any text. Repeats in the built-in expressions are bounded, or no other part of the expression
can match the same text. For user-defined expressions, `TextPattern` counts in how many ways one can match at one
position: a repeat has one way for each count, ways in sequence multiply, alternatives add up. A backtracking matcher
takes at most that many ways, of at most the length of the longest match. So the time for a text is linear in its
length.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, final, get_args
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from graphrt.errors import a_type
from graphrt.errors._codes.audit import BAD_REDACTION_RULES, UNBOUNDED_PATTERN

# -- credentials -------------------------------------------------------------------------------------------------------

MASK: Final = "[redacted]"
_SHORTEST: Final = 4
"""Minimum length in characters. Redacting a shorter credential would remove parts of ordinary words."""
_SHORTEST_FOUND: Final = 8
"""The same for environment variables that are recognized only by their name."""
_MOST_CHARS: Final = 20_000
"""Longest text that is searched, in characters; the rest is cut off."""
_EDGE_CHARS: Final = 4_000
"""Characters also dropped before the cut, because a credential split by the cut would not be found there."""
_REMEMBERED: Final = 1_000
"""Maximum number of credentials kept for log lines; the oldest is dropped first."""
_SHAPES: Final = re.compile(
    r"\b(?P<prefix>(?i:sk|pk|rk|gsk|xai)[-_])(?P<key>[\w*.-]{6,})"
    r"|\b(?i:AIza)[\w-]{10,}"  # Google
    r"|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"  # GitHub, GitLab
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bhf_[A-Za-z0-9]{16,}|\bxox[abprs]-[\w-]{10,}"  # AWS, Hugging Face, Slack
    r"|\beyJ[\w-]{8,2000}\.[\w-]{8,2000}\.[\w-]*"  # JSON web tokens
    r"|\b(?i:Bearer)\s+(?P<token>[^\s'\",}]+)"
    r"|\bBasic\s+(?=\S*[\d=])[A-Za-z0-9+/]{12,}={0,2}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Credentials recognizable by their form."""
_USER_INFO: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")
"""User information in an address, before `@`."""
_PARAMETER: Final = re.compile(
    r"(?<=[?&])(?P<name>key|api[-_]?key|(?:access[-_]?)?token|secret|sig|signature|password|code)=(?P<value>[^&\s'\"]+)",
    re.IGNORECASE,
)
"""Query parameters of an address whose name denotes a credential."""
_ASSIGNED: Final = re.compile(
    r"""((?:api[-_ ]?key|passwd|password|access[-_ ]?token|client[-_ ]?secret)["']?\s*[:=]\s*["']?)"""
    r"""(?=[^\s"',;&{}\[\]\\]{0,200}\d)[^\s"',;&{}\[\]\\]{6,}""",
    re.IGNORECASE,
)
"""Values that follow the name of a credential. A value without a digit is an ordinary word, as in "password:
required"."""
_HINTS: Final = (
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "xai-", "xai_", "aiza", "github_pat_", "glpat-", "akia", "asia", "hf_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "xox", "eyj", "bearer", "basic", "private key", "://"),
    *("key", "passw", "token", "secret", "sig", "code="),
)
"""Every text that one of the patterns above matches contains one of these, in lower case. Most texts contain none, and
skip the patterns."""
SECRET_NAME: Final = re.compile(
    r"(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION|COOKIE|SIGNATURE)$", re.IGNORECASE
)
"""Names of variables, options and headers whose value is a credential."""
_SECRET_OPTION: Final = re.compile(
    r"api[-_]?key|passw|secret|credential|authorization|cookie|headers?$|(?:^|[-_])(?:access_|auth_|bearer_)?token$"
    r"|^(?:api_base|base_url)$",
    re.IGNORECASE,
)
"""Names of options that hold a credential or an address, and are not part of a prompt."""
_URL_NAME: Final = re.compile(r"(?:URL|BASE|ENDPOINT|PROXY)$", re.IGNORECASE)
"""Names of environment variables that hold an address, which may contain a credential."""
_HEADERS: Final = frozenset({"headers", "extra_headers", "default_headers"})
"""Options of litellm that hold HTTP headers."""
_PLAIN_HEADERS: Final = re.compile(
    r"(?:type|version|agent|beta|accept|encoding|language|id|name|title)$", re.IGNORECASE
)
"""Names of headers whose value is not a credential; the values of all other headers are treated as credentials."""


def credentials(*, api_key: str | None, api_base: str | None, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the credentials among the arguments of a call: 0..n texts of 4 characters or more, sorted."""
    texts = {api_key or ""}
    texts |= set(_of_url(api_base or ""))
    texts |= set(_of_options(options))
    return tuple(sorted(secret for secret in texts if len(secret) >= _SHORTEST))


def is_secret_option(name: str) -> bool:
    """Return whether an option with this name holds credentials or an address, and so is not part of the request."""
    return _SECRET_OPTION.search(name) is not None


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text of an error or log line without *secrets*, those of the environment, and lookalikes.

    A text of 20,000 characters or more is cut off.
    """
    if len(text) > _MOST_CHARS:
        text = text[:_MOST_CHARS]
    cut = len(text) == _MOST_CHARS
    text = without_credentials(text, forms_of((*secrets, *of_environment())))
    return text[:-_EDGE_CHARS] if cut else text


def without_credentials(text: str, forms: Iterable[str], *, prose: bool = False) -> str:
    """Return *text* without *forms* and without anything that looks like a credential.

    Args:
        text: Any text.
        forms: The result of `forms_of`.
        prose: Keep what may be ordinary words. In a model's texts, `pk_customer` and "the bearer of news" must stay, so
            only texts with digits and a minimum length count as credentials (decision 0032).
    """
    for form in forms:
        text = text.replace(form, MASK)
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    text = _USER_INFO.sub(lambda match: match[0] if prose and ":" not in match[0] else MASK, text)
    text = _PARAMETER.sub(
        lambda match: match[0] if prose and not _has_digit(match["value"], 6) else f"{match['name']}={MASK}", text
    )
    text = _SHAPES.sub(lambda match: match[0] if prose and _may_be_words(match) else MASK, text)
    return _ASSIGNED.sub(rf"\1{MASK}", text)


def _may_be_words(match: re.Match[str]) -> bool:
    if match["token"]:
        return not (match[0][1:].startswith("earer") and _has_digit(match["token"], 8))
    if match["prefix"]:
        min_length = 12 if match["prefix"].endswith("-") else 20  # names of columns begin with `pk_`
        return not (match["prefix"].islower() and _has_digit(match["key"], min_length))
    return False


def _has_digit(value: str, min_length: int) -> bool:
    """Return whether a value of at least *min_length* characters has a digit near its beginning."""
    return len(value) >= min_length and any(char.isdigit() for char in value[:200])


def remember(secrets: Iterable[str]) -> None:
    """Remember *secrets*: each `RedactingFilter` removes them from log lines from now on."""
    for secret in secrets:
        _used[secret] = None
        if len(_used) > _REMEMBERED:
            _used.pop(next(iter(_used)), None)


class RedactingFilter(logging.Filter):
    """Log filter that removes credentials from all records of its logger without dropping any record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite *record* in place, its exception included."""
        record.msg, record.args = redact(record.getMessage(), tuple(_used)), None
        if record.exc_info:
            record.exc_text = redact(logging.Formatter().formatException(_checked(record.exc_info)), tuple(_used))
            record.exc_info = None  # a handler that formats the exception itself would show the credentials
        return True


_used: Final[dict[str, None]] = {}
"""Credentials that this process has used, in order of their first use: a dict as an ordered set."""


def _checked(info: Any) -> Any:
    return info if _is_a(info, tuple) else (None, None, None)


def of_environment() -> Iterator[str]:
    """Yield the credentials among the environment variables."""
    for name, value in os.environ.items():
        if SECRET_NAME.search(name):
            if len(value) >= _SHORTEST_FOUND:
                yield value
        elif "@" in value and _URL_NAME.search(name):
            yield from _of_url(value)


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return  # not a URL: the call itself will fail and say so
    secrets = [parts.password or "", parts.username if parts.password is None else ""]
    # Any query parameter may be a credential, but for the version of the interface (api-version for Azure).
    secrets += [value for name, value in parse_qsl(parts.query) if name.lower() not in {"api-version", "version"}]
    for secret in secrets:
        if secret:
            yield unquote(secret)
    if parts.password:  # HTTP clients send user information as Basic authentication (RFC 7617)
        yield b64encode(f"{unquote(parts.username or '')}:{unquote(parts.password)}".encode()).decode()


def _of_options(options: Any, *, secret: bool = False) -> Iterator[str]:
    """Yield texts under names of credentials at any depth, credentials inside addresses, and values of headers.

    Args:
        options: Options of a call, or a value in them.
        secret: Whether an enclosing name is that of a credential, so that all texts below it are credentials.
    """
    if _is_a(options, Mapping):
        for name, value in options.items():
            name = str(name)
            if name.lower() in _HEADERS:
                yield from _of_headers(value)
            elif isinstance(value, str) and not secret and not SECRET_NAME.search(name):
                yield from _of_url(value) if "://" in value else ()
            else:
                yield from _of_options(value, secret=secret or bool(SECRET_NAME.search(name)))
    elif _is_a(options, (list, tuple)):
        for item in options:
            yield from _of_options(item, secret=secret)
    elif secret and isinstance(options, str):
        yield options


def _of_headers(headers: Any) -> Iterator[str]:
    for name, value in headers.items() if _is_a(headers, Mapping) else ():
        if isinstance(value, str) and not _PLAIN_HEADERS.search(str(name)):
            yield value
            yield value.rpartition(" ")[2]  # the token alone, without a scheme such as "Bearer"


def _is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(value, kinds)  # not narrowed: for the type checker the values stay Any


def forms_of(secrets: Iterable[str], min_length: int = _SHORTEST) -> list[str]:
    """Return the spellings of *secrets* inside a text, the longest first: one may contain another.

    Each appears as it is, escaped as JSON once and twice, and quoted for a URL. Secrets of fewer than *min_length*
    characters are left out.
    """
    forms: set[str] = set()
    for secret in secrets:
        if len(secret) >= min_length:
            escaped = json.dumps(secret)[1:-1]
            forms |= {secret, escaped, json.dumps(escaped)[1:-1], quote(secret, safe="")}
    return sorted(forms, key=len, reverse=True)


# -- personal data -----------------------------------------------------------------------------------------------------

PatternName: TypeAlias = Literal["email", "phone", "card", "iban", "ip"]
"""A ready-made pattern: e-mail addresses; telephone numbers; card numbers, with the Luhn check; IBANs, with their check
digits; IP addresses of both versions."""
LONGEST: Final = 1_000
"""Maximum number of characters that a user-defined pattern may match."""
MOST_WAYS: Final = 10_000
"""Maximum number of ways in which such an expression may match at one place."""
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
        ("15", "NO"),
        ("16", "BE"),
        ("18", "DK FI FK FO GL NL SD"),
        ("19", "MK SI"),
        ("20", "AT BA EE KZ LT LU MN XK"),
        ("21", "CH HR LI LV"),
        ("22", "BG BH CR DE GB GE IE ME RS VA"),
        ("23", "AE GI IL IQ OM SO TL"),
        ("24", "AD CZ ES MD PK RO SA SE SK TN VG"),
        ("25", "LY PT ST"),
        ("26", "IS TR"),
        ("27", "BI DJ FR GR IT MC MR SM"),
        ("28", "AL AZ BY CY DO GT HN HU LB NI PL SV"),
        ("29", "BR EG PS QA UA"),
        ("30", "JO KW MU YE"),
        ("31", "MT SC"),
        ("32", "LC"),
        ("33", "RU"),
    )
    for country in countries.split()
}
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
    """Find card numbers in runs of digits.

    A number begins and ends at the boundaries of the run or of a group in it.
    """
    for match in _DIGITS.finditer(text):
        run = match[0]
        at = [place for place, char in enumerate(run) if char.isdigit()]
        first = 0
        while first + 13 <= len(at):
            begins = at[first] == 0 or not run[at[first] - 1].isdigit()
            length = 0
            for size in range(min(19, len(at) - first), 12, -1) if begins and run[at[first]] in "23456" else ():
                last = at[first + size - 1]
                if last + 1 < len(run) and run[last + 1].isdigit():
                    continue
                if _luhn(number := "".join(run[place] for place in at[first : first + size])):
                    yield Found(match.start() + at[first], match.start() + last + 1, number)
                    length = size
                    break
            first += length or 1


def _luhn(number: str) -> bool:
    total = 0
    for place, char in enumerate(reversed(number)):
        digit = int(char) * (1 + place % 2)
        total += digit - 9 * (digit > 9)
    return total % 10 == 0


def _ibans(text: str) -> Iterator[Found]:
    """Find IBANs. The country determines the length, since words that follow an IBAN look like part of it."""
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
    addresses = [*_valid(_IPV4, text), *(_valid(_IPV6, text) if ":" in text else ())]
    end = -1
    for address in sorted(addresses):
        if address.start >= end:  # an IPv6 address may end with an IPv4 one
            yield address
            end = address.end


def _valid(pattern: re.Pattern[str], text: str) -> Iterator[Found]:
    import ipaddress  # only texts of audited threads are searched for addresses

    for match in pattern.finditer(text):
        candidate = match[0].rstrip(".") if match[0].endswith((".", "::")) else match[0].rstrip(".:")
        try:
            same = str(ipaddress.ip_address(candidate))
        except ValueError:
            continue
        if any(char.isalnum() for char in candidate):
            yield Found(match.start(), match.start() + len(candidate), same)


FINDERS: Final[dict[str, Finder]] = {
    "iban": _ibans,
    "card": _cards,
    "email": _emails,
    "ip": _addresses,
    "phone": _phones,
}
"""The ready-made patterns, in the order in which they are applied: longer patterns with a check come first."""
if set(FINDERS) != set(get_args(PatternName)):
    raise AssertionError


@final
class TextPattern:
    """A user-defined pattern.

    Args:
        name: Name for the log and for what replaces a match, such as `customer-number`.
        regex: The compiled expression. It is bounded: without `*`, `+`, `{n,}` and references to groups, with matches
            of 1 to 1,000 characters, and at most 10,000 ways to match at one place.
        check: Returns whether to accept a match, for instance by its check digits; None accepts every match.

    Raises:
        InputError: An argument has a wrong type, or the expression is not bounded (`bad-redaction-rules`).
    """

    __slots__ = ("check", "name", "regex")

    def __init__(self, name: str, regex: re.Pattern[str], *, check: Callable[[str], bool] | None = None) -> None:
        pattern_name: Any = name  # callers may ignore the declared type
        expression: Any = regex
        if not isinstance(pattern_name, str) or NAME.fullmatch(pattern_name) is None:
            raise BAD_REDACTION_RULES(
                what="The name of a pattern", problem=f"{name!r} is not a word of 1 to 40 characters"
            )
        if expression.__class__ is not re.Pattern or expression.pattern.__class__ is not str:
            raise BAD_REDACTION_RULES(
                what=f"The pattern {name!r}", problem=f"it is {a_type(regex)}, not a compiled expression of texts"
            )
        if check is not None and not callable(check):
            raise BAD_REDACTION_RULES(what=f"check= of the pattern {name!r}", problem="it is not a function")
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
    # Undocumented; before Python 3.11 it was the documented module `sre_parse`. Tests cover the parts used here.
    module: Any = re
    tree: Any = module._parser.parse(regex.pattern, regex.flags)
    min_length: int
    max_length: int
    min_length, max_length = tree.getwidth()
    try:
        ways = _ways(tree)
    except _UnboundedError as error:
        return str(error)
    if max_length > LONGEST:
        return f"a match may have {max_length} characters"
    if min_length < 1:
        return "it matches an empty text"
    return f"it can match in {ways} ways at one place" if ways > MOST_WAYS else ""


def _ways(tree: Any) -> int:
    ways = 1
    for op, operand in tree:
        ways *= _ways_of(str(op), operand)
        if ways > 10**9:  # the exact number does not matter any more
            return ways
    return ways


def _ways_of(op: str, operand: Any) -> int:
    match op:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT" | "RANGE" | "CATEGORY":
            return 1
        case "SUBPATTERN":
            return _ways(operand[3])
        case "ATOMIC_GROUP":
            return _ways(operand)
        case "ASSERT" | "ASSERT_NOT":
            return _ways(operand[1])
        case "BRANCH":
            return sum(map(_ways, operand[1]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            min_count, max_count, inner = operand
            if int(max_count) > LONGEST:
                raise _UnboundedError("it has a repeat without a bound, or with one above 1,000")
            inner_ways = _ways(inner)
            total = 0
            for count in range(int(min_count), int(max_count) + 1):
                total += inner_ways**count
                if total > 10**9:
                    break
            return total
        case _:
            raise _UnboundedError(f"{op.lower().replace('_', ' ')} is not supported")
