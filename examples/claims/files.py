"""A photo and an invoice of a few hundred bytes, generated here, and their reader for the models of `offline`."""

from __future__ import annotations

import re
import zlib


def photo(shows: str) -> bytes:
    """Return a PNG of one grey pixel, with a comment about what it *shows*."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = (1).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])  # 1 by 1, 8 bits, grey
    comment = chunk(b"tEXt", b"Comment\0" + shows.encode("latin-1") + b"\0")
    pixel = chunk(b"IDAT", zlib.compress(b"\0\x80"))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + comment + pixel + chunk(b"IEND", b"")


def invoice(text: str) -> bytes:
    """Return a PDF of one page with one line of *text*."""
    shown = f"BT /F1 12 Tf 40 40 Td ({text}) Tj ET".encode("latin-1")
    font = b"<< /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 90] /Contents 4 0 R /Resources << /Font %b >> >>" % font,
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(shown), shown),
    ]
    file, places = b"%PDF-1.4\n", b""
    for number, body in enumerate(objects, 1):
        places += b"%010d 00000 n \n" % len(file)
        file += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"xref\n0 5\n0000000000 65535 f \n%btrailer\n<< /Size 5 /Root 1 0 R >>\n" % places
    return file + table + b"startxref\n%d\n%%%%EOF\n" % len(file)


def seen(data: bytes) -> str:
    """Return the content of a file of this module; stands for the vision of a model."""
    found = re.search(rb"tEXtComment\0([^\0]*)\0", data) or re.search(rb"\((.*)\) Tj", data)
    return found[1].decode("latin-1") if found else ""
