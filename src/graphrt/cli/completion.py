"""`completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from graphrt.cli.app import app
from graphrt.cli.command import SETTINGS


@click.command("completion", context_settings=SETTINGS)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: `eval "$(graphrt completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:  # click has these three
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(app, {}, "graphrt", "_GRAPHRT_COMPLETE").source())
