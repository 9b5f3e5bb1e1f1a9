"""Tools for users' own tests: recorded runs with assertions, doubles of nodes, stores and servers, reducer laws.

Names are imported at first access, so that `import graphrt.testing` stays cheap. No other package of graphrt may import
this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphrt.testing.assertions import RunAssertions, assert_run
    from graphrt.testing.cases import ReplayedStep, ReplayedTask, case_of, replay_case
    from graphrt.testing.chat_answers import ChatAnswer, ChatRequest
    from graphrt.testing.chat_server import FakeChatServer
    from graphrt.testing.due import drive_due
    from graphrt.testing.exploring import (
        Counterexample,
        Exploration,
        explore_crashes,
        explore_forks,
        explore_routes,
        explore_schedules,
    )
    from graphrt.testing.faulty_host import FaultyHost
    from graphrt.testing.flaky_store import Fault, FlakyStore
    from graphrt.testing.golden import golden_divergence, golden_trace, golden_wire
    from graphrt.testing.nodes import failing, fan_out, interrupting, noop, slow
    from graphrt.testing.recording import RecordedRun, Route, arecord, record
    from graphrt.testing.reducer_laws import check_reducer
    from graphrt.testing.scripted_results import ScriptedResults, raises, scripted
    from graphrt.testing.scripted_run import run_scripted
    from graphrt.testing.virtual_clock import VirtualClock

__all__ = [
    "ChatAnswer",
    "ChatRequest",
    "Counterexample",
    "Exploration",
    "FakeChatServer",
    "Fault",
    "FaultyHost",
    "FlakyStore",
    "RecordedRun",
    "ReplayedStep",
    "ReplayedTask",
    "Route",
    "RunAssertions",
    "ScriptedResults",
    "VirtualClock",
    "arecord",
    "assert_run",
    "case_of",
    "check_reducer",
    "drive_due",
    "explore_crashes",
    "explore_forks",
    "explore_routes",
    "explore_schedules",
    "failing",
    "fan_out",
    "golden_divergence",
    "golden_trace",
    "golden_wire",
    "interrupting",
    "noop",
    "raises",
    "record",
    "replay_case",
    "run_scripted",
    "scripted",
    "slow",
]

_HOMES: Final[dict[str, str]] = {
    **dict[str, str].fromkeys(("RunAssertions", "assert_run"), "graphrt.testing.assertions"),
    **dict[str, str].fromkeys(("ReplayedStep", "ReplayedTask", "case_of", "replay_case"), "graphrt.testing.cases"),
    **dict[str, str].fromkeys(("ChatAnswer", "ChatRequest"), "graphrt.testing.chat_answers"),
    **dict[str, str].fromkeys(("Exploration", "Counterexample", "explore_routes"), "graphrt.testing.exploring"),
    **dict[str, str].fromkeys(("explore_crashes", "explore_forks", "explore_schedules"), "graphrt.testing.exploring"),
    "FakeChatServer": "graphrt.testing.chat_server",
    "FaultyHost": "graphrt.testing.faulty_host",
    **dict[str, str].fromkeys(("Fault", "FlakyStore"), "graphrt.testing.flaky_store"),
    **dict[str, str].fromkeys(("golden_divergence", "golden_trace", "golden_wire"), "graphrt.testing.golden"),
    **dict[str, str].fromkeys(("failing", "fan_out", "interrupting", "noop", "slow"), "graphrt.testing.nodes"),
    **dict[str, str].fromkeys(("ScriptedResults", "raises", "scripted"), "graphrt.testing.scripted_results"),
    **dict[str, str].fromkeys(("RecordedRun", "Route", "arecord", "record"), "graphrt.testing.recording"),
    "check_reducer": "graphrt.testing.reducer_laws",
    "drive_due": "graphrt.testing.due",
    "run_scripted": "graphrt.testing.scripted_run",
    "VirtualClock": "graphrt.testing.virtual_clock",
}
"""Maps a public name to the module that defines it."""


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
