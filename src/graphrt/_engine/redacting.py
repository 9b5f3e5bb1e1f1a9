"""Where values enter a thread, they are redacted: once, before they are folded, hashed and stored (decision 0126).

The engine knows a `Redactor`, and not its rules. Without one nothing here is called. Untracked
fields are never written, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._codec import NotStorable
from graphrt.commands import DELETE, Replacement

if TYPE_CHECKING:
    from graphrt._engine.run_state import RunState
    from graphrt._engine.task import Due
    from graphrt._plan.fields import Field


def redacted_update(
    engine: RunState, update: Mapping[str, Any], what: str, *, whole: bool = False
) -> Mapping[str, Any]:
    """Return a checked *update* redacted; the same object if nothing applies.

    Args:
        what: Begins the description of a value in errors, for instance "the update of node 'ask'".
        whole: The values are complete ones, as in an input, and not the operands of reducers.

    Raises:
        AuditError: A rule failed, or a field cannot hold what it gave.
        NotStorable: A value has no encoded form.
    """
    redactor = engine.redactor
    if redactor is None:
        return update
    state = engine.plan.state
    made: dict[str, Any] | None = None
    for name, value in update.items():
        if name in state.untracked or value is None or value is DELETE:
            continue
        marked = name in state.redacted
        fits = _fitting(engine.fields.get(name), whole=whole)
        try:
            new = redactor.value(
                engine.plan.codec, value, name, marked=marked, fits=fits, what=f"field {name!r} in {what}"
            )
        except NotStorable:
            if engine.codec is None and not marked:  # a run without a store writes nothing, and may hold anything (R7)
                continue
            raise
        if new is not value:
            made = dict(update) if made is None else made
            made[name] = new
    return update if made is None else made


def _fitting(field: Field | None, *, whole: bool) -> Callable[[Any], Any] | None:
    if field is None:  # a field of an older graph (R14)
        return None

    def fits(value: Any) -> Any:
        if value.__class__ is Replacement:
            return Replacement(field.check_whole(value.value))
        return field.check_whole(value) if whole else field.check(value)

    return fits


def redacted_value(engine: RunState, value: Any, what: str) -> Any:
    """Return a value that belongs to no field, such as an answer, redacted.

    Raises:
        AuditError: A rule failed, or the value cannot hold what it gave.
        NotStorable: A part of it has no encoded form.
    """
    redactor = engine.redactor
    if redactor is None or value is None:
        return value
    try:
        return redactor.value(engine.plan.codec, value, "", marked=False, fits=None, what=what)
    except NotStorable:
        if engine.codec is None:
            return value
        raise


def redacted_sends(engine: RunState, due: Sequence[Due]) -> list[Due]:
    """Return *due* with the arguments of its Sends redacted; see `redacted_value`."""
    return [
        item._replace(arg=redacted_value(engine, item.arg, f"the argument of a Send to {item.node.name!r}"))
        if item.is_send
        else item
        for item in due
    ]


def redacted_error(engine: RunState, error: BaseException) -> BaseException:
    """Return *error* as it may be written and shown."""
    return error if engine.redactor is None else engine.redactor.error(error)
