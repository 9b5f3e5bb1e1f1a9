"""The tools by which a reader inspects its text.

A `Desk` holds the data of one turn of a reader. Its tools are made once per graph and find the desk of their turn in a
context variable, so that the agent and the schemas are not rebuilt for each turn. `map` and `ask` only record the
request: the reader plans their sub-calls when the turn has ended (`planning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, Field

from graphrt.harness import Tool, ToolResult, tool_from_model
from graphrt.nodes._recursive.globs import Glob, LinePattern, PatternError, blocks_of_lines
from graphrt.nodes._recursive.limits import RecursiveLimits, clipped
from graphrt.nodes._recursive.long_text import LongText
from graphrt.nodes._recursive.regular_expressions import RegularExpression
from graphrt.nodes._recursive.sub_calls import Combine, cut_into_pieces

__all__ = ["DEFERRED", "DESK", "Ask", "Desk", "MapPieces", "Note", "Sandbox", "reading_tools"]

MOST_MATCHES: Final = 10_000
"""Number of matches after which a search stops counting."""
_MOST_LISTED: Final = 1_000
"""Maximum number of documents that are listed, if there is room."""
_LONGEST_QUERY: Final = 1_000
DEFERRED: Final = ("map", "ask")
"""Tools whose results come from sub-calls."""


class Sandbox(Protocol):
    """Runs model-written code outside this process. graphrt has no sandbox itself; without one the tool is missing."""

    async def run(self, code: str, text: LongText, /) -> str:
        """Run *code* and return the text for the model; an exception becomes part of it.

        Args:
            code: Source text in any language, as the model wrote it.
            text: The text that the reader reads.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The data that one turn of a reader works on."""

    text: LongText
    start: int
    """Where the reader's range begins."""
    end: int
    """Where it ends."""
    derived: Mapping[str, LongText]
    """Texts made from the answers of earlier maps, by name."""
    limits: RecursiveLimits
    sandbox: Sandbox | None

    def range_of(self, of: str, start: int | None, end: int | None) -> tuple[LongText, int, int]:
        """Resolve a text and a range in it.

        Raises:
            ValueError: There is no such text, or the range is outside it; the message is for the model.
        """
        if of == "text":
            text, low, high = self.text, self.start, self.end
        elif of in self.derived:
            text = self.derived[of]
            low, high = 0, text.length
        else:
            raise ValueError(f"There is no text {of!r}; there are: {', '.join(['text', *self.derived])}.")
        first, last = low if start is None else start, high if end is None else end
        if not low <= first <= last <= high:
            raise ValueError(f"[{first}, {last}) is not a range in [{low}, {high}).")
        return text, first, last


DESK: Final[ContextVar[Desk]] = ContextVar("graphrt_reading_desk")
"""The desk of the turn that runs in this context."""

Of = Annotated[str, Field(description='"text", or the name of the answers of an earlier map, such as "m1".')]
Start = Annotated[int | None, Field(description="First offset; by default where the text begins.")]
End = Annotated[int | None, Field(description="Offset after the last character; by default where the text ends.")]


class Length(BaseModel):
    """Return the length of the text, and where its documents begin."""

    of: Of = "text"


class Read(BaseModel):
    """Read characters of the text. Long ranges are cut: search first, and read what surrounds a match."""

    start: int
    end: End = None
    of: Of = "text"


class Search(BaseModel):
    """Find a text or a pattern. The result has the number of matches, and each with its offset."""

    query: str
    # The same whether RE2 is installed or not, since a prompt with a recorded reply must not depend on the machine.
    syntax: Annotated[
        Literal["literal", "glob", "regex"],
        Field(
            description="literal: the text as it is. glob: * is any characters of a line, ? is one, [a-z] is one of a "
            "set. regex: a regular expression as in RE2, if this machine has it. A match stays in one line."
        ),
    ] = "literal"
    ignore_case: bool = False
    start: Start = None
    end: End = None
    around: Annotated[int, Field(ge=0, le=500, description="Characters shown on each side of a match.")] = 60
    of: Of = "text"


class Split(BaseModel):
    """Return the pieces into which `map` would cut a range."""

    size: Annotated[int | None, Field(description="Maximum size of a piece, in characters.")] = None
    separator: Annotated[str, Field(description="A piece ends after the last of these in it.")] = "\n"
    start: Start = None
    end: End = None
    of: Of = "text"


class MapPieces(BaseModel):
    """Ask a smaller model a question about each piece of a range, at the same time. It sees its piece alone."""

    question: Annotated[str, Field(description="In full sentences: the model knows nothing else.")]
    combine: Annotated[
        Combine,
        Field(
            description="What the answers become: a list, the unique lines, the sum, least or greatest of the numbers, "
            "or the count of pieces with an answer."
        ),
    ] = "list"
    size: Annotated[int | None, Field(description="Maximum size of a piece, in characters.")] = None
    separator: Annotated[str, Field(description="A piece ends after the last of these in it.")] = "\n"
    start: Start = None
    end: End = None
    of: Of = "text"


class Ask(BaseModel):
    """Ask another model a question about a range. A long range is read with these same tools."""

    question: Annotated[str, Field(description="In full sentences: the model knows nothing else.")]
    start: Start = None
    end: End = None
    of: Of = "text"


class Note(BaseModel):
    """Keep a note. Notes stay in view; tool results do not."""

    text: str
    replace: Annotated[bool, Field(description="Whether it replaces all notes.")] = False


class RunCode(BaseModel):
    """Run code in a sandbox that can read the text."""

    code: str


