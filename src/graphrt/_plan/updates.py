"""A partial update: the forms in which a node may return one, and the check at the node's boundary (rule R7).

How updates become part of the state does not live here: that is the engine's fold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, final

import typing_extensions as te
from pydantic import BaseModel

from graphrt._plan import hints
from graphrt._plan.fields import Field, is_mapping, make_check
from graphrt._plan.state import StateSchema, Values, explain, short
from graphrt.commands import DELETE, UNSET, Replacement
from graphrt.errors import Problem, UpdateError, closest, names


@final
class UpdateSchema:
    """What the nodes of one graph may return as an update."""

    __slots__ = ("cls", "fields", "kind", "names", "problems", "state")

    def __init__(
        self, state: StateSchema, cls: Any, *, overwrite: bool = False, localns: Mapping[str, Any] | None = None
    ) -> None:
        self.state: StateSchema = state
        self.cls: Any = cls
        self.problems: list[Problem] = []
        self.kind: str = "mapping"
        self.names: frozenset[str] = frozenset(state.fields)
        """Fields that an update may name."""
        if overwrite:
            self.kind = "overwrite"
            for field in state.fields.values():
                field.aggregates = False
        elif cls is not None:
            self._read(cls, localns)
        self.fields: dict[str, Field] = {n: f for n, f in state.fields.items() if n in self.names and not overwrite}
        """Fields that a mapping may write directly: none where nodes return whole states."""

    def _read(self, cls: Any, localns: Mapping[str, Any] | None) -> None:
        strict = False
        declared: dict[str, Any]
        if te.is_typeddict(cls):
            declared = self._hints(cls, localns)
            strict = bool(getattr(cls, "__pydantic_config__", {}).get("strict"))
        elif isinstance(cls, type) and issubclass(cls, BaseModel):
            self.kind = "pydantic"
            strict = bool(cls.model_config.get("strict"))
            declared = {
                name: te.Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
                for name, info in cls.model_fields.items()
            }
        elif isinstance(cls, type) and dataclasses.is_dataclass(cls):
            self.kind = "dataclass"
            declared = self._hints(cls, localns)
            self._require_unset(cls)
        elif hints.bare(cls) is dict or _is_mapping_hint(cls):
            return
        else:
            self.problems.append(
                Problem(
                    code="bad-update-type",
                    message=f"{cls!r} cannot be the Update of a graph.",
                    hint="Use a TypedDict with total=False, a pydantic model or a dataclass of partial updates.",
                )
            )
            return
        self._adopt(declared, cls.__name__, strict=strict)

    def _adopt(self, declared: dict[str, Any], owner: str, *, strict: bool) -> None:
        for name, hint in declared.items():
            field = self.state.fields.get(name)
            if field is None:
                guess = closest(name, self.state.fields)
                self.problems.append(
                    Problem(
                        code="bad-update-type",
                        message=f"{owner}.{name} updates a field that {self.state.cls.__name__} does not have.",
                        hint=f"Did you mean {guess!r}?" if guess else f"Declare {name!r} in the state, or remove it.",
                    )
                )
                continue
            hint = hints.without_qualifiers(hint)
            if hint != field.annotation:
                field.check = make_check(hint, strict=strict, name=name, problems=self.problems)
                field.settle(hint)
        self.names = frozenset(name for name in declared if name in self.state.fields)

    def _hints(self, cls: Any, localns: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return hints.class_hints(cls, localns)
        except (NameError, TypeError, SyntaxError) as error:
            self.problems.append(
                Problem(
                    code="bad-update-type",
                    message=f"The annotations of {cls.__name__} cannot be resolved: {error}",
                    hint="Define the named types before GraphBuilder(...), at module level or in the same function.",
                )
            )
            return {}

    def _require_unset(self, cls: Any) -> None:
        bad = [spec.name for spec in dataclasses.fields(cls) if spec.default is not UNSET]
        if bad:
            self.problems.append(
                Problem(
                    code="bad-update-type",
                    message=f"Fields of the dataclass {cls.__name__} would be written even if a node does not set "
                    f"them: {names(bad)}.",
                    hint="Give every field of a dataclass used as Update the default UNSET.",
                )
            )

    # -- at the node's boundary ----------------------------------------------------------------------------------

    def entries(self, returned: Any) -> Mapping[str, Any] | None:
        """What *returned* writes, unchecked; None if it is no update at all."""
        if self.kind == "overwrite":
            return self._whole(returned)
        if is_mapping(returned):
            return returned
        if self.kind == "pydantic" and isinstance(returned, self.cls):
            return {name: getattr(returned, name) for name in self.cls.model_fields if name in returned.model_fields_set}
        if self.kind == "dataclass" and isinstance(returned, self.cls):
            written = {spec.name: getattr(returned, spec.name) for spec in dataclasses.fields(self.cls)}
            return {name: value for name, value in written.items() if value is not UNSET}
        return None

    def _whole(self, returned: Any) -> Mapping[str, Any] | None:
        fields = self.state.fields
        given: Mapping[str, Any]
        if is_mapping(returned):
            given = returned
        elif self.state.kind != "typeddict" and isinstance(returned, self.state.cls):
            given = {name: getattr(returned, name) for name in fields if hasattr(returned, name)}
        else:
            return None
        full: dict[str, Any] = {}
        for name, value in given.items():
            marker = isinstance(value, Replacement) or value is DELETE
            full[name] = value if marker or name not in fields else Replacement(value)
        for name, field in fields.items():
            if name not in full:
                if field.required and self.state.kind == "typeddict":
                    raise UpdateError(
                        f"The full state that the node returned lacks {name!r}.",
                        code="missing-field",
                        field=name,
                        fix="A graph made by GraphBuilder.overwrite() wants every field; start from {**state, ...}.",
                    )
                full[name] = DELETE
        return full

    def checked(self, returned: Mapping[Any, Any], *, node: str, where: str) -> Values:
        """The validated update; markers stay markers, with their values validated.

        Raises:
            UpdateError: An unknown key, or a value of a wrong type, with the path inside it; all of them at once.
        """
        result: Values = {}
        wrong: list[str] = []
        for name, value in returned.items():
            field = self.state.fields.get(name) if isinstance(name, str) else None
            if field is None or name not in self.names:
                raise self._unknown(name, node, where)
            if value is UNSET:
                continue
            try:
                result[name] = self._check_one(field, value, node, where)
            except ValueError as error:
                wrong.append(explain(error, name))
        if wrong:
            raise UpdateError(
                f"Node {node!r} returned an update of a wrong type: {'; '.join(wrong)}.",
                code="wrong-type",
                where=where,
                known=", ".join(f"{name}: {_type_of(self.state.fields[name])}" for name in returned),
                fix="Return values of the declared types.",
                node=node,
                field=wrong[0].split(":")[0].split("[")[0].split(".")[0],
                path=wrong[0].split(":")[0],
            )
        return result

    def _check_one(self, field: Field, value: Any, node: str, where: str) -> Any:
        if value is DELETE:
            if not field.has_default and self.state.kind != "typeddict":
                raise UpdateError(
                    f"Node {node!r} deletes field {field.name!r}, which has no default to return to.",
                    code="cannot-delete",
                    where=where,
                    fix="Give the field a default, or write a value.",
                    node=node,
                    field=field.name,
                )
            return DELETE
        if isinstance(value, Replacement):
            return Replacement(field.check_whole(value.value))
        return field.check(value)

    def _unknown(self, name: Any, node: str, where: str) -> UpdateError:
        guess = closest(name, self.names)
        return UpdateError(
            f"Node {node!r} wrote {short(name)}, which is no field of the update.",
            code="unknown-key",
            where=where,
            known=f"fields {names(n for n in self.state.fields if n in self.names)}",
            fix=f"Did you mean {guess!r}?" if guess else "Remove the key, or declare the field.",
            node=node,
            field=str(name),
        )


def _type_of(field: Field) -> str:
    from graphrt._plan.fields import describe

    return describe(field.annotation)


def _is_mapping_hint(cls: Any) -> bool:
    import collections.abc
    import typing

    origin = typing.get_origin(cls) or cls
    return origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping)
