"""Redaction of values that enter a thread: once, before they are folded, hashed and stored (decision 0126).

The run continues with the redacted values, so that a replay sees the same ones. The engine knows only a `Redactor`, not
its rules. Without one, values pass unchanged. Untracked fields are never written, and are left alone. For the terms,
see docs/glossary.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrt._codec import NotStorable
from graphrt._plan.state_reducer import WHOLE
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
        update: Validated values by field.
        what: Description of the update for error texts, such as "an update of node 'ask'".
        whole: Whether the values are complete ones, as in an input, and not the operands of reducers.

    Raises:
        AuditError: A rule failed, or a field cannot hold the redacted value.
        NotStorable: A value has no encoded form.
    """
    redactor = engine.redactor
    if redactor is None:
        return update
    state = engine.plan.state
    redacted: dict[str, Any] | None = None
    for name, value in update.items():
        if name in state.untracked or value is None or value is DELETE:
            continue
        marked = name in state.redacted  # the field has the marker `redacted`: all its texts are replaced
        field = engine.plan.update.whole if name == WHOLE else engine.fields.get(name)
        fits = _fitting(field, whole=whole)
        try:
            new = redactor.value(
                engine.plan.codec, value, name, marked=marked, fits=fits, what=f"field {name!r} in {what}"
            )
        except NotStorable:
            # A run without a store writes nothing and may hold any value (R7), but marked fields must be redacted.
            if engine.codec is None and not marked:
                continue
            raise
        if new is not value:
            redacted = dict(update) if redacted is None else redacted
            redacted[name] = new
    return update if redacted is None else redacted


def _fitting(field: Field | None, *, whole: bool) -> Callable[[Any], Any] | None:
    """Return the validator for a redacted value of *field*; None for a field that only an older graph had (R14).

    Args:
        whole: Whether complete values are checked, else operands of the field's reducer.
    """
    if field is None:
        return None

    def fits(value: Any) -> Any:
        """Return *value*, validated for the field; a ValueError says that the replaced texts do not fit its type."""
        if value.__class__ is Replacement:
            return Replacement(field.check_whole(value.value))
        return field.check_whole(value) if whole else field.check(value)

    return fits


def redacted_value(engine: RunState, value: Any, what: str) -> Any:
    """Redact a value that does not belong to a field, such as an answer.

    Args:
        what: Noun for the value, for error texts.

    Raises:
        AuditError: A rule failed, or the value cannot hold the replacement.
        NotStorable: A part of it has no encoded form.
    """
    redactor = engine.redactor
    if redactor is None or value is None:
        return value
    try:
        # Without a field there is no name, no mark, and no type that the result must fit.
        return redactor.value(engine.plan.codec, value, "", marked=False, fits=None, what=what)
    except NotStorable:
        if engine.codec is None:  # a run without a store writes nothing and may hold any value (R7)
            return value
        raise


_WRITTEN = frozenset({"text", "thinking", "data", "arguments", "content", "media"})
"""Keys of graphrt's own forms whose values models and tools made."""
_PARTS = frozenset({"parts", "tool_calls", "thinking_blocks"})
"""Keys whose values are lists of such forms."""


def redacted_form(engine: RunState, form: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Redact a form of graphrt's own: the recorded reply of a model, or the recorded result of a tool.

    Field rules name fields of the user's values, so they do not see the keys of the form: a rule for `name` must not
    rename the tool that a model calls. See `redacted_value`.
    """
    redacted: dict[str, Any] = {}
    for key, value in form.items():
        if key in _WRITTEN:
            redacted[key] = redacted_value(engine, value, what)
        else:
            redacted[key] = [redacted_form(engine, part, what) for part in value] if key in _PARTS else value
    return redacted


def redacted_sends(engine: RunState, due: Sequence[Due]) -> list[Due]:
    """Return *due* with the arguments of its Sends redacted; see `redacted_value`."""
    return [
        item._replace(arg=redacted_value(engine, item.arg, f"the argument of a Send to {item.node.name!r}"))
        if item.is_send
        else item
        for item in due
    ]


def redacted_error(engine: RunState, error: BaseException) -> BaseException:
    """Return *error* with redacted texts, so that it may be written and shown; the same object if it can be changed."""
    return error if engine.redactor is None else engine.redactor.error(error)
