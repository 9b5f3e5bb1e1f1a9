"""The schema of updates: the forms in which a node may return one, and its check at the node's boundary (R7).

Unknown keys and wrong types are rejected when the node returns, with an error that names the node. The engine folds
updates into the state.

*localns* has the local names around the graph's builder, which annotations may refer to. *where* is the location that
an error names. For the terms, see docs/glossary.md.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import typing_extensions as te
from pydantic import BaseModel
from pydantic.errors import PydanticUndefinedAnnotation

from graphrt._arguments import is_mapping
from graphrt._plan import hints
from graphrt._plan.fields import Field, describe, own, uncallable
from graphrt._plan.state import (
    StateSchema,
    Values,
    complete_model,
    explain,
    field_hint,
    short,
    unresolved,
)
from graphrt._plan.state_reducer import WHOLE, StateReducer
from graphrt._plan.value_checks import Check, Checked, Checks, NotPlainError, is_marker, is_unconstrained, settings
from graphrt.commands import DELETE, UNSET, Command, Interrupt, Replacement, Send
from graphrt.errors import GraphrtError, Place, Problem, UpdateError, closest
from graphrt.errors._codes.arguments import BAD_INPUT
from graphrt.errors._codes.findings import (
    BAD_REDUCER,
    BAD_UPDATE_TYPE,
    EXTRA_FIELDS,
    FIELD_BESIDE_STATE_REDUCER,
    UNKNOWN_FIELDS_OF_UPDATE,
    UPDATE_WITH_DEFAULTS,
)
from graphrt.errors._codes.nodes import CANNOT_DELETE, MISSING_FIELD_OF_NODE, UNKNOWN_KEY_OF_NODE, WRONG_TYPE
from graphrt.reducers import TOKEN_BUDGET


@final
class UpdateSchema:
    """The updates that nodes of one graph may return. Problems of the declaration are collected, not raised.

    Args:
        state: The schema of the state.
        cls: The class declared as `Update`; None for any mapping of state fields.
        overwrite: Nodes return the full next state instead of an update.
        reducer: The function that folds updates of any type into the whole state; None if fields have reducers.
        localns: Names for forward references.
    """

    __slots__ = ("cls", "fields", "kind", "names", "problems", "reducer", "state", "whole")

    def __init__(
        self,
        state: StateSchema,
        cls: Any,
        *,
        overwrite: bool = False,
        reducer: Any = None,
        localns: Mapping[str, Any] | None = None,
    ) -> None:
        self.state: StateSchema = state
        self.cls: Any = typing.get_origin(cls) or cls
        self.problems: list[Problem] = []
        self.kind: str = "mapping"
        """"mapping", "pydantic", "dataclass", "overwrite" or "any": the form of an update, besides a mapping of fields."""
        self.names: frozenset[str] = frozenset(state.fields)
        """Fields that an update may write."""
        self.reducer: StateReducer | None = None
        """The reducer of the whole state, for the kind "any"; None for every other."""
        self.whole: Field | None = None
        """Checks updates of the kind "any" like values of a field named `WHOLE`; None for other kinds."""
        if reducer is not None:
            self._reduce_with(reducer, cls, localns)
        elif overwrite:
            self.kind = "overwrite"
            self._forget_reducers()
        elif cls is not None:
            self._read(cls, localns)
        self.fields: dict[str, Field] = {n: f for n, f in state.fields.items() if n in self.names and not overwrite}
        """Fields that the engine may write directly from a returned dict; empty for the kinds "overwrite" and "any"."""

    # -- reading the class ---------------------------------------------------------------------------------------

    def _forget_reducers(self) -> None:
        """Disable aggregation for all fields: nodes return whole states, so any two of them conflict (R6)."""
        for field in self.state.fields.values():
            field.aggregates = False
        if self.state.kind == "pydantic" and self.state.cls.model_config.get("extra") == "allow":
            self.problems.append(EXTRA_FIELDS(state=self.state.cls.__name__))

    def _reduce_with(self, reducer: Any, cls: Any, localns: Mapping[str, Any] | None) -> None:
        """Make *reducer* compute the whole state from updates of type *cls*, and report conflicting declarations."""
        self.kind, self.cls, self.names = "any", cls, frozenset()
        self.whole = Field(WHOLE, cls)
        if cls is None:
            self.problems.append(
                BAD_UPDATE_TYPE(
                    cls="None", fix="Name the type of the updates: GraphBuilder(State, Update, reducer=apply)."
                )
            )
        else:
            checked = Checks(None, localns, self.problems).of(cls, "update")
            self.whole.settle(checked, cls)
        not_a_function = ("is not a function", "Give it a function (state, update) -> state.")
        wrong_call = uncallable(reducer) if callable(reducer) else not_a_function
        if wrong_call is not None:
            problem, fix = wrong_call
            self.problems.append(
                BAD_REDUCER(reducer=getattr(reducer, "__name__", reducer), owner="the graph", problem=problem, fix=fix)
            )
        if self.state.kind == "pydantic" and self.state.cls.model_config.get("extra") == "allow":
            self.problems.append(EXTRA_FIELDS(state=self.state.cls.__name__))
        for name, field in self.state.fields.items():
            # Updates are stored as they are, so it is unknown which parts of them belong to which field.
            marker = "untracked" if field.untracked else "redacted" if field.redacted else None
            if marker is None and field.aggregates and name != TOKEN_BUDGET:  # graphrt itself folds the token budget
                marker = field.reducer_name
            if marker is not None:
                self.problems.append(FIELD_BESIDE_STATE_REDUCER(field=name, mark=marker))
        self.reducer = StateReducer(reducer, self.state)

    def _read(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        """Read the Update class *cls*, with its type arguments if it is generic; `self.cls` lacks them."""
        field_types: dict[str, Any] | None
        kind: Any = self.cls
        if te.is_typeddict(kind):
            field_types = self._hints(cls, localns)
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            self.kind = "pydantic"
            field_types = self._infos(localns)
        elif isinstance(kind, type) and dataclasses.is_dataclass(kind):
            self.kind = "dataclass"
            field_types = self._hints(cls, localns)
            self._require_unset(self.cls)
        elif kind in _MAPPINGS:  # Update is `dict[str, Any]`: any fields of the state
            return
        else:
            self.problems.append(BAD_UPDATE_TYPE(cls=short(cls)))
            return
        # If the state could not be read, every field of the Update would seem unknown.
        if field_types is not None and (self.state.fields or not self.state.problems):
            self._adopt(field_types, localns)

    def _adopt(self, declared: dict[str, Any], localns: Mapping[str, Any] | None) -> None:
        """Check updates against the fields that the Update class declares; *declared* has their types by name."""
        checks = Checks(self.cls, localns, self.problems)
        # pydantic's settings for single values; those of the Update prevail over those of the state.
        checks.config = {**settings(self.state.cls), **checks.config}
        for name, hint in declared.items():
            field = self.state.fields.get(name)
            if field is not None:
                self._narrow(field, hints.without_qualifiers(hint), checks)
                continue
            guess = closest(name, self.state.fields)
            self.problems.append(
                UNKNOWN_FIELDS_OF_UPDATE(
                    who=self.cls.__name__, unknown=repr(name), fields=self.state.fields, guess=guess
                )
            )
        self.names = frozenset(name for name in declared if name in self.state.fields)

    def _narrow(self, field: Field, hint: Any, checks: Checks) -> None:
        """Check updates of *field* against *hint*, the type that the Update declares for it.

        If *hint* repeats the field's bare type, or some members of it, the field's own constraints also apply (decision
        0017). Any other type is taken literally.
        """
        annotation = field.annotation
        checked = checks.of(hint, field.name)
        # Only if the field's type, or a member of its union, has constraints.
        if not is_unconstrained(annotation) or any(hints.metadata_of(member) for member in _parts(annotation)):
            if is_unconstrained(hint) and hints.bare(hint) == hints.bare(annotation):
                checked = Checked(field.check_whole)  # the same type: the field's check is sufficient
            elif {hints.bare(member) for member in _parts(hint)} <= {
                hints.bare(member) for member in _parts(annotation)
            }:
                checked = Checked(_both(checked.check, field.check_whole))
        field.settle(checked, hint)  # makes this the field's check, and derives when the engine may skip it

    def _hints(self, cls: Any, localns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the types of the fields by name; if one cannot be resolved, report a problem and return None."""
        try:
            return hints.class_hints(cls, localns)
        except (NameError, TypeError, SyntaxError) as error:
            self.problems.append(unresolved(self.cls, error))
            return None

    def _infos(self, localns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the types of the fields as `_hints` does, for a pydantic model, which resolves them itself."""
        cls: type[BaseModel] = self.cls
        try:
            complete_model(cls, localns)
        except (PydanticUndefinedAnnotation, NameError) as error:
            self.problems.append(unresolved(cls, error))
            return None
        return {name: field_hint(info) for name, info in cls.__pydantic_fields__.items()}

    def _require_unset(self, cls: Any) -> None:
        """Report fields of an Update dataclass without the default UNSET: each node would write them."""
        without_unset = [spec.name for spec in dataclasses.fields(cls) if spec.default is not UNSET]
        if without_unset:
            self.problems.append(UPDATE_WITH_DEFAULTS(cls=cls.__name__, fields=without_unset))

    # -- at the node's boundary ----------------------------------------------------------------------------------

    @property
    def takes_several(self) -> bool:
        """Whether a node may return a list of updates: not if an update may itself be a list, or is a whole state."""
        return self.kind not in ("any", "overwrite")

    def entries(self, returned: Any) -> Mapping[str, Any] | None:
        """Return the fields that *returned*, a node's result, writes, unchecked; None if it is not an update.

        The engine passes the result to `checked`. An update of the whole state is one value, under the key `WHOLE`.
        """
        if self.kind == "any":
            # A type such as Any would accept these, which are never an update.
            no_update = inspect.isawaitable(returned) or isinstance(returned, _NO_UPDATES) or is_marker(returned)
            return None if no_update else {WHOLE: returned}
        if self.kind == "overwrite":
            return self._whole(returned)
        if is_mapping(returned):
            return returned
        if self.kind == "pydantic" and isinstance(returned, self.cls):
            model = cast("BaseModel", returned)
            values = {name: getattr(model, name) for name in type(model).__pydantic_fields__}
            set_fields = model.model_fields_set  # the others have their defaults and are not written
            return {**{n: v for n, v in values.items() if n in set_fields}, **(model.__pydantic_extra__ or {})}
        if self.kind == "dataclass" and isinstance(returned, self.cls):
            values = {spec.name: getattr(returned, spec.name) for spec in dataclasses.fields(returned)}
            return {name: value for name, value in values.items() if value is not UNSET}
        return None

    def _whole(self, returned: Any) -> Mapping[str, Any] | None:
        """Return a full state as an update: given fields are replaced, others deleted. None if it is not a state."""
        fields = self.state.fields
        values: Mapping[str, Any]
        if is_mapping(returned):
            values = returned
        elif self.state.is_instance(returned):
            values = self.state.values_of(returned)
        else:
            return None
        full: dict[str, Any] = {}
        for name, value in values.items():
            # A key that is not a field is kept; `checked` rejects it.
            full[name] = value if is_marker(value) or name not in fields else Replacement(value)
        for name, field in fields.items():
            if name not in full and not field.required:
                full[name] = DELETE
        return full

    def checked(self, returned: Mapping[Any, Any], *, node: str, where: str | Place) -> Values:
        """Return the validated update. An Overwrite stays one, with a validated value; UNSET fields are left out.

        Args:
            returned: What `entries` returned.
            node: Name of the node.
            where: The place to name in an error.

        Raises:
            UpdateError: An unknown key (`unknown-key`); values of a wrong type, all at once with the paths inside them
                (`wrong-type`); a DELETE without a default (`cannot-delete`); a full state that lacks a field
                (`missing-field`).
        """
        if self.whole is not None:
            return self._checked_whole(self.whole, returned[WHOLE], node, where)
        result: Values = {}
        problems: dict[str, str] = {}  # the problem, by field
        suggestions: list[str] = []  # in the same order, what to return instead
        for name, value in returned.items():
            field = self.state.fields.get(name) if isinstance(name, str) else None
            if field is None or name not in self.names:
                raise self._unknown(name, node, where)
            if value is UNSET:
                continue
            try:
                result[name] = self._check_one(field, value, node, where)
            except GraphrtError:
                raise
            except Exception as error:  # noqa: BLE001 - a validator of the user's may raise anything
                # `unquoted`: the fields whose values no error may quote (R16).
                problems[name] = explain(error, name, self.state.unquoted)
                suggestions.append(_wanted(field, value))
        if problems:
            raise WRONG_TYPE(
                node=node,
                problems="; ".join(problems.values()),
                field=next(iter(problems)),
                path=next(iter(problems.values())).split(":")[0],  # a text of `explain` is "path: problem"
                where=where,
                known=", ".join(f"{name}: {_kind(self.state.fields[name], returned[name])}" for name in returned),
                fix=next(filter(None, (_known_mistake(returned[name]) for name in problems)), "")
                or f"Return {'; '.join(suggestions)}.",
            )
        if self.kind == "overwrite":
            self._require_all(result, node, where)
        return result

    def entered(self, input_values: Mapping[str, Any], *, node: str, where: str | Place) -> Values:
        """Return an update from outside the graph, validated, with copied containers.

        Unlike a node's update, it may write any field of the state.

        Args:
            input_values: The update, as a mapping of fields.
            node: Name of the node that runs the graph.
            where: The place to name in an error.

        Raises:
            InputError: A key is not a field, or a value does not fit.
            UpdateError: A DELETE without a default.
        """
        input_values = self.state.by_names(input_values)
        self.state.refuse_unknown(input_values, where)
        result: Values = {}
        for name, field in self.state.fields.items():
            if name not in input_values:
                continue
            try:
                result[name] = self._check_one(field, own(input_values[name]), node, where)
            except GraphrtError:
                raise
            except Exception as error:  # noqa: BLE001 - as above; `unquoted`: fields that no error may quote (R16)
                raise BAD_INPUT(
                    who=f"The input of nested graph {node!r}",
                    state_class=self.state.cls.__name__,
                    problems=explain(error, name, self.state.unquoted),
                    field=name,
                    where=where,
                ) from None
        return result

    def _checked_whole(self, field: Field, value: Any, node: str, where: str | Place) -> Values:
        """Return the whole-state update *value*, validated, in the engine's form."""
        try:
            return {WHOLE: self.check_any(value)}
        except Exception as error:  # noqa: BLE001 - as above
            problem = explain(error, "update", self.state.unquoted)
            raise WRONG_TYPE(
                node=node,
                problems=problem,
                path=problem.split(":", maxsplit=1)[0],
                where=where,
                known=f"update: {describe(field.annotation)}",
                fix=_known_mistake(value) or f"Return an update of the type {describe(field.annotation)}.",
            ) from None

    def check_any(self, value: Any) -> Any:
        """Return *value* validated, for the kind "any".

        Raises:
            ValueError: It does not have the update type, or contains DELETE or Overwrite.
        """
        if is_mapping(value):
            for marker in filter(is_marker, value.values()):
                raise NotPlainError(marker)
        return self.whole.check(value) if self.whole is not None else value

    def shown(self, updates: Sequence[Mapping[str, Any]]) -> Any:
        """Return the *updates* of one task, of the kind "any", as nodes returned them.

        None if there are none, the value if there is one, a list if there are several, as for a nested graph.
        """
        values = [update[WHOLE] for update in updates if WHOLE in update]
        return None if not values else values[0] if len(values) == 1 else values

    def returned(self, update: Mapping[str, Any]) -> Any:
        """Return one checked *update* in the form in which a node or a caller gave it."""
        return update if self.whole is None else self.shown([update])

    def _require_all(self, written: Values, node: str, where: str | Place) -> None:
        """Reject a whole state that lacks a field without a default."""
        missing = [name for name, field in self.state.fields.items() if field.required and name not in written]
        if missing:
            raise MISSING_FIELD_OF_NODE(
                node=node,
                missing=missing,
                field=missing[0],
                where=where,
                fix="A graph made by GraphBuilder.overwrite() wants every field; start from {**state, ...}."
                if self.state.kind == "typeddict"
                else "A graph made by GraphBuilder.overwrite() wants every field that has no default.",
            )

    def _check_one(self, field: Field, value: Any, node: str, where: str | Place) -> Any:
        """Return the validated value of one field; the runtime also uses it for an input that continues a thread.

        A TypedDict key may be deleted without a default, since it may be absent.

        Raises:
            ValueError: The value does not fit (pydantic's ValidationError is one).
            UpdateError: It is DELETE, and the field has no default (`cannot-delete`).
        """
        if value is DELETE:
            if not field.has_default and self.state.kind != "typeddict":
                raise CANNOT_DELETE(node=node, field=field.name, where=where)
            return Replacement(field.default()) if field.varies else DELETE  # the journal keeps a default that varies
        if isinstance(value, Replacement):
            return Replacement(field.check_whole(value.value))
        return field.check(value)

    def _unknown(self, name: Any, node: str, where: str | Place) -> UpdateError:
        """Return the error for a key that is not a field which the node may write."""
        guess = closest(name, [n for n in self.state.fields if n in self.names])
        return UNKNOWN_KEY_OF_NODE(
            node=node,
            name=short(name),
            fields=(n for n in self.state.fields if n in self.names),
            field=str(name),
            where=where,
            guess=guess,
        )


def _known_mistake(value: Any) -> str:
    """Return advice if *value* is or contains a coroutine or a whole reply of a model; else empty."""
    kind: Any = value.__class__
    parts: Any = list(value.values()) if kind is dict else value if kind in (list, tuple) else (value,)
    if any(inspect.iscoroutine(part) for part in parts):
        return "A value is a coroutine: await the call that makes it."
    # Compared by name: replies belong to the harness, a layer that the plan may not import.
    if ("graphrt.harness.protocol", "AgentReply") in ((type(part).__module__, type(part).__name__) for part in parts):
        return "A value is the reply of a model: return reply.text, reply.output or list(reply.new_messages)."
    return ""


def _wanted(field: Field, value: Any) -> str:
    """Return a replacement for *value*, for the "Fix" line: the type, and a list for a single item."""
    kind = _kind(field, value)
    text = f"{field.name!r} as {kind}"
    if kind.startswith("list[") and not isinstance(value, list | tuple | set | frozenset):
        text += f", for one item as a list of one: {{{field.name!r}: [...]}}"
    return text


def _kind(field: Field, value: Any) -> str:
    """Return the type that *value* of an update of *field* should have, as text."""
    return describe(field.annotation if isinstance(value, Replacement) else field.update_hint)


def _both(first: Check, second: Check) -> Check:
    """Return the check that applies *first*, then *second* to its result."""
    return lambda value: second(first(value))


def _parts(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, with their Annotated kept; for any other hint, the hint itself."""
    bare = hints.bare(hint)
    return typing.get_args(bare) if typing.get_origin(bare) in (typing.Union, types.UnionType) else (bare,)


_NO_UPDATES: Final = (Command, Interrupt, Send)
"""Values that a node may return besides updates, and those that only a Command or a router may hold."""
_MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
"""Update classes that name no fields."""
