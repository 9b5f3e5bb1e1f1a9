"""pydantic adapters for types of the user, `typing.TypedDict` included, which pydantic refuses below Python 3.12.

The module imports pydantic: import it inside functions only.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from graphrt._plan.value_checks import portable

__all__ = ["accepted", "adapter_of"]


def accepted(wanted: Any) -> Any:
    """Return *wanted*, with each TypedDict in it replaced by a copy from `typing_extensions` if pydantic needs that.

    TypedDicts inside dataclasses and models stay, because pydantic reads the fields of these itself.
    """
    if sys.version_info >= (3, 12):
        return wanted
    try:
        TypeAdapter(wanted)
    except PydanticUserError as error:
        if error.code == "typed-dict-version":
            return portable(wanted, closed=False)
    except Exception:  # noqa: BLE001, S110 - the caller meets it again, and can say what the type is for
        pass
    return wanted


def adapter_of(wanted: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter of *wanted*.

    Raises:
        PydanticUserError: pydantic cannot make one.
    """
    return TypeAdapter(accepted(wanted))
