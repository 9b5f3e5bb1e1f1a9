"""Items of the memory: their checks, the words that they are found by, and the ranking of search results.

The memory belongs to a store and not to a thread. An *item* has a namespace, a key and a value. It is found by *words*:
each longest run of letters and digits of its text, with their combining marks and without differences of case
(`words_of`). A store keeps them beside the value and compares them exactly. So all stores find the same items and rank
them alike, whichever database they use (decision 0250).

A search finds the items that have one of its words. A word that fewer items of the searched namespaces have weighs
more: log(1 + (n - m + 0.5) / (m + 0.5)), where m of n items have it. This is the weight of BM25. The share of an item
is the weight of the words that it has, divided by the weight of all that were searched.

A search may have a *vector* too, which stands for the meaning of the query, and items have the vectors of theirs
(`_vectors`). The *score* of an item is then the mean of its share and of how near its vector is to that of the query;
without a vector in the search it is the share. Items with the same score are listed as without a search, the newest first. All
stores compute the same scores, those with SQL in the database (decision 0259).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isfinite, log
from typing import TYPE_CHECKING, Any, Final

from graphrt.stores._vectors import is_packed, nearness
from graphrt.stores.filters import MemoryFilter
from graphrt.stores.ids import check_namespace
from graphrt.stores.values import MemoryWrite, StoredItem

if TYPE_CHECKING:
    from graphrt.errors import InputError

LARGEST_BYTES: Final = 65_536
"""Maximum number of bytes of an item's body: a memory holds notes, not documents."""
LONGEST_KEY: Final = 200
"""Maximum length of a key, in characters."""
LONGEST_SEARCH: Final = 100
"""Maximum number of words in a search; further words of a query are ignored."""
LONGEST_WORD: Final = 64
"""Maximum length of a word, in characters. Nobody searches for longer runs, such as encoded bytes."""
MOST_WORDS: Final = 2_000
"""Maximum number of words of an item; it is not found by further words."""
MOST_COMPARED: Final = 10_000
"""Maximum number of vectors that a search compares without pgvector: those of the newest items. Other items are found
by their words."""
_WORDS: Final = re.compile(r"[^\W_]+").findall
_BETWEEN: Final = re.compile(r"[\W_]").sub
"""Replaces the characters that are neither letters nor digits: spaces, but also the vowel signs of many scripts."""


class SealedWrite(MemoryWrite):
    """A write by a wrapper that has checked it and sealed its words and vector with its value: larger than a value."""

    __slots__ = ()


def words_of(*texts: str) -> tuple[str, ...]:
    """Return the distinct words of *texts* in order of first use, at most `MOST_WORDS`."""
    words: dict[str, None] = {}
    for text in texts:
        for word in _split(unicodedata.normalize("NFKC", text).casefold()):
            if len(word) <= LONGEST_WORD:
                words[word] = None
                if len(words) == MOST_WORDS:
                    return tuple(words)
    return tuple(words)


def _split(text: str) -> list[str]:
    """Return the words of *text*, in order. Combining marks belong to the letter before them."""
    if text.isascii():
        return _WORDS(text)
    return _BETWEEN(lambda char: char[0] if unicodedata.category(char[0])[0] == "M" else " ", text).split()


def _bad(what: str, given: str, wanted: str) -> InputError:
    """Return the error for an item that cannot be kept (`bad-memory`)."""
    from graphrt.errors._codes.memory import BAD_MEMORY  # imported late, because few programs need it

    return BAD_MEMORY(what=f"{what} of a memory item", given=given, wanted=wanted)


def check_key(key: Any) -> str:
    """Return *key* if it can name an item.

    Raises:
        InputError: It is not a str of 1 to 200 printable characters (`bad-memory`).
    """
    if type(key) is str and 1 <= len(key) <= LONGEST_KEY and key.isprintable():
        return key
    description = f"{key[:80]!a}, of {len(key)} characters" if isinstance(key, str) else f"a {type(key).__name__}"
    raise _bad("The key", description, f"a str of 1 to {LONGEST_KEY} printable characters")


def check_size(body: bytes) -> bytes:
    """Return *body* if it is small enough for an item.

    Raises:
        InputError: It is not (`bad-memory`).
    """
    if len(body) <= LARGEST_BYTES:
        return body
    requirement = f"a value of at most {LARGEST_BYTES:,} bytes in its stored form, and keep large ones elsewhere"
    raise _bad("The value", f"as large as {len(body):,} bytes", requirement)


