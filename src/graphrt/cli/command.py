"""`Command` and `LazyGroup`, the base of all commands. Listing a command does not import it; calling it does."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import click

from graphrt.cli import exits

SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(click.Group):
    """A group whose commands are named in a table: name to `module:attribute` and the first line of the help.

    `meant` maps words that people use for a command to its name, where the spelling is not similar.
    """

    def __init__(
        self, *args: Any, table: Mapping[str, tuple[str, str]], meant: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.table = table
        self.meant: Mapping[str, str] = meant or {}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return the command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Return the commands that begin with *incomplete*, without importing any."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=summary)
            for name, (_, summary) in self.table.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command at the start of *args*.

        Raises:
            UsageError: There is none; the message names the closest one.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            word = self.meant.get(args[0], args[0]) if args else ""
            guess = get_close_matches(word, self.table, 1)
            if guess:
                raise click.UsageError(f"{error.message} Did you mean {guess[0]!r}?", ctx) from error
            raise


class Command(click.Command):
    """A command that writes its answer as JSON or text, and turns an error into a message and an exit code.

    The function returns an `Answer`. Its context object is the `Output`.
    """

    def __init__(self, name: str | None, **kwargs: Any) -> None:
        kwargs["context_settings"] = {**SETTINGS, **(kwargs.get("context_settings") or {})}
        kwargs["params"] = [*(kwargs.get("params") or ()), *_shared()]
        super().__init__(name, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, write its answer, and exit with its code."""
        from graphrt.cli.output import Answer, Output

        meta = ctx.meta
        prefix = "graphrt.cli."
        path = ctx.command_path.split(" ", 1)
        output = Output(
            path[1] if len(path) > 1 else path[0],
            as_json=meta.get(f"{prefix}output_form") == "json",
            asked=ctx.get_parameter_source("output_form") is click.core.ParameterSource.COMMANDLINE,
            quiet=bool(meta.get(f"{prefix}quiet")),
            debug=bool(meta.get(f"{prefix}debug")),
        )
        ctx.obj = output
        with output:
            try:
                answer: Answer = super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort):
                raise
            except SystemExit as error:  # its code would say that the run is done, or that stored data is damaged
                exited = RuntimeError(f"a node, or other code of the graph, called sys.exit({error.code!r})")
                exited.__cause__ = error
                answer = Answer(data=None, code=exits.FAILED, error=exited)
            except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - of the user's code too: a line, and a code
                answer = Answer(data=None, code=exits.exit_code(error), error=error)
            code = output.write(answer)
        ctx.exit(code)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    ctx.meta[f"graphrt.cli.{param.name}"] = value
    return value


def _shared() -> list[click.Parameter]:
    """Return the options that every command has."""
    return [
        click.Option(
            ["-o", "--output", "output_form"],
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            envvar="GRAPHRT_OUTPUT",
            show_envvar=True,
            expose_value=False,
            callback=_keep,
            help="Text, even in a pipe, or one JSON document.",
        ),
        click.Option(
            ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_keep, help="No progress and no notes."
        ),
        click.Option(
            ["--debug"], is_flag=True, expose_value=False, callback=_keep, help="Print the traceback of an error."
        ),
    ]
