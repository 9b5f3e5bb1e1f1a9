"""Reads installed distributions from the disk into Facts, without judging them.

It never raises: unreadable parts are noted among the problems of the distribution.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from email import message_from_string
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from examples.audit.state import Facts

T = TypeVar("T")
_MOST_TEXT: Final = 16_000
"""Characters of licence text that are kept."""
_SUFFIXES: Final = (".dist-info", ".egg-info")
_LICENCE_FILE: Final = re.compile(r"(?i)^(licen[cs]e|copying|unlicense|notice)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


def own_sites() -> list[str]:
    """The folders of the running interpreter that distributions are installed in, as it searches them."""
    return list(dict.fromkeys(entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")))


def site_of(path: Path) -> Path | None:
    """The folder with distributions for *path*: itself, or that of its virtual environment; otherwise None."""
    if not path.is_dir():
        return None
    inside = [*sorted(path.glob("lib/python3*/site-packages")), path / "Lib" / "site-packages"]
    return next((site for site in inside if site.is_dir()), path)


def find(sites: Sequence[str], *, most: int | None = None) -> list[str]:
    """The metadata folders of all distributions in *sites*, sorted by name; at most *most* of them."""
    found: list[Path] = []
    for site in sites:
        try:
            found += [entry for entry in Path(site).iterdir() if entry.name.endswith(_SUFFIXES)]
        except OSError:  # an unlistable folder contains nothing that could be audited
            continue
    found.sort(key=lambda entry: (entry.name.lower(), str(entry)))
    return [str(entry) for entry in found[:most]]


def read(key: str) -> Facts:
    """The facts of the distribution whose metadata folder is *key*."""
    folder = Path(key)
    dist = Distribution.at(folder)
    problems: list[str] = []
    fields = _Fields(dist, folder, problems)
    name, _, version = folder.name.rpartition(".")[0].partition("-")
    if not fields.one("Name"):
        problems.append("no name in its metadata")
    if not fields.one("Version"):
        problems.append("no version in its metadata")
    text, text_files = _licence_texts(folder, fields.all("License-File"))
    disk = _on_disk(dist, folder, problems)
    prefix = "License :: "
    return Facts(
        key=key,
        name=clean(fields.one("Name") or name.lstrip("~") or folder.name),
        version=clean(fields.one("Version") or version or "?"),
        summary=clean(fields.one("Summary")),
        homepage=clean(fields.one("Home-page") or _homepage(fields.all("Project-URL"))),
        python=clean(fields.one("Requires-Python")),
        requires=tuple(dict.fromkeys(_requirements(fields.all("Requires-Dist")))),
        expression=clean(fields.one("License-Expression")),
        field=_absent_if_unknown(fields.one("License")),
        classifiers=tuple(c.rpartition(" :: ")[2] for c in fields.all("Classifier") if c.startswith(prefix)),
        text=text,
        text_files=text_files,
        installed_at=_newest(folder),
        files=disk.files,
        size_bytes=disk.size_bytes,
        missing=disk.missing,
        top_level=disk.top_level,
        scripts=_quietly(lambda: tuple(e.name for e in dist.entry_points if e.group == "console_scripts"), ()),
        editable=_editable(dist),
        problems=tuple(problems),
    )


def normal(name: str) -> str:
    """The name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def clean(text: str) -> str:
    """One line that a terminal can show: no control characters, whatever the metadata holds."""
    return _CONTROL.sub(" ", text).strip()


class _Fields:
    """The metadata's header, decoded despite errors."""

    def __init__(self, dist: Distribution, folder: Path, problems: list[str]) -> None:
        self._values: dict[str, list[str]] = {}
        try:
            header = dist.metadata
            for name in header:
                self._values.setdefault(name.lower(), [str(value) for value in header.get_all(name) or ()])
        except UnicodeDecodeError:
            problems.append("its metadata is not UTF-8")
            self._read_anyway(folder)
        except Exception as error:  # noqa: BLE001 - an unusual header, or none
            problems.append(f"its metadata cannot be read: {clean(str(error))[:80] or type(error).__name__}")

    def _read_anyway(self, folder: Path) -> None:
        for file in (folder / "METADATA", folder / "PKG-INFO", folder):
            if file.is_file():
                header = message_from_string(file.read_text(encoding="utf-8", errors="replace"))
                for name, value in header.items():
                    self._values.setdefault(name.lower(), []).append(value)
                break

    def one(self, name: str) -> str:
        values = self._values.get(name.lower(), [])
        return values[0].strip() if values else ""

    def all(self, name: str) -> list[str]:
        return [value.strip() for value in self._values.get(name.lower(), [])]


