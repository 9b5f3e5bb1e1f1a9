"""What holds for every test: Hypothesis profiles, no outside network, and `needs`, which CI may not skip."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=200,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a shared machine is slow at times
)
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("thorough", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts what runs in the background so
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose `needs` are not there; under CI they have to be."""
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = [name for name in names if shutil.which(name) is None and importlib.util.find_spec(name) is None]
    if not missing:
        return
    message = f"needs {', '.join(missing)}"
    if os.environ.get("CI"):
        pytest.fail(f"{message}: CI runs every test", pytrace=False)
    pytest.skip(message)


HOME = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "", None}


def _stay_home(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in HOME:
        raise RuntimeError(f"a test tried to reach {host!r}: tests talk to this machine only")


sys.addaudithook(_stay_home)
