"""`human`: a node that asks a person for a decision, and turns it into a value for a router."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from graphrt._arguments import is_mapping
from graphrt._drivers.context import Context
from graphrt.commands import Interrupt, Overwrite, check_expiry
from graphrt.errors import QuestionExpiredError
from graphrt.errors._codes.arguments import ARGUMENT_NEEDS_ANOTHER, UNKNOWN_NAME_IN_ARGUMENT
from graphrt.graph import declare_fields
from graphrt.harness import Template
from graphrt.nodes._decision import Rules, decision_type
from graphrt.nodes._state_access import SyncNode, checked_names, read
from graphrt.nodes._terminal import ReadLine, ask_at_terminal, line_reader
from graphrt.specs import Form, FunctionRef, TemplateText, declare_form
from graphrt.specs.manifest import Name, Number

EDIT: Final = "edit"


class Decision(TypedDict):
    """Who decided what, and why; written to the field `record=` of `human`."""

    choice: str
    by: str | None
    """The person; None after a timeout."""
    role: str | None
    rationale: str
    edits: dict[str, Any]
    """The replaced fields with their new values."""


def human(
    question: str | Template,
    *,
    into: str,
    choices: Sequence[str] = ("approve", "reject"),
    record: str | None = None,
    show: str | Sequence[str] = (),
    roles: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    rationale: bool = False,
    edit: str | Sequence[str] = (),
    timeout_s: float | None = None,
    on_timeout: str = "timeout",
    terminal: bool | ReadLine = False,
) -> SyncNode:
    """Return a node that asks a person, and writes the choice into a field for `router`.

    The run pauses with an interrupt. The answer is a mapping: `resume(thread, answer={"choice": "approve", "by":
    "Ann"})`. An answer without a person, with an unknown choice or role, or with a role that may not make this choice
    raises InputError (`bad-answer`), and the question stays open.

    Args:
        question: The text of a Template over fields, or a Template.
        into: The field for the choice, a string.
        choices: 1..n choices; "edit" is added if `edit` names fields.
        record: The field for the whole `Decision`.
        show: Fields that the question shows.
        roles: Roles that may decide; or a mapping of choices to roles, in which anyone may make an unlisted choice.
            None requires no role.
        rationale: Whether a reason must be given. It may always be given.
        edit: Fields that the person may replace, with the choice "edit" and `edits={field: value}`.
        timeout_s: Seconds above 0 after which the choice is `on_timeout`. A worker continues the thread then, or
            `drive(thread)`, or `retry(thread)`.
        on_timeout: The choice after a timeout.
        terminal: True asks at the terminal, if there is one, instead of pausing; or a function that shows a prompt and
            returns a line. If the input ends, the run pauses.

    Raises:
        InputError: An argument is wrong (`input`, or the code of a template).
    """
    text = Template(question) if isinstance(question, str) else question
    shown = checked_names("show", show, "human()")
    rules = _rules(choices, roles, rationale=rationale, edit=edit)
    targets = [name for name in (into, record) if name is not None]
    checked_names("into and record", targets, "human()", least=1)
    check_expiry(timeout_s, "timeout_s= of human()")
    answer_type = decision_type(rules)

    def ask(state: Any, ctx: Context[Any]) -> Any:
        try:
            decision = ctx.answer
        except QuestionExpiredError:
            return late()
        if decision is not None:
            return update(decision.model_dump())
        payload: dict[str, Any] = {
            "question": text.render(state),
            "choices": list(rules.choices),
            "context": {name: read(state, name) for name in shown},
            "roles": list(rules.known_roles),
            "rationale": rules.rationale,
            "edit": list(rules.edit),
        }
        reader = line_reader(terminal=terminal)
        if reader is not None:
            ask_here = partial(ask_at_terminal, fields=ctx._task.engine.plan.state.fields)
            response = ctx.effect("terminal", ask_here, reader, payload, rules, answer_type)
            if response is not None:
                return update(response)
        if timeout_s is None:
            return Interrupt(payload, answer_type=answer_type)
        # Recorded once, so that later executions know when the question was asked.
        remaining_s = ctx.effect("asked", ctx.now) + timeout_s - ctx.now()
        if remaining_s <= 0:
            return late()
        return Interrupt(payload, answer_type=answer_type, expires_s=remaining_s)

    def update(response: Mapping[str, Any]) -> dict[str, Any]:
        edits: dict[str, Any] = response.get("edits", {})
        wrote = {field: Overwrite(value) for field, value in edits.items()} | {into: response["choice"]}
        if record is not None:
            wrote[record] = {**response, "edits": edits}
        return wrote

    def late() -> dict[str, Any]:
        return update({"choice": on_timeout, "by": None, "role": None, "rationale": ""})

    reads = dict.fromkeys((*text.fields, *shown))
    declare_form(
        ask,
        HumanForm,
        {
            "question": question,
            "into": into,
            "choices": choices,
            "record": record,
            "show": show,
            "roles": roles,
            "rationale": rationale,
            "edit": edit,
            "timeout_s": timeout_s,
            "on_timeout": on_timeout,
            "terminal": terminal,
        },
    )
    return declare_fields(ask, reads=reads, writes=dict.fromkeys((*targets, *rules.edit)))


class HumanForm(Form):
    """Asks a person, and writes the choice into a field."""

    kind: Literal["human"] = "human"
    question: TemplateText
    """Text with fields of the state in braces."""
    into: Name
    """The field for the choice."""
    choices: list[Name] = Field(default=["approve", "reject"])
    record: Name | None = None
    """The field for the whole decision."""
    show: Name | list[Name] = Field(default=[])
    """Fields that the question shows."""
    roles: list[Name] | dict[Name, list[Name]] | None = None
    """Roles that may decide; or a mapping of choices to roles."""
    rationale: bool = False
    """Whether a reason must be given."""
    edit: Name | list[Name] = Field(default=[])
    """Fields that the person may replace."""
    timeout_s: Number | None = None
    on_timeout: Name = "timeout"
    """The choice after a timeout."""
    terminal: bool | FunctionRef = False

    factory: ClassVar[Any] = staticmethod(human)
    texts: ClassVar[frozenset[str]] = frozenset({"question"})


def _rules(choices: Any, roles: Any, *, rationale: bool, edit: Any) -> Rules:
    editable = checked_names("edit", edit, "human()")
    offered = checked_names("choices", choices, "human()", least=1)
    if editable and EDIT not in offered:
        offered = (*offered, EDIT)
    if EDIT in offered and not editable:
        raise ARGUMENT_NEEDS_ANOTHER(
            argument="The choice 'edit' of human()", missing="the fields to edit: edit=('letter',)"
        )
    if roles is None:
        return Rules(offered, (), rationale, editable)
    by_choice = roles if is_mapping(roles) else dict.fromkeys(offered, roles)
    unknown = [choice for choice in by_choice if choice not in offered]
    if unknown:
        raise UNKNOWN_NAME_IN_ARGUMENT(
            argument="roles= of human()", name=unknown[0], what="choice", known_names=offered
        )
    may = tuple((choice, checked_names("roles", by_choice[choice], "human()", least=1)) for choice in by_choice)
    return Rules(offered, may, rationale, editable)