def checked_writes(writes: Iterable[MemoryWrite], at: float) -> list[MemoryWrite]:
    """Check *writes*, made at *at*, and return the last one of each item, in the order of their names.

    The order is fixed because two transactions that lock the same rows in different orders would deadlock.

    Raises:
        InputError: One of them cannot be kept (`bad-namespace`, `bad-memory`).
    """
    last_writes: dict[tuple[str, str], MemoryWrite] = {}
    for write in writes:
        namespace, key, body, words, expires_at, vector = write
        if body is not None:
            if type(body) is not bytes:
                raise _bad("The body", f"a {type(body).__name__}", "bytes")
            if not isinstance(write, SealedWrite):
                check_size(body)
        if not len(set(words)) == len(words) <= MOST_WORDS or any(_split(word) != [word] for word in words):
            raise _bad("The words", "other than words_of() makes them", "what it returned")
        if not isfinite(at) or (expires_at is not None and not isfinite(expires_at)):
            raise _bad("The time", f"{expires_at!r} at {at!r}", "seconds since the epoch")
        if vector is not None and not is_packed(vector):
            raise _bad("The vector", "other than packed() makes them", "what it returned")
        last_writes[check_namespace(namespace), check_key(key)] = write
    return [last_writes[name] for name in sorted(last_writes)]


def written(write: MemoryWrite, before: StoredItem | None, at: float) -> StoredItem:
    """Return the item that *write*, which is not a deletion, creates at *at* in place of the one *before*."""
    assert write.body is not None  # noqa: S101 - it deletes nothing
    lives = before is not None and (before.expires_at is None or before.expires_at > at)
    created_at = before.created_at if before is not None and lives else at
    return StoredItem(write.namespace, write.key, write.body, created_at, at, write.expires_at, vector=write.vector)


def newest_first(item: StoredItem) -> tuple[float, str, str]:
    """Return the sort key of *item* in a list without a search."""
    return -item.updated_at, f"{item.namespace}/", item.key  # the slash as in `MemoryFilter.bounds`


def weights(total: int, counts: Mapping[str, int], words: Sequence[str]) -> dict[str, float]:
    """Return the share of each of the searched *words* in a score.

    Args:
        total: Number of the items in the searched namespaces.
        counts: Number of items with each word; a word without items may be omitted.
    """
    rarities = {word: log(1 + (total - (m := counts.get(word, 0)) + 0.5) / (m + 0.5)) for word in words}
    total_rarity = sum(rarities.values())
    return {word: weight / total_rarity for word, weight in rarities.items()}


def score(share: float, near: float | None) -> float:
    """Return the score of an item, rounded, so that it does not depend on the order of an addition.

    Args:
        share: Weighted share of the searched words that it has.
        near: Similarity of its vector to that of the query, 0 if it has none; None if the search has no vector.
    """
    return round(share if near is None else (share + near) / 2, 6)


def check_lengths(wanted: MemoryFilter, others: int) -> None:
    """Check that no searched item has a vector of another length than the query.

    Args:
        others: Number of the items with such a vector.

    Raises:
        InputError: There are some (`bad-memory`).
    """
    if others and wanted.vector is not None:
        from graphrt.errors._codes.memory import OTHER_VECTORS

        raise OTHER_VECTORS(number=others, length=len(wanted.vector) // 4, namespace=wanted.namespace)


def found_in(wanted: MemoryFilter, items: Iterable[tuple[StoredItem, Collection[str]]]) -> list[StoredItem]:
    """Return the items that match *wanted*, in its order: a complete search, for stores without SQL.

    Args:
        wanted: The filter.
        items: Items with their words; those of other namespaces may be among them.
    """
    fitting = [(item, words) for item, words in items if wanted.fits(item)]
    fitting.sort(key=lambda row: newest_first(row[0]))
    if not wanted.searches:
        return [item for item, _ in fitting]
    searched = dict.fromkeys(wanted.words)
    counts = {word: sum(word in words for _, words in fitting) for word in searched}
    shares = weights(len(fitting), counts, tuple(searched))
    word_scores = [sum(share for word, share in shares.items() if word in words) for _, words in fitting]
    similarities: list[float | None] = [None] * len(fitting)
    if wanted.vector is not None:
        vectors = [item.vector for item, _ in fitting]
        check_lengths(wanted, sum(vector is not None and len(vector) != len(wanted.vector) for vector in vectors))
        compared = [number for number, vector in enumerate(vectors) if vector is not None][:MOST_COMPARED]
        similarities = [0.0] * len(fitting)
        for number in compared:
            similarities[number] = nearness(vectors[number], wanted.vector)
    scored = [
        item._replace(score=score(share, close))
        for (item, _), share, close in zip(fitting, word_scores, similarities, strict=True)
    ]
    return sorted((item for item in scored if item.score > 0), key=lambda item: -item.score)
