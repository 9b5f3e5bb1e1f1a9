"""The command `graphrt`: a table of its commands. Listing the commands and completing a word import nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

import graphrt
from graphrt.cli import exits
from graphrt.cli.command import SETTINGS, LazyGroup

COMMANDS: Final = {
    "check": ("graphrt.cli.check:check", "Check graphs, and list all their problems."),
    "draw": ("graphrt.cli.draw:draw", "Draw a graph: in the terminal, as Mermaid, DOT or SVG."),
    "run": ("graphrt.cli.run:run", "Run a graph, and watch it."),
    "resume": ("graphrt.cli.run:resume", "Answer the open questions of a thread, and continue it."),
    "retry": ("graphrt.cli.run:retry", "Continue a thread that failed, was cancelled, or lost its process."),
    "cancel": ("graphrt.cli.threads:cancel", "Cancel a paused thread, or a run."),
    "start": ("graphrt.cli.working:start", "Start a run, and leave it to a worker."),
    "worker": ("graphrt.cli.working:worker", "Drive the threads of a store that are due, until SIGTERM or Ctrl-C."),
    "signal": ("graphrt.cli.waiting:signal", "Send a signal to a thread, whichever process drives it."),
    "inbox": ("graphrt.cli.waiting:inbox", "List the open questions of all threads of a store."),
    "schedules": ("graphrt.cli.schedules:schedules", "List, add and remove schedules."),
    "threads": ("graphrt.cli.threads:threads", "List the threads of a store."),
    "show": ("graphrt.cli.threads:show", "Show a thread: its state, its next nodes, its questions."),
    "log": ("graphrt.cli.threads:log", "Show the journal of a thread."),
    "diff": ("graphrt.cli.threads:diff", "Find where two threads first differ."),
    "why": ("graphrt.cli.threads:why", "Explain where the value of a field came from."),
    "fork": ("graphrt.cli.threads:fork", "Create a thread from an entry of another thread."),
    "ui": ("graphrt.cli.viewing:ui", "Show threads in a browser, on this machine."),
    "usage": ("graphrt.cli.usage:usage", "Sum the model calls of threads."),
    "audit": ("graphrt.cli.audit:audit", "Verify, show and replay audit logs, erase values, and make keys."),
    "serve": ("graphrt.cli.serving:serve", "Serve threads over HTTP, with a worker in the process."),
    "trace": ("graphrt.cli.working:trace", "Send the trace of a stored thread to OpenTelemetry."),
    "builds": ("graphrt.cli.builds:builds", "List the builds of a graph that its threads belong to."),
    "doctor": ("graphrt.cli.doctor:doctor", "Check the installation, and verify a whole database."),
    "backup": ("graphrt.cli.keeping:backup", "Copy a SQLite database while it is in use."),
    "export": ("graphrt.cli.keeping:export", "Write a thread to a file."),
    "import": ("graphrt.cli.keeping:import_", "Create a thread from an exported file."),
    "sweep": ("graphrt.cli.keeping:sweep", "Delete threads that were not written for a while."),
    "routes": ("graphrt.cli.testkit:routes", "Report the route coverage that pytest measured."),
    "mutate": ("graphrt.cli.testkit:mutate", "Change graphs in small ways, and see whether the tests notice."),
    "skills": ("graphrt.cli.skills:skills", "List or install the skills for coding assistants."),
    "schema": ("graphrt.cli.schema:schema", "Print the JSON schema of a command's document."),
    "completion": ("graphrt.cli.completion:completion", "Print the completion script of a shell."),
}
"""Maps a command to its module and the first line of its help."""


@click.group(
    "graphrt",
    cls=LazyGroup,
    table=COMMANDS,
    context_settings=SETTINGS,
    epilog="Exit codes: " + "; ".join(f"{code} {told}" for code, told in exits.MEANINGS.items()) + ".",
)
@click.version_option(graphrt.__version__, prog_name="graphrt")
def app() -> None:
    """Check, run, watch and keep graphs of agents.

    TARGET is package.module:name or path/to/file.py:name. The name is a graph, a Runtime, or a function that makes one.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app.main(words, prog_name="graphrt", standalone_mode=False)
        if sys.stdout is not None:  # the caller may have closed it
            sys.stdout.flush()
    except click.ClickException as error:
        _refused(error, words)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        sys.stderr.write("\ngraphrt: interrupted\n")
        return exits.INTERRUPTED
    except BrokenPipeError:  # the reader of our pipe has exited, as `head` does
        _let_go()
        return exits.OK
    except OSError as error:  # writing help, a script or a schema failed; commands report their own failures
        _let_go()
        sys.stderr.write(f"graphrt: standard output cannot be written: {error.strerror or error}\n")
        return exits.FAILED
    return code if isinstance(code, int) else exits.OK


def _let_go() -> None:
    """Redirect output that the interpreter flushes at exit to a place where it cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether invalid arguments ask for JSON output."""
    joined = f"\0{chr(0).join(words)}\0".replace("=", "\0")
    return any(f"\0{option}\0json\0" in joined for option in ("-o", "--output")) or "-ojson" in words


def _refused(error: click.ClickException, words: Sequence[str]) -> None:
    """Report a usage error: as text, and also as a JSON document if the arguments ask for one."""
    error.show()
    ctx = getattr(error, "ctx", None)
    if ctx is not None and _asks_for_json(words):
        from graphrt.cli.output import Answer, document
        from graphrt.errors._codes.command_line import BAD_WORDS
        from graphrt.wires import plain_data

        usage_error = BAD_WORDS(problem=error.format_message())
        name = ctx.command_path.partition(" ")[2] or "graphrt"
        answer = Answer(data=None, code=error.exit_code, error=usage_error)
        sys.stdout.write(f"{plain_data.dumps(document(name, answer))}\n")
