"""`routes` and `mutate`: the programs of the test kit as commands. They parse their own arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from graphrt.cli.command import SETTINGS

_PASSED: Final[dict[str, Any]] = {
    **SETTINGS,
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    "help_option_names": [],
}


@click.command("routes", context_settings=_PASSED, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def routes(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Report the route coverage that pytest measured; the same as `python -m graphrt.testing.route_coverage`.

    Give the files that `pytest --graphrt-cov` wrote. `-o json` is `--report json`; `graphrt routes --help` has the rest.
    """
    from graphrt.testing.route_coverage.__main__ import main

    ctx.exit(_run(main, _translated(words, ["--report", "json"])))


@click.command("mutate", context_settings=_PASSED, add_help_option=False)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def mutate(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Change graphs in small ways, and see whether the tests notice; the same as `python -m graphrt.testing.mutate`.

    `-o json` writes the verdicts to standard output; `graphrt mutate --help` has the rest.
    """
    from graphrt.testing.mutate.__main__ import main

    ctx.exit(_run(main, _translated(words, ["--json", "-"])))


def _translated(words: tuple[str, ...], as_json: list[str]) -> list[str]:
    """Return *words* with `-o json` translated for the program, up to `--`; the words after it are for pytest."""
    ours = list(words[: words.index("--")] if "--" in words else words)
    rest = list(words[len(ours) :])
    for forms in (["-o", "json"], ["--output", "json"], ["--output=json"]):
        for at in range(len(ours) - len(forms), -1, -1):
            if ours[at : at + len(forms)] == forms:
                ours[at : at + len(forms)] = as_json
    return ours + rest


def _run(main: Callable[[list[str]], int], words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as end:  # argparse has reported the problem, or printed its help
        return end.code if isinstance(end.code, int) else 2
