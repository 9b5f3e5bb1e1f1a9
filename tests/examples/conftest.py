"""Fixtures: the examples are importable, and environments to audit are folders with planted distributions."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `python -m pytest` adds it, bare `pytest` does not
    sys.path.insert(0, str(ROOT))

BASE = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
"""The environment without variables that describe a terminal."""
Audit = Callable[..., subprocess.CompletedProcess[str]]
MIT_TEXT = """MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to deal in the Software
without restriction, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions: The above copyright notice shall be included in all copies or substantial portions of the Software.
"""
GPL_TEXT = "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n\nEveryone is permitted to copy it.\n"


@dataclass(frozen=True)
class Site:
    """A site-packages folder under construction."""

    path: Path

    def add(self, folder: str, metadata: str | bytes | None = None, *, record: str | None = "", **files: str) -> str:
        """Plant one distribution; in the names of *files*, __ stands for a dot. Returns its key."""
        place = self.path / folder
        place.mkdir(parents=True)
        if metadata is not None:
            (place / "METADATA").write_bytes(metadata if isinstance(metadata, bytes) else metadata.encode())
        if record is not None:
            (place / "RECORD").write_text(record, encoding="utf-8")
        for name, text in files.items():
            (place / name.replace("__", ".")).write_text(text, encoding="utf-8")
        return str(place)

    def plain(self, name: str, *lines: str, version: str = "1.0", **files: str) -> str:
        """Plant a well-formed distribution with further metadata *lines*. Returns its key."""
        header = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines])
        return self.add(f"{name}-{version}.dist-info", header + "\n", **files)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    path = tmp_path / "site-packages"
    path.mkdir()
    return Site(path)


@pytest.fixture
def odd_site(site: Site) -> Site:
    """Every known defect of real environments, and some more."""
    site.add("empty-1.0.dist-info", record=None)
    site.add("nameless-2.0.dist-info", "Summary: x\n")
    site.add("latin-1.0.dist-info", "Name: latin\nVersion: 1.0\nLicense: MIT\nAuthor: José\n".encode("latin-1"))
    (site.path / "folder-1.0.dist-info" / "METADATA").mkdir(parents=True)
    site.add(
        "escape-1.0.dist-info",
        "Name: esc\x1b[31mape\nVersion: 1.0\nLicense: GPLv3\n",
        record="a.py,,\n../../../../../../../../etc/passwd,,\n",
    )
    long_name = "x" * 180
    site.add(f"{long_name}-1.dist-info", f"Name: {long_name}\nVersion: 1.{'9' * 99}\nLicense-Expression: MIT OR\n")
    site.plain("dup", "License-Expression: GPL-3.0-or-later", "Requires-Dist: nothere>=1")
    site.add("dup-2.0.dist-info", "Name: Dup\nVersion: 2.0\nLicense-Expression: MIT\n", record="gone.py,,\n")
    site.add("~left-1.0.dist-info", "Name: left\nVersion: 1.0\nLicense: MIT\n")
    site.add("wide-1.0.dist-info", "Name: 漢字漢字漢字\nVersion: 1.0\nLicense: 漢字\n")
    site.plain("lying", "Classifier: License :: OSI Approved :: MIT License", LICENSE=GPL_TEXT)
    site.add("pipe-1.0.dist-info", "Name: pi|pe\nVersion: 1.0\nLicense: A | <b>B</b>\n", record='"unclosed,,\n')
    (site.path / "plain-1.0.egg-info").write_text("Name: plain\nVersion: 1.0\nLicense: BSD\n", encoding="utf-8")
    (site.path / "file-1.0.dist-info").write_text("no folder", encoding="utf-8")
    return site


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Audit:
    """Calls the program in this process, in the folder of the test; returns its output and exit code."""

    from examples.audit import __main__

    def call(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            for name in os.environ.keys() - BASE.keys():
                patch.delenv(name)
            for name, value in env.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", [__main__.__file__, *arguments])
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            capsys.readouterr()
            try:
                code = __main__.main()
            except SystemExit as ended:
                code = int(str(ended.code))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return call
