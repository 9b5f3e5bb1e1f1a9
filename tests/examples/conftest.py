"""The examples can be imported, and there are environments to audit: folders with planted distributions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `python -m pytest` puts it there, bare `pytest` does not
    sys.path.insert(0, str(ROOT))

MIT_TEXT = """MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to deal in the Software
without restriction, and to permit persons to whom the Software is furnished to do so, subject to the following
conditions: The above copyright notice shall be included in all copies or substantial portions of the Software.
"""
GPL_TEXT = "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007\n\nEveryone is permitted to copy it.\n"


@dataclass(frozen=True)
class Site:
    """A site-packages folder in the making."""

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
    """Everything that goes wrong in real environments, and some more."""
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
