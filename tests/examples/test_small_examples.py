"""The short examples run as they are, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphrt

ROOT = Path(__file__).parents[2]

PRINTS = {
    "quickstart": "Light scatters in air. Blue scatters most.  [3 supersteps, 2 calls]\n",
    "approval": "asked: Version 1 about graphs\nasked: Version 2 about graphs (shorter)\n"
    "sent:  Version 2 about graphs (shorter)\n",
    "durable": "  plan        (process first)\n  read Lisbon (process first)\n  read Oslo   (process first)\n"
    "  read Quito  (process first)\nkilled: the thread is running, next read, read\n"
    "  read Quito  (process second)\n  read Hanoi  (process second)\n  write       (process second)\n"
    "report: Lisbon 16°, Oslo 14°, Quito 15°, Hanoi 15°\n",
    "map_reduce": "A day: Dawn 3, Noon 3, Dusk 7; 13 words, at most 7\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_short_example_prints(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"examples.{name}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(Path(graphrt.__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr, done.returncode) == (PRINTS[name], "", 0)


def test_quickstart_routes_until_there_are_enough_notes() -> None:
    from examples.quickstart import State, graph

    assert graph.route("search", State(question="q", calls=1)) == ("search",)
    assert graph.route("search", State(question="q", calls=2)) == ("answer",)


def test_map_reduce_of_a_book_without_chapters() -> None:
    from examples.map_reduce import graph

    assert graph.run({"book": "Empty"}).state.summary == "Empty: ; 0 words, at most 0"
