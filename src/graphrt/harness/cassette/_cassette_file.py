"""The file of a cassette: reading, validation, and atomic replacement.

The first line has the version. Then follows one indented JSON object for each recording. `{` and `}` are alone on a
line only where a recording begins and ends. So a diff shows the lines that changed, a truncated file is recognised,
errors have a line number, and `jq` can read the file (decision 0032).

Images, audio and documents of recorded replies are files in a folder beside it, each once, under the SHA-256 of its
bytes: `chat.cassette.files/<sha256>.png`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from graphrt._arguments import is_mapping
from graphrt.errors import ScriptError
from graphrt.errors._codes.cassettes import (
    CASSETTE_CHANGED,
    CASSETTE_DAMAGED,
    CASSETTE_NEWER,
    CASSETTE_UNREADABLE,
)
from graphrt.harness.cassette._recording import Recording
from graphrt.harness.cassette._stored_form import dump, load
from graphrt.harness.media import Media

VERSION: Final = 1
_NAME: Final = "graphrt_cassette"
_BEYOND_ASCII: Final = re.compile(r"[^\n -~]")


def encode(recording: Recording) -> str:
    """Return the text of one recording. Characters that are not printable are written as JSON escapes."""
    text = json.dumps(dump(recording), indent=2, ensure_ascii=False)
    return _BEYOND_ASCII.sub(lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


class CassetteFile:
    """A cassette file, with inode, size and modification time as of our last read or write."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._files: Final = path.with_name(f"{path.name}.files")
        self._stamp: tuple[int, ...] | None = None

    def read(self) -> list[Recording] | None:
        """Return all recordings in the order of the file; None if there is no file.

        Raises:
            ScriptError: The file cannot be read (`cassette-unreadable`), is damaged (`cassette-damaged`), or is of a
                newer version (`cassette-newer`).
        """
        try:
            self._stamp = self._now()
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CASSETTE_UNREADABLE(done="read", reason=error.strerror or error, path=str(self.path)) from error
        try:
            text = data.decode("utf-8-sig")  # an editor may have put a byte order mark in front
        except UnicodeDecodeError as error:
            raise self._damaged(data[: error.start].count(b"\n") + 1, "it is not UTF-8 text") from None
        return [self._load(entry, line) for entry, line in self._objects(text.replace("\r\n", "\n").split("\n"))]

    def write(self, texts: Iterable[str]) -> None:
        """Replace the file atomically by one with these recordings: temporary file, fsync, rename.

        Raises:
            ScriptError: The file cannot be written (`cassette-unreadable`), or another program has changed it since
                (`cassette-changed`). The old file is left as it was.
        """
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self._now() != self._stamp:
                raise CASSETTE_CHANGED(path=str(self.path))
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            with temporary.open("x", encoding="utf-8", newline="\n") as file:
                file.write("\n".join([json.dumps({_NAME: VERSION}), *texts, ""]))
                file.flush()
                os.fsync(file.fileno())
            if self._stamp is not None:
                temporary.chmod(stat.S_IMODE(self.path.stat().st_mode))
            temporary.replace(self.path)
            self._stamp = self._now()
            _sync_folder(self.path.parent)
        except OSError as error:
            raise self._unwritable(error.strerror or str(error)) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def write_files(self, media: Iterable[Media]) -> None:
        """Write the files of *media* that do not exist yet into the folder beside the cassette.

        Raises:
            ScriptError: A file cannot be written (`cassette-unreadable`).
        """
        for part in media:
            file = self._file_of(str(part.sha256), part.media_type)
            temporary = file.with_name(f".{file.name}.{os.getpid()}.new")
            try:
                if not file.exists():
                    self._files.mkdir(parents=True, exist_ok=True)
                    temporary.write_bytes(part.data or b"")
                    temporary.replace(file)
            except OSError as error:
                raise self._unwritable(error.strerror or str(error)) from error

    def _file_of(self, digest: str, media_type: str | None) -> Path:
        kind = re.sub(r"[^a-z0-9]", "", (media_type or "").partition("/")[2])
        return self._files / f"{digest}.{kind or 'bin'}"

    def _fetch(self, digest: str, media_type: str | None) -> bytes:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):  # it becomes part of a path
            raise ValueError(f"{digest[:80]!r} is not a SHA-256")
        file = self._file_of(digest, media_type)
        try:
            return file.read_bytes()
        except OSError as error:
            raise ValueError(f"the file {file} cannot be read: {error.strerror}") from None

    def check_writable(self) -> None:
        """Check before the first live call that its reply could be written, so that no paid reply is lost.

        Raises:
            ScriptError: The file or its folder cannot be written (`cassette-unreadable`).
        """
        if self.path.exists() and not (self.path.stat().st_mode & 0o222 and os.access(self.path, os.W_OK)):
            raise self._unwritable("the file is read-only")
        folder = next(folder for folder in self.path.parents if folder.exists())
        if not folder.is_dir():
            raise self._unwritable(f"{folder} is not a directory")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._unwritable(f"the folder {folder} is read-only")

    def _now(self) -> tuple[int, ...] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _objects(self, lines: list[str]) -> Iterator[tuple[str, int]]:
        """Yield the text of each recording and the number of its first line, from 1."""
        self._check_header(lines[0])
        begin = 0
        for number, line in enumerate(lines[1:], 2):
            if not begin and line == "{":
                begin = number
            elif begin and line == "}":
                yield "\n".join(lines[begin - 1 : number]), begin
                begin = 0
            elif line and (not begin or line[0] != " "):
                raise self._damaged(number, "this line belongs to no recording")
        if begin:
            raise self._damaged(begin, "the recording that begins here has no end: the file was cut")

    def _check_header(self, line: str) -> None:
        try:
            header: Any = json.loads(line)
        except (ValueError, RecursionError):
            header = None
        version = header.get(_NAME) if is_mapping(header) else None
        if type(version) is not int or version < 1:
            raise self._damaged(1, f'the first line is not {{"{_NAME}": {VERSION}}}: this is not a cassette')
        if version > VERSION:
            raise CASSETTE_NEWER(value=version, newest=VERSION, path=str(self.path))
        if header != {_NAME: version}:
            raise self._damaged(1, "the first line has more than the version")

    def _load(self, text: str, line: int) -> Recording:
        try:
            return load(json.loads(text, object_pairs_hook=_no_name_twice), line, self._fetch)
        except json.JSONDecodeError as error:
            raise self._damaged(line + error.lineno - 1, f"no JSON: {error.msg}") from None
        except RecursionError:
            raise self._damaged(line, "it is nested too deeply") from None
        except ValueError as error:
            raise self._damaged(line, str(error)) from None

    def _damaged(self, line: int, reason: str) -> ScriptError:
        return CASSETTE_DAMAGED(why=reason, value=line, path=str(self.path))

    def _unwritable(self, reason: str) -> ScriptError:
        return CASSETTE_UNREADABLE(done="written", reason=reason, path=str(self.path))


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError(f"a name occurs twice in one object, among {sorted(result)}")
    return result


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # on Windows a folder cannot be opened; on POSIX the rename is durable only after this
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
