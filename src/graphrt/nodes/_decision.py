"""The answer to a `human` node: a class for each set of rules, so that `resume` refuses an answer that breaks them.

The class is registered under a tag made of its rules. A process that continues the thread builds the same graph, and so
registers the same class before it reads the stored question.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, StringConstraints, create_model, model_validator

from graphrt.stores import register_type

Words: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""A non-blank text."""


class Rules(NamedTuple):
    """The required form of an answer."""

    choices: tuple[str, ...]
    roles: tuple[tuple[str, tuple[str, ...]], ...]
    """Maps a choice to the roles that may make it; anyone may make a choice without an entry."""
    rationale: bool
    """Whether a reason must be given."""
    edit: tuple[str, ...]
    """Fields that the choice "edit" may replace."""

    @property
    def known_roles(self) -> tuple[str, ...]:
        """Every role, each once."""
        return tuple(dict.fromkeys(role for _, roles in self.roles for role in roles))


def _one_of(names: tuple[str, ...]) -> Any:
    """Return the Literal of names that are known only at run time."""
    literal: Any = Literal
    return literal[names]


@lru_cache(maxsize=256)
def decision_type(rules: Rules) -> type[BaseModel]:
    """Return the class of answers that follow *rules*, registered with the stores."""
    digest = hashlib.sha256(json.dumps(rules).encode()).hexdigest()[:16]
    may: dict[str, tuple[str, ...]] = dict(rules.roles)
    roles: Any = _one_of(rules.known_roles) if rules.roles else Words
    every = len(may) == len(rules.choices)
    fields: dict[str, Any] = {
        "choice": (_one_of(rules.choices), ...),
        "by": (Words, ...),
        "role": (roles, ...) if every and rules.roles else (roles | None, None),
        "rationale": (Words, ...) if rules.rationale else (str, ""),
    }
    if rules.edit:
        mapping: Any = dict
        fields["edits"] = (mapping[_one_of(rules.edit), Any], {})

    def judge(self: Any) -> Any:
        allowed = may.get(self.choice)
        if allowed is not None and self.role not in allowed:
            raise ValueError(f"the role {self.role!r} may not choose {self.choice!r}; {', '.join(allowed)} may")
        if rules.edit and bool(self.edits) != (self.choice == "edit"):
            raise ValueError("edits belong to the choice 'edit', which needs at least one")
        return self

    make: Any = create_model  # the fields are known only at run time
    more = {"judge": model_validator(mode="after")(judge)}
    answer_class: type[BaseModel] = make(
        f"Decision_{digest}",
        __config__=ConfigDict(frozen=True, extra="forbid"),
        __module__=__name__,
        __validators__=more,
        **fields,
    )
    return register_type(answer_class, tag=f"graphrt.nodes.decision/{digest}")
