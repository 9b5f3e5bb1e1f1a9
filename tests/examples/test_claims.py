"""The claims desk on failing stores, and with 20 MB of pictures: its payments, questions, memory and stored bytes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from examples.claims.files import photo
from examples.claims.graph import LIMIT, Desk, graph
from examples.claims.offline import offline
from examples.claims.test_claims import FILES, LONG, claim, said

from graphrt import Runtime
from graphrt.errors import StoreError
from graphrt.events import ModelReplied
from graphrt.harness import Image, TokenTracker
from graphrt.stores import MemoryStore
from graphrt.testing import Fault, FlakyStore

# -------------------------------------------------------------------------------------------------- kills at every write


class Life:
    """A claim after a conversation that has to be summarised, driven to its end on a store whose commit number *nth*
    fails.

    The desk and the models are the outside world, and outlive the process.
    """

    def __init__(self, nth: int = 0, moment: Any = "before") -> None:
        self.desk, self.models, self.kept = Desk(FILES), offline(), MemoryStore()
        self.store = FlakyStore(self.kept, [Fault("commit", nth=nth, moment=moment)] if nth else [])
        given, status = claim(LIMIT + 1, LONG), ""
        while status != "completed":
            with self.process() as runtime:
                try:
                    status = runtime.run(given, thread="t", if_exists="continue").status
                    while status == "interrupted":
                        status = self.answered(runtime).status
                except StoreError:
                    status = "killed"
        self.commits = self.store.calls["commit"]
        with self.process() as runtime:
            runtime.run(said("I have moved to Bergen."), thread="t")
            self.memory = {(item.key, str(item.value)) for item in runtime.memory.search()}
            self.messages = runtime.state("t").values.messages
            self.usage = runtime.state("t").usage
            # A failed task is in the journal with its replies, and so is the next execution, which reuses them.
            self.replies = {e.event.key for e in runtime.entries("t") if isinstance(e.event, ModelReplied)}
            self.tracked = TokenTracker().read(runtime.entries("t")).total

    def process(self) -> Runtime[Any]:
        return Runtime(graph, store=self.store, deps=self.desk, models=self.models, seed=1)

    def answered(self, runtime: Runtime[Any]) -> Any:
        """Answer the open questions: approve, and check the books of the bank if the outcome of the payment is unknown."""
        (question,) = runtime.state("t").interrupts
        if question.kind != "effect":
            return runtime.resume("t", True)
        paid = {"result": f"receipt {len(self.desk.paid)}"} if self.desk.paid else "run"
        return runtime.resume("t", answer=paid)

    def summaries(self) -> list[str]:
        """The requests to the summarising models, in order."""
        calls: list[str] = []
        for name in ("reception-summary", "assessor-summary"):
            double: Any = self.models[name]
            calls += [request.text for request in double.calls]
        return calls


TWIN = Life()
COMMITS = 16
"""As many as such a life makes. A constant, since the processes that run the tests have to collect the same ones."""


def test_undisturbed_life_has_a_summary_a_payment_and_a_memory() -> None:
    assert TWIN.desk.paid == [("ann", LIMIT + 1)]
    assert len(TWIN.summaries()) == len(set(TWIN.summaries())) > 0
    assert {key for key, _ in TWIN.memory} == {"claim receipt 1", "town"}
    assert 12 < TWIN.commits <= COMMITS


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, COMMITS + 1))
def test_desk_that_is_killed_at_a_write_ends_like_its_twin(nth: int, moment: str) -> None:
    """A summary is recorded once; its model is called again only if the write of its reply was lost."""
    life = Life(nth, moment)

    assert life.desk.paid == TWIN.desk.paid
    assert (life.memory, life.messages, life.usage) == (TWIN.memory, TWIN.messages, TWIN.usage)
    assert (life.replies, life.tracked) == (TWIN.replies, TWIN.tracked)
    assert set(life.summaries()) == set(TWIN.summaries())
    assert len(life.summaries()) - len(TWIN.summaries()) in ((0, 1) if moment == "before" else (0,))


# ------------------------------------------------------------------------------------------------- 20 MB of pictures


def stored(path: Path) -> tuple[int, int]:
    """Bytes of the journal's records, and of all values beside it, in the file of a store."""
    with closing(sqlite3.connect(path)) as db:
        (records,) = db.execute("SELECT sum(length(body)) FROM record").fetchone()
        (parts,) = db.execute("SELECT sum(length(body)) FROM part").fetchone()
    return records, parts


@pytest.mark.slow
def test_pictures_of_50_turns_are_stored_once_and_the_journal_grows_by_the_turn(tmp_path: Path) -> None:
    """Pictures of 400 KB, each sent to several agents in several turns; 50 with GRAPHRT_FULL=1, else 20."""
    turns = 50 if os.environ.get("GRAPHRT_FULL") else 20
    pictures = [photo(f"damage {number}") + Random(number).randbytes(400_000) for number in range(turns)]
    file, models, journal = tmp_path / "claims.db", offline(), [0]
    for number, picture in enumerate(pictures):
        turn = said("Look, the invoice is blank.pdf.", Image.from_bytes(picture))
        with Runtime(graph, store=f"sqlite:///{file}", deps=Desk(FILES), models=models) as runtime:
            assert runtime.run(turn, thread="t").status == "completed"
        if (number + 1) % (turns // 5) == 0:
            journal.append(stored(file)[0])

    total = sum(map(len, pictures))
    sent: Any = models["assessor"]
    assert (
        sum(len(part.data or b"") for request in sent.calls for one in request.messages for part in one.media)
        > 4 * total
    )
    assert total < stored(file)[1] < total * 1.02
    assert file.stat().st_size < total * 1.05
    tens = [after - before for before, after in pairwise(journal)]
    assert max(tens) < 1.1 * min(tens)
    with Runtime(graph, store=f"sqlite:///{file}", deps=Desk(FILES)) as runtime:
        kept = [part.data for one in runtime.state("t").values.messages if one.role == "user" for part in one.media]
    assert kept == pictures
