"""The matches of the ready-made patterns, refused expressions of users, and texts that are credentials."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any

import pytest

from graphrt._sensitive_texts import FINDERS, credentials, redact, unbounded, without_credentials
from graphrt.audit import Redaction, TextPattern
from graphrt.errors import InputError


def masked(text: str, *names: Any) -> str:
    return Redaction(patterns=names or tuple(FINDERS))._texts().shown(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("write to anna.b+x@mail.example.org.", "write to <email>."),
        ("<anna@example.org>", "<<email>>"),
        ("jürgen@müller.de", "<email>"),
        ("a@b", "a@b"),
        ("+49 171 1234567", "<phone>"),
        ("0049/171/1234567!", "<phone>!"),
        ("(030) 1234567", "<phone>"),
        ("call 555-123-4567 now", "call <phone> now"),
        ("2026-11-25 11:43:16", "2026-11-25 11:43:16"),
        ("01/02/2026 and 12.5", "01/02/2026 and 12.5"),
        ("4111 1111 1111 1111 2031", "<card> 2031"),
        ("4111-1111-1111-1111", "<card>"),
        ("paid 1 with 378282246310005.", "paid 1 with <card>."),
        ("4111 1111 1111 1112", "4111 1111 1111 1112"),
        ("1732535696123456789", "1732535696123456789"),
        ("DE89370400440532013000", "<iban>"),
        ("from GB82 WEST 1234 5698 7654 32 TODAY", "from <iban> TODAY"),
        ("DE88370400440532013000", "DE88370400440532013000"),
        ("host 192.168.0.1:80", "host <ip>:80"),
        ("999.1.1.1", "999.1.1.1"),
        ("at 2001:db8::8a2e:370:7334.", "at <ip>."),
        ("::ffff:10.0.0.1", "<ip>"),
        ("std::vector 11:43:16", "std::vector 11:43:16"),
    ],
)
def test_patterns_match_their_kind_of_text_and_no_more(text: str, left: str) -> None:
    assert masked(text) == left


def test_spellings_of_one_value_have_one_pseudonym() -> None:
    rules = Redaction(patterns=list(FINDERS), key=bytes(range(32)))  # type: ignore[arg-type]
    other = Redaction(patterns=["email"], key=bytes(range(1, 33)))
    shown = rules._texts().shown

    assert shown("Anna@X.org") == shown("anna@x.org") != shown("anna@y.org")
    assert shown("4111111111111111") == shown("4111 1111-1111 1111")
    assert shown("DE89370400440532013000") == shown("de89 3704 0044 0532 0130 00")
    assert shown("2001:DB8::1") == shown("2001:db8:0::1")
    assert shown("anna@x.org") != other._texts().shown("anna@x.org")
    assert re.fullmatch(r"<email:[0-9a-f]{16}>", shown("anna@x.org"))


def test_redacted_text_is_not_changed_again() -> None:
    rules = Redaction(patterns=list(FINDERS), key=bytes(range(32)))  # type: ignore[arg-type]
    once = rules._texts().shown("a@x.org 4111111111111111 +49 171 1234567")

    assert rules._texts().shown(once) == once
    assert rules._texts().shown("<card:4111111111111111>") != "<card:4111111111111111>"


@pytest.mark.parametrize(
    "expression", [r"a*", r"a+b", r"a{3,}", r"(a)\1", r"(a{1,9}){1,9}b", r"(a|a){1,40}", r"a?", r".{2000}"]
)
def test_unbounded_expression_is_refused(expression: str) -> None:
    with pytest.raises(InputError) as caught:
        TextPattern("mine", re.compile(expression))

    assert caught.value.code == "bad-redaction-rules"


@pytest.mark.parametrize(
    "expression", [r"KD-\d{4,9}", r"\b[A-Z]{2}\d{6}\b", r"(?:ab|cd){2}x{0,20}", r"(?<!\d)\d{11}(?!\d)", r"a{1,3}?b"]
)
def test_bounded_expression_is_accepted(expression: str) -> None:
    assert unbounded(re.compile(expression)) == ""


@pytest.mark.parametrize(
    "text", ["a" * 80_000, "@" * 80_000, "a@" * 40_000, "1 " * 40_000, "DE89 " * 16_000, "a." * 40_000, "1:" * 40_000, "0" * 80_000, "+49 " * 20_000]
)  # fmt: skip
def test_time_is_linear_in_the_text(text: str) -> None:
    def seconds(size: int) -> float:
        begun = time.thread_time()  # of the processor: other processes may suspend this one
        masked(text[:size])
        return time.thread_time() - begun

    small = min(seconds(len(text) // 8) for _ in range(3))

    # Quadratic time would be 64 times that of an eighth of the text.
    assert min(seconds(len(text)) for _ in range(3)) < 30 * small + 0.2


@pytest.mark.parametrize(
    "given",
    [
        {"fields": "name"},
        {"fields": [""]},
        {"fields": ["a..b"]},
        {"fields": [3]},
        {"patterns": ["mail"]},
        {"patterns": "email"},
        {"patterns": [re.compile("x")]},
        {"patterns": [TextPattern("x", re.compile("x")), TextPattern("x", re.compile("y"))]},
        {"patterns": [TextPattern("email", re.compile("x"))]},
    ],
)
def test_invalid_rules_are_refused_when_they_are_built(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Redaction(**given)

    assert caught.value.code == "bad-redaction-rules"


@pytest.mark.parametrize("key", [b"", b"short", b"a" * 40, "text" * 20])
def test_a_weak_key_is_refused(key: Any) -> None:
    with pytest.raises(InputError) as caught:
        Redaction(key=key)

    assert caught.value.code == "weak-key"


def test_label_names_the_rules_and_distinguishes_configurations() -> None:
    own = TextPattern("number", re.compile(r"KD\d{4}"))
    label = Redaction(fields=["customer.email"], patterns=["email", own], key=bytes(range(32))).label(
        frozenset({"iban"})
    )
    same = Redaction(fields=["customer.email"], patterns=["email", own], key=bytes(range(1, 33))).label(
        frozenset({"iban"})
    )
    other = Redaction(fields=["customer.email"], patterns=["email"]).label(frozenset({"iban"}))

    assert label.startswith("customer.email,iban,number,email sha256:")
    assert label == same != other


# -- credentials -------------------------------------------------------------------------------------------------------

KEY = "explicit-secret-0001"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://me:pass@host/x", "http://[redacted]@host/x"),
        ("GET /x?key=abcdef&b=1", "GET /x?key=[redacted]&b=1"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("key sk-proj-1234567890 is wrong", "key [redacted] is wrong"),
        ("AIzaSyA-1234567890abc", "[redacted]"),
        ("the task is to skip", "the task is to skip"),
        ("a token of thanks", "a token of thanks"),
    ],
)
def test_text_that_looks_like_a_credential_is_removed(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_credential_on_the_edge_of_a_long_text_is_not_shown_in_part() -> None:
    for start in range(19_980, 20_001):
        assert KEY[:4] not in redact("x" * start + KEY, (KEY,))


def test_credential_is_found_in_json_and_in_an_address() -> None:
    secret = 'a"b/c d'

    shown = redact('{"k": "a\\"b/c d"} ?x=a%22b%2Fc%20d', (secret,))

    assert shown == '{"k": "[redacted]"} ?x=[redacted]'


def test_values_with_a_credential_name_are_credentials() -> None:
    found = credentials(
        api_key="k-1234",
        api_base="http://u:pw%21x@h/?key=q-1234&api-version=2024",
        options={"temperature": 1, "extra_headers": {"X-A": "h-1234", "Content-Type": "json"}, "seed": "plain"},
    )

    assert set(found) == {"k-1234", "pw!x", "q-1234", "h-1234", "dTpwdyF4"}


def test_invalid_url_has_no_credentials() -> None:
    with suppress(ValueError):
        assert credentials(api_key=None, api_base="http://[broken", options={}) == ()


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijkl",
        "AIzaSyA1234567890abcdefgh",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "github_pat_11ABCDEFG0abcdefghijkl",
        "glpat-abcdefghijklmnopq1",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghijkl",
        "hf_abcdefghijklmnopqrstuvwx",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
        "Bearer abcdef123456",
        "Basic dXNlcjpwYXNzd29yZA==",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    ],
    ids=lambda secret: secret[:8],
)
def test_credential_is_recognized_by_its_form_in_errors_and_in_texts_of_models(secret: str) -> None:
    assert redact(f"a {secret} b") == without_credentials(f"a {secret} b", (), prose=True) == "a [redacted] b"


@pytest.mark.parametrize(
    "text", ["pk_customer_identifier", "the bearer of news", "SK_ORDERS_2024_CUSTOMERS", "https://host/?key=primary"]
)
def test_ordinary_words_are_removed_from_errors_only(text: str) -> None:
    assert without_credentials(text, (), prose=True) == text
    assert "[redacted]" in redact(text)


def test_value_after_a_name_is_a_credential_if_it_has_a_digit() -> None:
    for clean in (redact, lambda text: without_credentials(text, (), prose=True)):
        assert clean('password: "hunter2hunter2", password: required') == 'password: "[redacted]", password: required'


def test_text_full_of_credential_prefixes_takes_linear_time() -> None:
    for piece in ("sk-", "eyJa.", "Basic ", "Bearer ", "://a", "?key=", "password: ", "-----BEGIN PRIVATE KEY-----"):
        text = piece * (400_000 // len(piece))
        began = time.process_time()
        without_credentials(text, (), prose=True)

        assert time.process_time() - began < 5, piece
