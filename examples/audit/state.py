"""The data of the audit: facts, claims, opinions, findings, and the state that folds them. Values only, no rules."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

from pydantic import BaseModel, ConfigDict

from examples.audit.policy import Policy
from graphrt.reducers import add, append, merge

Source: TypeAlias = Literal["expression", "field", "classifier", "text", "none"]
Severity: TypeAlias = Literal["error", "warning", "note"]
UNKNOWN = "unknown"
"""Placeholder for a licence that could not be identified."""


class Frozen(BaseModel):
    """Base of the values, which are immutable."""

    model_config = ConfigDict(frozen=True)


class Facts(Frozen):
    """The data on the disk about one distribution, without a judgement."""

    key: str
    """The folder of its metadata: unique, unlike the name."""
    name: str
    version: str
    summary: str = ""
    homepage: str = ""
    python: str = ""
    requires: tuple[str, ...] = ()
    """Names of its unconditional requirements, normalised."""
    expression: str = ""
    """Value of License-Expression."""
    field: str = ""
    """Value of License: an id, a name, or a whole text."""
    classifiers: tuple[str, ...] = ()
    """The trove classifiers about the licence, without their common prefix."""
    text: str = ""
    """Its licence files, one after another, clipped."""
    text_files: tuple[str, ...] = ()
    installed_at: float | None = None
    """Newest file time of its metadata, seconds since the epoch."""
    files: int = 0
    size_bytes: int = 0
    missing: int = 0
    """Files that RECORD names and that are missing."""
    top_level: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    editable: bool = False
    problems: tuple[str, ...] = ()
    """Its unreadable parts, one sentence each."""


class Claim(Frozen):
    """The licence according to the metadata alone."""

    licence: str = UNKNOWN
    """An SPDX expression; with several candidates, all of them joined by AND, to be on the safe side."""
    candidates: tuple[str, ...] = ()
    source: Source = "none"
    sure: bool = False
    """Whether the metadata settles it. If not, the licence's text has to be read."""
    why: str = ""


class Package(Frozen):
    """One distribution: its facts and its claim."""

    facts: Facts
    claim: Claim


class Opinion(Frozen):
    """The model's reading of the licence's text."""

    licence: str = UNKNOWN
    confidence: float = 0.0
    """From 0 to 1."""
    reason: str = ""
    model: str = ""


class Finding(Frozen):
    """A problem that a person or the policy has to accept or to reject."""

    id: str
    """F1, F2, ..."""
    package: str
    version: str
    code: str
    severity: Severity
    text: str


class Decision(Frozen):
    """The decision about a finding."""

    finding: str
    accept: bool
    reason: str
    by: Literal["policy", "person"]


class Verdict(Frozen):
    """The end of the audit, in numbers."""

    passed: bool
    distributions: int
    files: int
    findings: int
    rejected: int
    doubtful: int
    settled: int
    """Doubtful licences that the text settled."""


def tally(current: dict[str, int], incoming: dict[str, int]) -> dict[str, int]:
    """Add up counts by key: a reducer is any pure function `(current, incoming) -> new`."""
    return {key: current.get(key, 0) + incoming.get(key, 0) for key in {**current, **incoming}}


class State(BaseModel):
    """The state of the graph.

    A field with a reducer folds the writes of parallel tasks; the others keep the last value.
    """

    sites: list[str]
    policy: Policy
    reviewer: Literal["policy", "person"] = "policy"
    limit: int | None = None
    """Number of distributions to audit; None for all of them."""

    found: list[str] = []
    packages: Annotated[list[Package], append] = []
    size: Annotated[int, add] = 0
    """Bytes on disk."""
    sources: Annotated[dict[str, int], tally] = {}
    """Number of claims by source."""
    doubts: list[str] = []
    """Keys of packages whose licence the metadata does not settle."""
    opinions: Annotated[dict[str, Opinion], merge] = {}
    """By key of the package."""
    trouble: str = ""
    """The reason why the model did not answer, if it did not."""
    licences: dict[str, str] = {}
    """The effective licence, by key of the package."""
    findings: list[Finding] = []
    decisions: Annotated[list[Decision], append] = []
    verdict: Verdict | None = None

    def package(self, key: str) -> Package:
        """The package with this key."""
        return next(package for package in self.packages if package.facts.key == key)

    def finding(self, id: str) -> Finding:
        """The finding with this id."""
        return next(finding for finding in self.findings if finding.id == id)


class Update(TypedDict, total=False):
    """The fields that nodes may write."""

    found: list[str]
    packages: list[Package]
    size: int
    sources: dict[str, int]
    doubts: list[str]
    opinions: dict[str, Opinion]
    trouble: str
    licences: dict[str, str]
    findings: list[Finding]
    decisions: list[Decision]
    verdict: Verdict
