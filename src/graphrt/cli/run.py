"""`run`, `resume` and `retry`: drive a thread, show it live, ask its questions, and report how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, get_args

import click

from graphrt.cli import exits
from graphrt.cli.command import Command
from graphrt.cli.documents import A_TEXT, parsed, read_json, without_duplicates
from graphrt.cli.forms import Form, NoAnswer
from graphrt.cli.opening import TARGET, THREAD, opened_runtime, runtime_options, way_on
from graphrt.cli.output import Answer, Output
from graphrt.console import MODES, RunProgress, draw, views, watched
from graphrt.console.live import LiveView
from graphrt.console.screen import Line
from graphrt.errors import GraphrtError, InputError
from graphrt.errors._codes.command_line import BAD_DOCUMENT, NO_PERSON
from graphrt.errors._codes.threads import ANSWER_DOES_NOT_FIT
from graphrt.runtime import IfExists, InterruptInfo, RunResult, Runtime, Stream
from graphrt.wires import plain_data

IF_EXISTS = click.option(
    "--if-exists",
    type=click.Choice(get_args(IfExists)),
    default="update",
    show_default=True,
    help="If the thread exists: fold the input into it, continue with a run that the same input began, "
    "only show its result, or give up what it left undone.",
)
NO_INPUT = click.option("--no-input", is_flag=True, help="Ask nothing: leave questions open, and exit with 4.")


@click.command("run", cls=Command)
@TARGET
@click.option(
    "--input", "-i", "source", metavar="FILE", help="The input: a JSON object in a file, or - for standard input."
)
@click.option("--set", "fields", multiple=True, metavar="FIELD=TEXT", help="A field of the input, as text.")
@click.option("--thread", metavar="ID", help="The thread to run on.")
@IF_EXISTS
@runtime_options
@NO_INPUT
@click.pass_obj
def run(
    output: Output, /, target: str, source: str | None, fields: tuple[str, ...], thread: str | None,
    if_exists: IfExists, no_input: bool, **options: Any,
) -> Answer:  # fmt: skip
    """Run a graph, and watch it.

    At a terminal, the questions of a run are asked at once. Without a store, the thread is gone with the command.
    """
    if thread is None and if_exists != "update":
        raise click.UsageError("--if-exists needs --thread: a thread that is made is always new.")
    values = input_of(source, fields)
    durable = options["store"] is not None
    with opened_runtime(target, creates=True, in_memory=True, **options) as runtime:
        durable = durable or getattr(runtime.store, "durable", False)
        name = thread or runtime.ids()
        drive = _Drive(output, runtime, target, name, keeps=durable, asks=not no_input and if_exists != "return")
        return drive.streamed(lambda: runtime.stream(values, thread=name, if_exists=if_exists, modes=MODES))


@click.command("resume", cls=Command)
@TARGET
@THREAD
@click.option("--answers", metavar="FILE", help="A JSON object of question ids to answers, or - for standard input.")
@click.option("--answer", metavar="JSON", help="The answer to the only open question.")
@runtime_options
@NO_INPUT
@click.pass_obj
def resume(
    output: Output, /, target: str, thread: str, answers: str | None, answer: str | None, no_input: bool, **options: Any
) -> Answer:
    """Answer the open questions of a thread, and continue it.

    Without answers, a person is asked: a form is made of the JSON schema of each answer.
    """
    if answers is not None and answer is not None:
        raise click.UsageError("Give --answers or --answer, not both.")
    with opened_runtime(target, **options) as runtime:
        drive = _Drive(output, runtime, target, thread, keeps=True, asks=not no_input)
        reply: dict[str, Any] = {}
        if answers is not None:
            document: Any = read_json(answers)
            if document.__class__ is not dict:
                raise BAD_DOCUMENT(
                    source=answers, form="a JSON object of ids to answers", problem="it is something else"
                )
            reply = {"answers": document}
        elif answer is not None:
            reply = {"answer": parsed(answer, "--answer", A_TEXT)}
        else:
            snapshot = runtime.state(thread)
            questions = for_people(snapshot.interrupts)
            if questions:
                try:
                    stream = drive.asked(questions)
                except NoAnswer:
                    return drive.waiting()
                return drive.streamed(lambda: stream)
            if snapshot.status in ("failed", "cancelled", "completed"):
                reply = {"answers": {}}  # is refused: without answers a stream would retry the thread
        return drive.streamed(lambda: runtime.stream(thread=thread, modes=MODES, **reply))


@click.command("retry", cls=Command)
@TARGET
@THREAD
@runtime_options
@NO_INPUT
@click.pass_obj
def retry(output: Output, /, target: str, thread: str, no_input: bool, **options: Any) -> Answer:
    """Continue a thread that failed, was cancelled, or lost its process. Finished tasks do not run again."""
    with opened_runtime(target, **options) as runtime:
        drive = _Drive(output, runtime, target, thread, keeps=True, asks=not no_input)
        return drive.streamed(lambda: runtime.stream(thread=thread, modes=MODES))


def input_of(source: str | None, fields: Sequence[str]) -> Any:
    """Combine a file and assignments into one input.

    It is a JSON object in most cases. The input of a finished thread may be anything if the graph has a reducer of the
    whole state, and the runtime checks it.

    Raises:
        InputError: The file cannot be read, or holds no JSON object although there are assignments.
        UsageError: An assignment has no "=", or a field is assigned twice.
    """
    document: Any = {} if source is None else read_json(source)
    if not fields:
        return document
    if document.__class__ is not dict:
        raise BAD_DOCUMENT(source=source, form="the input of a graph", problem="it is not a JSON object")
    values: dict[str, Any] = document
    pairs: list[tuple[str, str]] = []
    for text in fields:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text!r} has no '='.")
        pairs.append((name, value))
    return values | without_duplicates(pairs, "--set")


def for_people(questions: Sequence[InterruptInfo]) -> list[InterruptInfo]:
    """Return the questions that a person can answer."""
    return [question for question in questions if question.answerable]


class _Drive:
    """Drives one thread for a command, including the pauses at which a person answers."""

    def __init__(
        self, output: Output, runtime: Runtime[Any, Any], target: str, thread: str, *, keeps: bool, asks: bool
    ) -> None:
        self._output = output
        self._runtime = runtime
        self._target = target
        self._thread = thread
        self._keeps = keeps
        self._asks = asks and output.shows_progress and sys.stdin.isatty()
        self._began = time.monotonic()
        self._drawn = False
        self._progress = RunProgress(runtime.graph, runtime.limits, runtime.budget)
        self._progress.thread = thread

    def streamed(self, open_: Any) -> Answer:
        """Read the stream that *open_* makes, and those of later answers, and return how the run ended."""
        try:
            result = self._watch(open_())
            while (questions := for_people(result.interrupts)) and self._asks:
                try:
                    stream = self.asked(questions)
                except NoAnswer:
                    break
                result = self._watch(stream)
        except (GraphrtError, KeyboardInterrupt) as error:
            return self._failed(error)
        return self._ended(result)

    def _watch(self, stream: Stream[Any, Any]) -> RunResult[Any]:
        runtime, output, progress = self._runtime, self._output, self._progress
        if not output.shows_progress or find_spec("rich") is None:
            return watched(stream, progress)
        if not self._drawn:
            self._drawn = True
            for line in draw(runtime.graph, output.notes.width):
                output.note(*line)
            output.note()
        with LiveView(progress, getattr(output.notes, "console", None)) as view:
            return view.watch(stream)

    def asked(self, questions: Sequence[InterruptInfo]) -> Stream[Any, Any]:
        """Ask a person until the answers fit, and return the stream of the run that continues them.

        Raises:
            NoAnswer: The input ended.
            InputError: There is no person to ask (`no-person`).
        """
        while True:
            answers = self.ask(questions)
            try:
                return self._runtime.stream(thread=self._thread, answers=answers, modes=MODES)
            except InputError as error:
                if error.code != ANSWER_DOES_NOT_FIT.code:
                    raise
                self._output.fail(error)  # the thread is unchanged, and the person fills in the form again

    def ask(self, questions: Sequence[InterruptInfo]) -> dict[str, Any]:
        """Ask a person, and return the answers by id.

        Raises:
            NoAnswer: The input ended.
            InputError: There is no person to ask (`no-person`).
        """
        screen = self._output.notes
        if not self._asks:
            why = "--no-input or --quiet was given" if sys.stdin.isatty() else "standard input is not a terminal"
            ids = [question.id for question in questions]
            raise NO_PERSON(count=len(questions), why=why, ids=ids, interrupts=tuple(questions))
        answers: dict[str, Any] = {}
        for question in questions:
            for line in views.questions([question], screen.width):
                screen.line(*line)
            screen.line()
            answers[question.id] = Form(screen, question.answer_schema).ask()
        return answers

    def waiting(self) -> Answer:
        """Report that the thread still waits, because the person left."""
        snapshot = self._runtime.state(self._thread)
        return Answer(
            data=plain_data.snapshot(snapshot),
            lines=lambda width: [*views.snapshot(snapshot, width), *self._way_on("resume", width)],
            code=exits.WAITING,
        )

    def _ended(self, result: RunResult[Any]) -> Answer:
        elapsed_s = time.monotonic() - self._began
        code = {"completed": exits.OK, "interrupted": exits.WAITING}.get(result.status, exits.FAILED)
        verb = {"interrupted": "resume", "cancelled": "retry"}.get(result.status, "")
        return Answer(
            data={**plain_data.run(result, elapsed_s), "thread": self._thread},
            lines=lambda width: [
                *views.run(result, width, elapsed_s=elapsed_s),
                *(self._way_on(verb, width) if verb else []),
            ],
            code=code,
        )

    def _failed(self, error: BaseException) -> Answer:
        """Return the result of a run that raised, with the current state of the thread."""
        code = exits.exit_code(error)
        if code in (exits.USAGE, exits.INTEGRITY):
            return Answer(data=None, code=code, error=error)
        snapshot: Any = None
        try:
            snapshot = self._runtime.state(self._thread)
        except (GraphrtError, OSError):  # there is no such thread, or the store failed
            return Answer(data=None, code=code, error=error)
        # The run may have been refused before it changed anything: then the thread is still as it was.
        verb = {"interrupted": "resume", "completed": ""}.get(snapshot.status, "retry")
        return Answer(
            data=plain_data.snapshot(snapshot),
            lines=lambda width: [
                *views.snapshot(snapshot, width),
                *(self._way_on(verb, width) if verb else []),
            ],
            code=code,
            error=error,
        )

    def _way_on(self, verb: str, width: int) -> list[Line]:
        """Return the command that continues the thread, if it is kept."""
        if not self._keeps:
            return []
        return [
            [],
            *views.paragraph(f"continue with: {way_on(verb, self._target, self._thread)}", width, style="accent"),
        ]
