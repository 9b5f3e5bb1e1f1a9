"""What validates values of a type, `typing.TypedDict` included, which pydantic refuses below Python 3.12.

pydantic's work is done here: import this inside functions.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from graphrt._plan.value_checks import portable

__all__ = ["accepted", "adapter_of"]


def accepted(wanted: Any) -> Any:
    """*wanted*, with the TypedDicts in it replaced by the same of `typing_extensions` where pydantic takes no others.

    Those inside of dataclasses and models stay: their fields are read by pydantic itself.
    """
    if sys.version_info >= (3, 12):
        return wanted
    try:
        TypeAdapter(wanted)
    except PydanticUserError as error:
        if error.code == "typed-dict-version":
            return portable(wanted, closed=False)
    except Exception:  # noqa: BLE001, S110 - whoever uses it meets that again, and says what it was used for
        pass
    return wanted


def adapter_of(wanted: Any) -> TypeAdapter[Any]:
    """The adapter of *wanted*.

    Raises:
        PydanticUserError: pydantic can make none.
    """
    return TypeAdapter(accepted(wanted))
