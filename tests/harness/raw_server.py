"""A server that gives any bytes as its answer, on any path: for APIs that FakeChatServer does not speak."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class RawServer:
    """What is answered, and what was asked."""

    url: str
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None
    """Number of bytes after which the connection is reset; None sends all."""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def answers(
        self, body: bytes, *, status: int = 200, media_type: str = "application/json", cut: int | None = None
    ) -> None:
        self.body, self.status, self.headers, self.cut = body, status, {"Content-Type": media_type}, cut


@contextmanager
def raw_server() -> Iterator[RawServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            served.requests.append({"path": self.path, "body": asked, "headers": headers})
            whole, served_now = served.body, served.body if served.cut is None else served.body[: served.cut]
            self.send_response(served.status)
            for name, value in {**served.headers, "Content-Length": str(len(whole))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(served_now)
            self.close_connection = self.close_connection or served_now != whole

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
