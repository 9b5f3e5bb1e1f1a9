"""The allowed licences: the policy, its presets, its file, and whether it permits a licence. It makes no findings."""

from __future__ import annotations

import json
import tomllib
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from examples.audit.spdx import FAMILIES, FAMILY_OF, Expression, Leaf, SpdxError, parse

_ALIASES: Final = {"copyleft": ("weak-copyleft", "strong-copyleft", "network-copyleft")}


class PolicyError(ValueError):
    """The policy cannot be used; the text gives the reason."""


class Policy(BaseModel):
    """The allowed licences of an environment.

    `allow` and `deny` hold families ("permissive", "copyleft", ...) and SPDX ids, with * as a wildcard; deny wins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "custom"
    allow: tuple[str, ...] = ("public-domain", "permissive")
    deny: tuple[str, ...] = ()
    accept: dict[str, str] = Field(default_factory=dict[str, str])
    """Distribution to the reason why its findings are accepted."""
    max_age_days: int | None = Field(default=1_095, ge=1)
    """Older installations are noted; None for any age."""
    max_size_mb: float | None = Field(default=100.0, gt=0)
    """Larger distributions are noted; None for any size."""

    @field_validator("allow", "deny")
    @classmethod
    def _are_known(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        for word in words:
            _check(word)
        return words

    def with_words(self, *, allow: list[str], deny: list[str]) -> Policy:
        """This policy with additional words.

        Raises:
            PolicyError: A word names no licence.
        """
        if not allow and not deny:
            return self
        more = {"name": f"{self.name}, adjusted", "allow": (*self.allow, *allow), "deny": (*self.deny, *deny)}
        return _build({**self.model_dump(), **more})

    def objection(self, licence: str) -> str | None:
        """Why this licence is not permitted, or None if it is.

        Args:
            licence: An SPDX expression, or "unknown".
        """
        try:
            return self._objection(parse(licence))
        except SpdxError as error:
            return f"{licence!r} is no SPDX expression: {error}"

    def _objection(self, expression: Expression) -> str | None:
        if isinstance(expression, Leaf):
            if any(_matches(word, expression) for word in self.deny):
                return f"{expression} is denied"
            if any(_matches(word, expression) for word in self.allow):
                return None
            return f"{expression} ({expression.family}) is not allowed"
        found = [self._objection(part) for part in expression.parts]
        if expression.op == "OR" and None in found:
            return None
        return next((objection for objection in found if objection), None)


def load(name: str) -> Policy:
    """The preset of this name, or the policy in this JSON or TOML file.

    Raises:
        PolicyError: There is neither, or the file does not hold a policy.
    """
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    if path.suffix not in (".json", ".toml"):
        raise PolicyError(f"{name!r} is neither {' nor '.join(PRESETS)} nor a .json or .toml file")
    try:
        text = path.read_text(encoding="utf-8")
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise PolicyError(f"{name}: {error.strerror or error}") from error
    except ValueError as error:
        raise PolicyError(f"{name} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise PolicyError(f"{name} must hold a table of settings")
    return _build({"name": path.stem, **data}, name)


def _build(data: dict[str, object], where: str = "") -> Policy:
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            text = f"there is no setting {field!r}; known: {', '.join(Policy.model_fields)}"
        else:
            text = f"{field}: {first['msg'].removeprefix('Value error, ')}"
        raise PolicyError(f"{where}: {text}" if where else text) from None


def _check(word: str) -> None:
    if word in FAMILIES or word in _ALIASES or word.startswith("LicenseRef-"):
        return
    if any(_matches(word, Leaf(name)) for name in FAMILY_OF):
        return
    known = {name.lower(): name for name in (*FAMILY_OF, *FAMILIES, *_ALIASES)}
    near = get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    raise ValueError(f"{word!r} names no licence" + (f"; did you mean {known[near[0]]!r}?" if near else ""))


def _matches(word: str, leaf: Leaf) -> bool:
    if leaf.family in _ALIASES.get(word, (word,)):
        return True
    low, name = word.lower(), leaf.id.lower()
    return fnmatchcase(name, low) or name in (f"{low}-only", f"{low}-or-later")


PRESETS: Final = {
    "permissive": Policy(name="permissive"),
    "copyleft-ok": Policy(
        name="copyleft-ok", allow=("public-domain", "permissive", "weak-copyleft", "strong-copyleft")
    ),
}
