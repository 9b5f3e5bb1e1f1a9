"""Processes that are killed while an agent works: neither model calls nor effects are repeated."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.testing.warm_python import warm_python

MODELS = ["model 1", "model 2", "model 3"]
ACTS = ["act 2", "act 3", "act 4"]
TEXTS = ["go", "", "acted 2", "acted 3", "", "acted 4", "done"]


class Life:
    """The lives of one thread, each a separate process."""

    def __init__(self, folder: Path, kind: str, nodes: str) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.lives = 0
        self.given = [f"sqlite:///{folder / 'runs.db'}", str(self.log), kind, nodes]

    def live(self, verb: str, point: str = "") -> Any:
        command = [str(Path(__file__).with_name("dying.py")), *self.given, point, verb, str(self.lives)]
        self.lives += 1
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ended = warm_python().run(command, env=env)
        if point:
            assert ended.returncode == -signal.SIGKILL, ended.stderr
            return None
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    @property
    def done(self) -> list[str]:
        return sorted(self.log.read_text().splitlines())


@pytest.mark.parametrize("nodes", ["sync", "async"])
@pytest.mark.parametrize("point", ["before model 2", "before model 3", "before end"])
def test_finished_work_is_not_repeated_after_a_kill(tmp_path, nodes, point):
    life = Life(tmp_path, "idempotent", nodes)

    life.live("run", point)
    result = life.live("retry")

    assert life.done == sorted(MODELS + ACTS)
    assert result == {"said": TEXTS, "calls": 3, "status": "completed", "asked": []}


@pytest.mark.parametrize(
    ("point", "twice"), [("after model 2", "model 2"), ("after act 4", "act 4"), ("before act 4", None)]
)
def test_work_without_a_known_end_is_repeated(tmp_path, point, twice):
    life = Life(tmp_path, "idempotent", "async")

    life.live("run", point)
    result = life.live("resume")

    assert life.done == sorted([*MODELS, *ACTS, *([twice] if twice else [])])
    assert result["said"] == TEXTS
    assert result["calls"] == 3


def test_thread_may_be_killed_repeatedly(tmp_path):
    life = Life(tmp_path, "idempotent", "async")
    life.live("run", "before model 1")
    for point in ("before act 2", "before model 2", "before act 4", "before model 3", "before end"):
        life.live("retry", point)

    assert life.live("retry")["said"] == TEXTS
    assert [one for one in life.done if one != "act 3"] == sorted([*MODELS, "act 2", "act 4"])
    assert 1 <= life.done.count("act 3") <= 2


@pytest.mark.parametrize("nodes", ["async"])
@pytest.mark.parametrize(
    ("decision", "done", "told"),
    [
        ("run", 2, "acted 4"),
        ({"result": "it was done"}, 1, "it was done"),
        ({"result": {"receipt": 7}}, 1, '{"receipt":7}'),
        ({"result": {"text": "it was done", "error": False}}, 1, "it was done"),
    ],
)
def test_tool_that_may_run_once_raises_a_question(tmp_path, nodes, decision, done, told):
    life = Life(tmp_path, "once", nodes)

    life.live("run", "after act 4")
    paused = life.live("retry")
    assert paused["status"] == "interrupted"
    ((problem, effect, arguments, key),) = paused["asked"]
    assert key == Path(f"{life.log}.4").read_text(), "a person looks for what the tool gave to the world"
    assert (problem, arguments) == ("outcome unknown", {"x": 4})
    assert effect.startswith("tool/act/")
    assert life.done.count("act 4") == 1
    result = life.live(json.dumps({"answer": decision}))

    assert life.done.count("act 4") == done
    assert [one for one in life.done if one != "act 4"] == sorted([*MODELS, "act 2", "act 3"])
    assert result["said"] == [*TEXTS[:5], told, "done"]
    assert result["calls"] == 3
