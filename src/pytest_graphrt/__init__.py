"""The pytest plugin of graphrt: routing tables, fixtures, route coverage and golden traces.

pytest loads this package in every run of every user. Until it is used, it imports only pytest and the standard library;
`import graphrt` here would also hide graphrt's lines from a coverage tool that starts later (decision 0071).
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from pytest_graphrt import _coverage, _golden, _unused
from pytest_graphrt._fixtures import (
    MakeModel,
    MakeRuntime,
    graphrt_clock,
    graphrt_each_store,
    graphrt_ids,
    graphrt_model,
    graphrt_runtime,
    graphrt_sleep,
    graphrt_store,
)
from pytest_graphrt._golden import CheckGolden, graphrt_golden
from pytest_graphrt._routes import check, parametrise

__all__ = [
    "CheckGolden",
    "MakeModel",
    "MakeRuntime",
    "graphrt_clock",
    "graphrt_each_store",
    "graphrt_golden",
    "graphrt_ids",
    "graphrt_model",
    "graphrt_runtime",
    "graphrt_sleep",
    "graphrt_store",
]

_REQUESTS = "GRAPHRT_ALLOW_MODEL_REQUESTS"
_MARKERS = (
    "routes(graph, table): call the test once for each row of a routing table; see 'Test a graph' in graphrt's docs",
    "graphrt_real_requests: let this test make real model requests",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("graphrt", "graphs, routes and model requests (graphrt)")
    _coverage.add_options(parser, group)
    group.addoption(
        "--graphrt-real-requests",
        action="store_true",
        help="let tests make real model requests, which are forbidden otherwise",
    )
    group.addoption(
        "--graphrt-update",
        action="store_true",
        help="write the golden traces of the tests that run, instead of comparing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # Before the first conftest, which may import modules that compile graphs.
    _coverage.begin(early_config)


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    _coverage.configure(config)
    _golden.configure(config)
    _unused.configure(config)
    if not config.getoption("--graphrt-real-requests") and _REQUESTS not in os.environ:
        # In the environment, so that it also applies to processes that tests start, and needs no import.
        os.environ[_REQUESTS] = "0"
        config.add_cleanup(_allow_requests)


def _allow_requests() -> None:
    os.environ.pop(_REQUESTS, None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("routes") is not None:
        parametrise(metafunc)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    if item.get_closest_marker("routes") is not None:
        check(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker("graphrt_real_requests") is None:
        return (yield)
    before = os.environ.get(_REQUESTS)
    os.environ[_REQUESTS] = "1"
    try:
        return (yield)
    finally:
        if before is None:
            del os.environ[_REQUESTS]
        else:
            os.environ[_REQUESTS] = before


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    result = yield
    _coverage.finish(session)
    return result


def pytest_sessionfinish() -> None:
    _coverage.flush()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    _coverage.show(terminalreporter, config)