def _quietly(read: Callable[[], T], default: T) -> T:
    """The result of *read*, or the default if the metadata is too broken."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - third-party files; what matters is noted by those that check it
        return default


def _absent_if_unknown(field: str) -> str:
    return "" if field.upper() in ("UNKNOWN", "NONE", "") else field


def _homepage(urls: Sequence[str]) -> str:
    by_label = {label.strip().lower(): url.strip() for label, _, url in (entry.partition(",") for entry in urls)}
    for label in ("homepage", "home", "source", "source code", "repository", "github"):
        if label in by_label:
            return by_label[label]
    return next(iter(by_label.values()), "")


def _requirements(lines: Sequence[str]) -> Iterator[str]:
    """Names of the unconditional requirements: a line with a marker may not apply here, and is skipped."""
    for line in lines:
        found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
        if found and ";" not in line:
            yield normal(found[0])


def _licence_texts(folder: Path, declared: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    candidates = [*(folder / "licenses" / name for name in declared), *(folder / name for name in declared)]
    for place in (folder, folder / "licenses", folder / "license_files"):
        candidates += [file for file in _entries(place) if _LICENCE_FILE.match(file.name)]
    texts: dict[str, str] = {}
    left = _MOST_TEXT
    for file in candidates:
        if file.name not in texts and left > 0:
            try:
                text = file.read_text(encoding="utf-8", errors="replace")[:left]
            except (OSError, ValueError):  # missing, a folder, or an invalid file name
                continue
            texts[file.name] = text
            left -= len(text)
    return "\n\n".join(texts.values()), tuple(clean(name) for name in texts)


class _Disk(NamedTuple):
    files: int = 0
    size_bytes: int = 0
    missing: int = 0
    top_level: tuple[str, ...] = ()


def _on_disk(dist: Distribution, folder: Path, problems: list[str]) -> _Disk:
    paths = _listed(dist, folder, problems)
    files = size = missing = 0
    base, tops = f"{folder.parent}{os.sep}", set[str]()
    for path in paths:
        try:
            found = os.stat(base + path)  # noqa: PTH116 - thousands of files: a Path for each costs more than the call
        except (OSError, ValueError):
            missing += not path.endswith(".pyc")  # compiled files are created and deleted at any time
            continue
        if stat.S_ISREG(found.st_mode):
            files += 1
            size += found.st_size
        top, _, rest = path.partition("/")
        if not top.endswith((*_SUFFIXES, ".data", ".pth")) and top not in ("..", "__pycache__"):
            tops.add(top if rest else top.removesuffix(".py"))
    return _Disk(files, size, missing, tuple(sorted(clean(top) for top in tops))[:8])


def _listed(dist: Distribution, folder: Path, problems: list[str]) -> list[str]:
    """The files of the distribution, relative to its site."""
    record = _quietly(lambda: dist.read_text("RECORD"), None)
    if record is not None:
        try:
            return [row[0] for row in csv.reader(record.splitlines()) if row and row[0]]
        except csv.Error as error:
            problems.append(f"its RECORD cannot be read: {error}")
    elif folder.name.endswith(".dist-info"):
        problems.append("no RECORD, so its files are unknown")
    return _quietly(lambda: [str(file) for file in dist.files or ()], [])


def _newest(folder: Path) -> float | None:
    times: list[float] = []
    for entry in (folder, *_entries(folder)):
        try:
            times.append(entry.stat().st_mtime)
        except OSError:  # a broken link
            continue
    return max(times, default=None)


def _entries(folder: Path) -> list[Path]:
    """The sorted content of the folder, or nothing if it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _editable(dist: Distribution) -> bool:
    text = _quietly(lambda: dist.read_text("direct_url.json"), None)
    origin: object = _quietly(lambda: json.loads(text or "{}"), {})
    match origin:
        case {"dir_info": {"editable": True}}:
            return True
        case _:
            return False