def reading_tools(*, sandbox: bool) -> list[Tool]:
    """Return the tools of a reader."""
    tools: list[tuple[str, type[Any], Callable[..., Any]]] = [
        ("length", Length, _length),
        ("read", Read, _read),
        ("search", Search, _search),
        ("split", Split, _split),
        ("map", MapPieces, _later),
        ("ask", Ask, _later),
        ("note", Note, _noted),
    ]
    if sandbox:
        tools.append(("run_code", RunCode, _run_code))
    return [
        tool_from_model(model, fn, name=name, effect="idempotent" if name == "run_code" else "pure")
        for name, model, fn in tools
    ]


def _shown(text: str) -> ToolResult:
    """Return *text* as a result, truncated to the room in a prompt."""
    return ToolResult(text=clipped(text, DESK.get().limits.result_chars))


def _told(error: Exception) -> ToolResult:
    return ToolResult(text=clipped(str(error), DESK.get().limits.result_chars), error=True)


def _length(request: Length) -> ToolResult:
    desk = DESK.get()
    try:
        text, start, end = desk.range_of(request.of, None, None)
    except ValueError as error:
        return _told(error)
    lines = [f"[{start}, {end}): {end - start} characters."]
    starting = text.documents.between(start, end)
    if starting:
        lines.append(f"{len(starting)} documents begin in it; name and first offset:")
        lines += [f"{name}: {at}" for name, at in map(text.documents.__getitem__, starting[:_MOST_LISTED])]
    return _shown("\n".join(lines))


def _read(request: Read) -> ToolResult:
    desk = DESK.get()
    try:
        text, start, end = desk.range_of(request.of, request.start, request.end)
    except ValueError as error:
        return _told(error)
    limit = desk.limits.result_chars
    whole = text.read(start, min(end, start + limit + 1))  # more would be cut anyway, so it need not be copied
    if clipped(whole, limit) == whole:
        return ToolResult(text=whole)
    shown = clipped(whole, limit - 60, with_note=False)
    return ToolResult(text=f"{shown}\n[cut here: read on from {start + len(shown)}]")


def _search(request: Search) -> ToolResult:
    desk = DESK.get()
    try:
        text, start, end = desk.range_of(request.of, request.start, request.end)
        matches = list(islice(_matches(request, text, start, end), MOST_MATCHES))
    except PatternError as error:
        return _told(ValueError(f"The pattern cannot be used: {error}."))
    except ValueError as error:
        return _told(error)
    many = "or more " if len(matches) == MOST_MATCHES else ""
    lines = [f"{len(matches)} {many}matches in [{start}, {end})."]
    room = desk.limits.result_chars - 200
    for number, (first, last) in enumerate(matches):
        low, high = max(start, first - request.around), min(end, min(last, first + 200) + request.around)
        line = f"[{first}, {last}) {text.read(low, high)!r}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"{number} of them are shown. For more, search from start={matches[number - 1][1]}.")
            break
        lines.append(line)
    return _shown("\n".join(lines))


def _matches(request: Search, text: LongText, start: int, end: int) -> Iterator[tuple[int, int]]:
    if not request.query or len(request.query) > _LONGEST_QUERY:
        raise ValueError(f"Give a query of 1 to {_LONGEST_QUERY} characters.")
    if request.syntax == "literal":
        size = len(request.query)
        return ((at, at + size) for at in text.find(request.query, start, end, ignore_case=request.ignore_case))
    pattern: LinePattern = (
        Glob(request.query, ignore_case=request.ignore_case)
        if request.syntax == "glob"
        else RegularExpression(request.query, length=end - start, ignore_case=request.ignore_case)
    )
    return _spans(pattern, text, start, end)


def _spans(pattern: LinePattern, text: LongText, start: int, end: int) -> Iterator[tuple[int, int]]:
    for at, lines in blocks_of_lines(text, start, end):
        for first, last in pattern.spans(lines):
            yield at + first, at + last


def _split(request: Split) -> ToolResult:
    desk, limits = DESK.get(), DESK.get().limits
    try:
        text, start, end = desk.range_of(request.of, request.start, request.end)
        size = piece_size(request.size, limits)
    except ValueError as error:
        return _told(error)
    bounds = cut_into_pieces(text, start, end, size=size, separator=request.separator, max_pieces=MOST_MATCHES)
    if bounds is None:
        return _told(ValueError(f"That would be more than {MOST_MATCHES} pieces. Make them larger."))
    ranges = ", ".join(f"[{begin}, {other})" for begin, other in pairwise(bounds))
    return _shown(f"{len(bounds) - 1} pieces: {ranges}")


def piece_size(requested: int | None, limits: RecursiveLimits) -> int:
    """Return the size of the pieces of a map.

    Raises:
        ValueError: It is not between 1 and the limit; the message is for the model.
    """
    size = limits.piece_chars if requested is None else requested
    if not 1 <= size <= limits.piece_chars:
        raise ValueError(f"A piece has 1 to {limits.piece_chars} characters, not {size}.")
    return size


def _later(request: MapPieces | Ask) -> ToolResult:  # noqa: ARG001
    """Return nothing: the answers of the sub-calls become the result."""
    return ToolResult(text="")


def _noted(request: Note) -> ToolResult:  # noqa: ARG001
    """Return nothing: the reader keeps the note, and confirms it."""
    return ToolResult(text="")


async def _run_code(request: RunCode) -> ToolResult:
    desk = DESK.get()
    assert desk.sandbox is not None  # noqa: S101 - the tool is offered with a sandbox only
    return _shown(await desk.sandbox.run(request.code, desk.text))
