"""A server that sends any bytes as its answer, on any path: for APIs that FakeChatServer does not support."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class RawServer:
    """The answers, and the received requests."""

    url: str
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    piece: int | None = None
    """Number of bytes in each piece of a stream; None sends it in one."""
    reset: bool = False
    """Whether the connection is reset at the end, before the client knows that it is the end."""
    stays_open: bool = False
    """Whether the connection stays open after the answer, until the client closes it."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answers(
        self,
        body: bytes,
        *,
        status: int = 200,
        media_type: str = "application/json",
        piece: int | None = None,
        reset: bool = False,
        stays_open: bool = False,
    ) -> None:
        self.body, self.status, self.headers = body, status, {"Content-Type": media_type}
        self.piece, self.reset, self.stays_open = piece, reset, stays_open

    def pieces(self) -> list[bytes]:
        size = self.piece or max(1, len(self.body))
        return [self.body[start : start + size] for start in range(0, len(self.body), size)]


@contextmanager
def raw_server() -> Iterator[RawServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            served.requests.append({"path": self.path, "body": asked, "headers": headers})
            self.send_response(served.status)
            for name, value in {**served.headers, "Transfer-Encoding": "chunked"}.items():
                self.send_header(name, value)
            self.end_headers()
            for one in served.pieces():
                self.wfile.write(b"%x\r\n%s\r\n" % (len(one), one))
            if served.reset:  # a reset instead of the last chunk
                self.close_connection = True
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            elif served.stays_open:
                self.close_connection = True
                self.rfile.read(1)
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = RawServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
