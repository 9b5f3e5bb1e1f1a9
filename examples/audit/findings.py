"""Findings that need a decision: licences by the policy, then age, size and state by rules. Pure; makes no decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from examples.audit import rules
from examples.audit.metadata import normal
from examples.audit.policy import Policy
from examples.audit.state import UNKNOWN, Decision, Finding, Opinion, Package, Severity

_DAY_S: Final = 86_400
_CONFIDENT: Final = 0.9
"""Confidence from which a licence that was found only in a text is just a note."""
_RANK: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "note": 2}


def find(
    packages: Sequence[Package],
    *,
    licences: Mapping[str, str],
    opinions: Mapping[str, Opinion],
    policy: Policy,
    now: float,
    whole: bool,
) -> list[Finding]:
    """All findings, most severe first, numbered F1, F2, ...

    Args:
        packages: 0..n packages.
        licences: The effective licence, by key.
        opinions: The opinions about the texts, by key.
        policy: What is allowed.
        now: Seconds since the epoch.
        whole: Whether *packages* is complete: only then can one be missing.
    """
    names = Counter(normal(package.facts.name) for package in packages)
    found: list[Finding] = []
    for package in packages:
        facts = package.facts
        licence, opinion = licences.get(facts.key, UNKNOWN), opinions.get(facts.key)
        for code, severity, text in (
            *_licence(package, licence, opinion, policy),
            *_state(package, names, whole=whole),
            *_size_and_age(package, policy, now),
        ):
            found.append(
                Finding(id="", package=facts.name, version=facts.version, code=code, severity=severity, text=text)
            )
    found.sort(key=lambda finding: _RANK[finding.severity])  # stable: by name within a severity
    return [finding.model_copy(update={"id": f"F{number}"}) for number, finding in enumerate(found, 1)]


def decide(finding: Finding, policy: Policy) -> Decision:
    """The automatic decision: the policy accepts the findings that it names and those that are not errors."""
    for name, reason in policy.accept.items():
        if normal(name) == normal(finding.package):
            return Decision(finding=finding.id, accept=True, reason=reason, by="policy")
    if finding.severity == "error":
        reason = f"policy {policy.name!r} allows no exception for it"
        return Decision(finding=finding.id, accept=False, reason=reason, by="policy")
    return Decision(finding=finding.id, accept=True, reason=f"a {finding.severity} only", by="policy")


_Found = tuple[str, Severity, str]


def _licence(package: Package, licence: str, opinion: Opinion | None, policy: Policy) -> Iterator[_Found]:
    claim, facts = package.claim, package.facts
    if licence == UNKNOWN:
        if policy.objection(licence) is not None:
            why = opinion.reason if opinion and opinion.reason else claim.why
            yield "unknown-licence", "error", f"unknown licence: {why}"
    else:
        objection = policy.objection(licence)
        if objection is not None:
            yield "licence-not-allowed", "error", objection
    if opinion is not None and rules.contradicts(claim, opinion):
        yield (
            "licence-contradicted",
            "warning",
            f"the metadata claims {' or '.join(claim.candidates)}, the text reads as {opinion.licence}",
        )
    elif opinion is not None and licence != UNKNOWN and rules.trusted(opinion):
        severity: Severity = "note" if opinion.confidence >= _CONFIDENT else "warning"
        yield "licence-by-text", severity, f"{licence} by its text alone ({opinion.confidence:.0%})"
    if not facts.text and not facts.editable and licence != UNKNOWN:
        yield "no-licence-text", "note", f"{licence}, but no licence text is shipped with it"


def _state(package: Package, names: Mapping[str, int], *, whole: bool) -> Iterator[_Found]:
    facts = package.facts
    if Path(facts.key).name.startswith("~"):
        yield "left-over", "warning", "a left-over of an interrupted installation"
    elif facts.problems:
        yield "broken-metadata", "warning", "; ".join(facts.problems)
    if facts.missing:
        yield "incomplete", "warning", f"{facts.missing:,} of its files {'is' if facts.missing == 1 else 'are'} missing"
    if names[normal(facts.name)] > 1:
        yield "duplicate", "warning", f"installed {names[normal(facts.name)]} times"
    absent = [name for name in facts.requires if name not in names] if whole else []
    if absent:
        yield "missing-requirement", "warning", f"requires {', '.join(absent)}, which is not installed"


def _size_and_age(package: Package, policy: Policy, now: float) -> Iterator[_Found]:
    facts = package.facts
    if policy.max_size_mb is not None and facts.size_bytes > policy.max_size_mb * 1e6:
        yield "large", "note", f"{facts.size_bytes / 1e6:,.0f} MB on disk, more than {policy.max_size_mb:g} MB"
    if policy.max_age_days is not None and facts.installed_at is not None:
        days = int((now - facts.installed_at) / _DAY_S)
        if days > policy.max_age_days:
            yield "old", "note", f"installed {days:,} days ago, more than {policy.max_age_days:,}"
