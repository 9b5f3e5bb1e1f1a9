"""Small files of each kind, for tests of messages with images, audio and documents."""

from __future__ import annotations

from typing import Final

from graphrt.harness import Audio, Document, Image

PNG: Final = b"\x89PNG\r\n\x1a\n" + b"a picture"
JPEG: Final = b"\xff\xd8\xff\xe0" + b"another one"
WAV: Final = b"RIFF\x10\x00\x00\x00WAVE" + b"a sound"
PDF: Final = b"%PDF-1.7\n" + b"\xe2\xe3 a paper"

PICTURE: Final = Image.from_bytes(PNG)
SOUND: Final = Audio.from_bytes(WAV)
PAPER: Final = Document.from_bytes(PDF, name="paper.pdf")
LINK: Final = Image(url="https://example.org/a.png")
