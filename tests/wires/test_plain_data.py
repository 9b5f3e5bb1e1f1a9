"""Values as JSON: complete, and without the numbers that JSON lacks."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from pydantic import BaseModel

from graphrt.wires.plain_data import plain


class Score(BaseModel):
    mean: float
    parts: dict[str, float]


@dataclass
class Range:
    low: float
    high: float


def test_numbers_that_json_lacks_are_texts_that_validate_as_them():
    data = plain([math.nan, 1.5, {"score": Score(mean=math.nan, parts={"a": math.inf})}, (Range(-math.inf, math.inf),)])

    score = {"mean": "NaN", "parts": {"a": "Infinity"}}
    assert data == ["NaN", 1.5, {"score": score}, [{"low": "-Infinity", "high": "Infinity"}]]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert Score.model_validate(score).parts["a"] == math.inf


def test_number_that_json_lacks_is_a_text_beside_a_value_that_pydantic_cannot_write():
    assert plain({"surrogate": "\ud800", "mean": math.nan}) == {"surrogate": "\ud800", "mean": "NaN"}
