"""From folded updates to new values: lists that are ours alone grow in place, everything else is built anew (rule R15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt._engine.fold import Folded
from graphrt._engine.ownership import SOLE, getrefcount
from graphrt._plan.fields import ABSENT, Field
from graphrt._plan.state import Values


def applied(values: Values, fields: Mapping[str, Field], folded: Folded) -> tuple[Values, dict[str, int]]:
    """The new values, and the old lengths of lists that were extended in place."""
    extended: dict[str, int] = {}
    new_lists: dict[str, Any] = {}
    for name, items in folded.grown.items():
        current = folded.values.get(name, ABSENT) if name in folded.values else values.get(name, ABSENT)
        if current is ABSENT or current is None:
            field = fields[name]
            start: Any = field.identity() if field.identity is not None else []
            new_lists[name] = items if start.__class__ is list else field.reduce(start, items)
        elif name not in folded.values and current.__class__ is list:
            del current
            if getrefcount(values[name]) == SOLE:
                extended[name] = len(values[name])
                values[name].extend(items)
            else:
                new_lists[name] = [*values[name], *items]
        else:
            new_lists[name] = fields[name].reduce(current, items)
    new = {**values, **folded.values, **new_lists}
    for name, value in folded.values.items():
        if value is ABSENT and name not in new_lists:
            del new[name]
    return new, extended
