"""Vectors, which represent the meaning of a memory item's text, and the distance of two of them.

A user function, the *embedding*, computes them from texts: the closer two texts are in meaning, the smaller the angle
between their vectors. A vector is stored with length 1, as 32-bit floats in little-endian order. So the cosine of the
angle between two vectors is their dot product.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from math import hypot, isfinite
from operator import mul
from typing import Any, Final

LONGEST: Final = 4_096
"""Maximum dimension of a vector. Embeddings of the large providers have 256 to 3,072."""
_BYTES: Final = 4


def packed(numbers: Iterable[Any]) -> bytes | None:
    """Return the vector with the direction of *numbers* in its stored form; None if they are not 1 to 4,096 finite numbers.

    If all numbers are 0, there is no direction, and the vector is similar to no other.
    """
    try:
        floats = [float(number) for number in numbers]
        length = hypot(*floats)
    except (TypeError, ValueError, OverflowError):
        return None
    if not (1 <= len(floats) <= LONGEST and isfinite(length)):
        return None
    return packed_numbers(number / length for number in floats) if length else packed_numbers(floats)


def packed_numbers(numbers: Iterable[float]) -> bytes:
    """Return the vector of these *numbers*, which already has length 1, in its stored form."""
    return _little(array("f", numbers)).tobytes()


def unpacked(vector: bytes) -> array[float]:
    """Return the numbers of a vector in its stored form."""
    return _little(array("f", vector))


def _little(numbers: array[float]) -> array[float]:
    """Convert *numbers* between little-endian and this machine's byte order."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def is_packed(vector: Any) -> bool:
    """Return whether *vector* is a valid stored vector."""
    return (
        type(vector) is bytes
        and 1 <= len(vector) / _BYTES <= LONGEST
        and len(vector) % _BYTES == 0
        and all(map(isfinite, unpacked(vector)))
    )


def nearness(vector: bytes | None, query: bytes) -> float:
    """Return the similarity of two vectors of equal length: the cosine of their angle, from 0 to 1; 0 without one.

    A negative cosine counts as 0. The result is rounded so that databases that add in 32 bits get the same.
    """
    if vector is None:
        return 0.0
    cosine: float = sum(map(mul, unpacked(vector), unpacked(query)))
    return min(max(round(cosine, 4), 0.0), 1.0)
