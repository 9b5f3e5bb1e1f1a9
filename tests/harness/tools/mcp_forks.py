"""The MCP test server without its imports, which take a second: a warmed-up process forks one server for each start.

`mcp_forks.py FOLDER ARGUMENTS` is a program whose standard streams and environment the forked server takes over. It ends
with the server. It imports little, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

NAME = "forks"
"""The Unix socket in the folder."""


def serve(folder: str, main: Callable[[Sequence[str]], None]) -> None:
    """Fork for each connection, and run *main* with its arguments, streams and environment."""
    signal.signal(signal.SIGCHLD, _reap)
    with socket.socket(socket.AF_UNIX) as listener:
        unready = os.path.join(folder, "unready")  # noqa: PTH118 - pathlib would take longer than the rest
        listener.bind(unready)
        listener.listen()
        os.rename(unready, os.path.join(folder, NAME))  # noqa: PTH104, PTH118 - see above
        while True:
            connection, _ = listener.accept()
            data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                arguments, env = json.loads(data)
                os.environ.clear()
                os.environ.update(env)
                return main(arguments)  # the connection stays open until the server ends
            connection.sendall(f"{pid}\n".encode())
            connection.close()
            for stream in streams:
                os.close(stream)


def _reap(*_: object) -> None:
    """Wait for the ended servers, so that their processor time counts for the tests."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def fork(folder: str, arguments: Sequence[str], env: Mapping[str, str], streams: Sequence[int]) -> socket.socket:
    """A connection that says the process id of a new server, and is closed when the server ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.path.join(folder, NAME))  # noqa: PTH118 - see above
    socket.send_fds(connection, [json.dumps([list(arguments), dict(env)]).encode()], list(streams))
    return connection


if __name__ == "__main__":
    running = fork(sys.argv[1], sys.argv[2:], os.environ, [0, 1, 2])
    nothing = os.open(os.devnull, os.O_RDWR)
    for own in (0, 1):
        os.dup2(nothing, own)  # otherwise the streams would not end with the server
    while running.recv(100):
        pass
