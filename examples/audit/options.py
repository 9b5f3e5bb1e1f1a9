"""The command line: the options, and clear errors about invalid ones. It runs nothing."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from examples.audit import metadata, policy
from examples.audit.policy import Policy, PolicyError

PROGRAM = "python -m examples.audit"
DEFAULT_REPORT = "audit-report.md"
_EXAMPLES = """\
examples:
  python -m examples.audit --policy copyleft-ok --deny 'AGPL-*'
  python -m examples.audit --path ../other/.venv --review
  python -m examples.audit --model openai/gpt-4o-mini
  python -m examples.audit --json | jq .verdict
  python -m examples.audit --review --db audits.db

Licences are SPDX ids, with * as a wildcard, or families: public-domain,
permissive, copyleft (weak-, strong- or network-copyleft alone), proprietary,
unknown. A policy file, .toml or .json, sets name, allow, deny, max_age_days,
max_size_mb, and accept: a table of distribution = "reason".

The report goes to audit-report.md if neither --out nor --json is given. The
exit code is 0; with --strict 1 if a finding was rejected; 2 if it cannot run.
Beside a report in a file, a page of the same name, .html, shows the run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The validated options."""

    sites: list[str]
    label: str
    """The audited environment, for people."""
    policy: Policy
    limit: int | None
    model: str | None
    api_base: str | None
    review: bool
    strict: bool
    graph: bool
    json: bool
    quiet: bool
    colour: bool
    out: str | None
    """The destination of the report; "-" is standard output, None disables it."""
    page: str | None
    """The destination of the page of the run: beside the report, if that is a file."""
    db: str | None
    """The SQLite file of the audit, from which a killed audit continues; None keeps it in memory."""
    command: str
    """The command line, for another run."""


def parse(arguments: Sequence[str]) -> Options:
    """The options in *arguments*.

    Raises:
        SystemExit: 0 after --help, 2 after a message about what is wrong.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.json and given.review:
        parser.error("--json and --review exclude each other: a review needs the terminal")
    if given.limit is not None and given.limit < 1:
        parser.error(f"--limit must be 1 or more, not {given.limit}")
    if given.model is not None and importlib.util.find_spec("litellm") is None:
        parser.error("--model needs litellm, which is not installed: pip install 'graphrt[litellm]'")
    if given.model is not None and "/" not in given.model:
        parser.error(f"--model takes provider/name, such as openai/gpt-4o-mini, not {given.model!r}")
    sites, label = _sites(parser, given.path)
    out = _out(parser, given.out, json=given.json)
    try:
        chosen = policy.load(given.policy).with_words(allow=_words(given.allow), deny=_words(given.deny))
    except PolicyError as error:
        parser.error(f"the policy cannot be used: {error}")
    return Options(
        sites=sites,
        label=label,
        policy=chosen,
        limit=given.limit,
        model=given.model,
        api_base=given.api_base,
        review=given.review,
        strict=given.strict,
        graph=given.graph,
        json=given.json,
        quiet=given.quiet,
        colour=not given.no_color,
        out=out,
        page=None if out in (None, "-") else str(Path(out).with_suffix(".html")),
        db=given.db,
        command=" ".join([PROGRAM, *(_quoted(argument) for argument in arguments)]),
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"audit: {message}\nTry: {PROGRAM} --help\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Audit the distributions of a Python environment: licences, age, size, state.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is audited")
    what.add_argument("--path", metavar="SITE", help="another environment, or its site-packages folder")
    what.add_argument("--limit", type=int, metavar="N", help="only the first N distributions")
    rules = parser.add_argument_group("what is allowed")
    rules.add_argument(
        "--policy", default="permissive", metavar="NAME", help="permissive (default), copyleft-ok, or a file"
    )
    rules.add_argument("--allow", action="append", default=[], metavar="LIST", help="allow these too: MPL-2.0,LGPL-*")
    rules.add_argument("--deny", action="append", default=[], metavar="LIST", help="deny these, whatever is allowed")
    who = parser.add_argument_group("who decides")
    who.add_argument("--model", metavar="PROVIDER/NAME", help="let this model read doubtful licences; needs its key")
    who.add_argument("--api-base", metavar="URL", help="where the model is served")
    who.add_argument("--review", action="store_true", help="decide each finding yourself, here")
    who.add_argument("--strict", action="store_true", help="exit with 1 if a finding was rejected")
    keep = parser.add_argument_group("what is kept")
    keep.add_argument("--db", metavar="FILE", help="keep the audit in this SQLite file; one that was killed goes on")
    show = parser.add_argument_group("what is shown")
    show.add_argument("--out", metavar="FILE", help="where the report goes, .md or .json; - prints it")
    show.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")
    show.add_argument("--graph", action="store_true", help="print the graph as Mermaid, and exit")
    show.add_argument("--quiet", action="store_true", help="print the verdict only")
    show.add_argument("--no-color", action="store_true", help="no colours, no spinner; NO_COLOR does the same")
    return parser


def _sites(parser: _Parser, given: str | None) -> tuple[list[str], str]:
    if given is None:
        return metadata.own_sites(), f"environment {Path(sys.prefix).name}"
    path = Path(given).expanduser()
    site = metadata.site_of(path)
    if site is None:
        what = "is no folder" if path.exists() else "does not exist"
        parser.error(f"--path {given!r} {what}")
    return [str(site)], str(given)


def _words(lists: Sequence[str]) -> list[str]:
    return [word.strip() for words in lists for word in words.split(",") if word.strip()]


def _out(parser: _Parser, given: str | None, *, json: bool) -> str | None:
    if given is None:
        return None if json else DEFAULT_REPORT
    path = Path(given)
    if given != "-" and (path.is_dir() or not path.parent.is_dir()):
        parser.error(f"--out {given!r} is a folder" if path.is_dir() else f"--out {given!r}: no such folder")
    return given


def _quoted(argument: str) -> str:
    import shlex

    return shlex.quote(argument)
