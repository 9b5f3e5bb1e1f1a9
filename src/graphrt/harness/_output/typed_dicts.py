"""pydantic adapters for types of the user, `typing.TypedDict` included, which pydantic refuses below Python 3.12.

The module imports pydantic: import it inside functions only.
"""

from __future__ import annotations

import sys
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from graphrt._plan.value_checks import portable

__all__ = ["accepted", "adapter_of"]


def accepted(annotation: Any) -> Any:
    """Return *annotation*, with each TypedDict in it replaced by one of `typing_extensions` if pydantic needs that.

    TypedDicts inside dataclasses and models stay, because pydantic reads the fields of these itself.
    """
    if sys.version_info >= (3, 12):
        return annotation
    try:
        TypeAdapter(annotation)
    except PydanticUserError as error:
        if error.code == "typed-dict-version":
            return portable(annotation, closed=False)
    except Exception:  # noqa: BLE001, S110 - the caller meets it again, and can say what the type is for
        pass
    return annotation


def adapter_of(annotation: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter of *annotation*.

    Raises:
        PydanticUserError: pydantic cannot make one.
    """
    return TypeAdapter(accepted(annotation))
