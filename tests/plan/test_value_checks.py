"""Which values pydantic may validate: never an update's markers, because a user's class may accept anything."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest
from pydantic import model_validator

from graphrt import DELETE
from graphrt._plan.value_checks import NotPlainError, checker
from graphrt.commands import UNSET
from graphrt.reducers import Overwrite

MARKERS = [DELETE, UNSET, Overwrite(1)]


@dataclasses.dataclass
class Lenient:
    """Accepts any value, including a marker."""

    x: int = 1

    @model_validator(mode="before")
    @classmethod
    def any_value(cls, value: Any) -> Any:
        return {"x": 1}


class Fallback(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Fallback:
        return cls.ONE


@pytest.mark.parametrize("kind", [Lenient, Fallback])
@pytest.mark.parametrize("marker", MARKERS, ids=repr)
def test_class_that_accepts_any_value_gets_no_marker(kind: Any, marker: Any) -> None:
    with pytest.raises(NotPlainError):
        checker(kind).check(marker)
