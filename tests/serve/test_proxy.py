"""A real nginx before two servers, configured as docs/how-to/serve-behind-a-proxy.md shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.serve import anyone, app
from graphrt.workers import Worker

from .conftest import Paper

PAGE = Path(__file__).parents[2] / "docs/how-to/serve-behind-a-proxy.md"
NGINX = """daemon off;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    {configured}
}}
"""


@pytest.fixture
def proxied(tmp_path: Path, running: Any):
    """Start nginx before two servers of these runtimes, and return its URL."""
    started: list[Any] = []

    def start(*runtimes: Runtime) -> str:
        ports = [str(urlsplit(running(app(one, authorize=anyone))).port) for one in runtimes]
        found = re.search(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        assert found is not None
        configured = found[1].replace("8001", ports[0]).replace("8002", ports[1])
        configured = configured.replace("127.0.0.1:8080", f"unix:{tmp_path}/proxy.sock")
        (tmp_path / "nginx.conf").write_text(NGINX.format(configured=configured), encoding="utf-8")
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        command = [nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-g", "user root;" if os.geteuid() == 0 else ""]
        with (tmp_path / "log").open("w") as log:
            started.append(subprocess.Popen(command, stderr=log))
        while not (tmp_path / "proxy.sock").exists():
            assert started[0].poll() is None, (tmp_path / "log").read_text(encoding="utf-8")
        return f"{tmp_path}/proxy.sock"

    yield start
    for one in started:
        one.terminate()
        one.wait()


@pytest.mark.full
@pytest.mark.needs("nginx", "httpx")
def test_proxy_passes_events_on_at_once_and_any_replica_continues_a_stream(proxied):
    import httpx

    gate = threading.Event()
    g = GraphBuilder(Paper, name="papers")

    @g.node
    def search(state: Paper, ctx: Context) -> Any:
        ctx.emit({"progress": 0.5})
        gate.wait(20)
        return {"notes": [f"on {state.topic}"]}

    g.add_sequence([START, search, END])
    graph = g.compile()
    with Runtime(graph, store="memory:") as runtime, Worker(runtime, poll_s=0.01):
        socket = proxied(runtime, runtime)
        transport = httpx.HTTPTransport(uds=socket)
        with httpx.Client(transport=transport, base_url="http://site/graphs/papers", timeout=20) as client:
            thread = client.post("/threads", json={"input": {"topic": "tea"}}).json()["thread"]
            last = ""
            with client.stream("GET", f"/threads/{thread}/events") as answer:
                for line in answer.iter_lines():  # nothing ends before the gate opens
                    last = line.removeprefix("id: ") if line.startswith("id: ") else last
                    if "progress" in line:
                        break
            gate.set()
            with client.stream("GET", f"/threads/{thread}/events", headers={"Last-Event-ID": last}) as answer:
                rest = answer.read().decode()

    assert "progress" not in rest
    assert rest.count("event: end") == 1
    assert '"status":"completed"' in rest
