"""Turn folded updates into new values. Lists that only the run owns grow in place; all else is built anew (rule R15).

Growing in place keeps the cost of an append independent of the length of the list (decision 0009). R15: nodes, steps
and callers may keep a list of an older state and must not see it change. So a list grows in place only if its reference
count is `SOLE`, which proves that only the dict of values refers to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphrt._engine.erased_values import reduced_erased
from graphrt._engine.fold import Folded
from graphrt._engine.ownership import SOLE, getrefcount
from graphrt._plan.fields import ABSENT, Field
from graphrt._plan.state import Values
from graphrt.commands import ERASED


def applied(values: Values, fields: Mapping[str, Field], folded: Folded) -> tuple[Values, dict[str, int]]:
    """Return the new values, and the previous length of each list that was extended in place, by field.

    If a router then fails, the commit puts back copies of these lists with that length. The fold of a journal and edits
    have nothing to undo.

    Args:
        values: The committed values by field. This dict stays as it is; lists in it may grow.
        folded: What `fold` made of the updates: new values by field, and items to append (`grown`) by field.
    """
    extended: dict[str, int] = {}
    new_lists: dict[str, Any] = {}
    for name, items in folded.grown.items():
        # An Overwrite, or the reset of an ephemeral field, in the same superstep comes first; the items follow it.
        current = folded.values.get(name, ABSENT) if name in folded.values else values.get(name, ABSENT)
        if current is ERASED:  # `Runtime.erase` removed the value from the journal: nothing can be appended to it
            new_lists[name] = reduced_erased(fields[name], current, items)
            continue
        if current is ABSENT or current is None:
            field = fields[name]
            start: Any = field.identity() if field.identity is not None else []
            # `identity` makes the empty value of the field's type: a list, or a tuple for a tuple field. `items` is the
            # fold's own list, so it can become the value without a copy.
            new_lists[name] = items if start.__class__ is list else field.reduce(start, items)
        elif name not in folded.values and current.__class__ is list:
            del current  # a local variable is one more reference, and SOLE counts none
            if getrefcount(values[name]) == SOLE:
                extended[name] = len(values[name])
                values[name].extend(items)
            else:  # a node, a step or the caller kept the list, and must not see it grow
                new_lists[name] = [*values[name], *items]
        else:  # the value was set in this superstep, or is not exactly a list (a tuple, say)
            new_lists[name] = fields[name].reduce(current, items)
    new = {**values, **folded.values, **new_lists}
    for name, value in folded.values.items():  # DELETE or a reset left a TypedDict key without a value: remove it
        if value is ABSENT and name not in new_lists:
            del new[name]
    return new, extended
