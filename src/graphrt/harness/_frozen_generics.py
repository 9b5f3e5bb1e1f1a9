"""`refuse_assignment`: the `__setattr__` of frozen dataclasses that have slots and type parameters.

`AgentReply[Person](...)` sets an attribute that is not a field (`__orig_class__`). For a frozen class with slots, the
`__setattr__` that dataclass generates raises TypeError then, because it refers to the class without slots. Before Python
3.12.3 typing does not expect that error (python/cpython#115165). It expects an AttributeError, as FrozenInstanceError is.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import NoReturn


def refuse_assignment(self: object, name: str, value: object) -> NoReturn:  # noqa: ARG001 - the signature of __setattr__
    """Raise the error of a frozen dataclass.

    Assigned after the class, since dataclass rejects a method of that name.
    """
    raise FrozenInstanceError(f"cannot assign to field {name!r}")
