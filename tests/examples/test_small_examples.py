"""The short examples run unchanged, and print the documented output."""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path

import pytest

from examples import map_reduce, quickstart
from graphrt import Runtime
from graphrt.testing import assert_run, record

ROOT = Path(__file__).parents[2]

PRINTS = {
    "quickstart": "Light scatters in air. Blue scatters most.  [3 supersteps, 2 calls]\n",
    "approval": "asked: Version 1 about graphs\nasked: Version 2 about graphs (shorter)\n"
    "sent:  Version 2 about graphs (shorter)\n",
    "durable": "  plan        (process first)\n  read Lisbon (process first)\n  read Oslo   (process first)\n"
    "  read Quito  (process first)\nkilled: the thread is running, next read, read\n"
    "  read Quito  (process second)\n  read Hanoi  (process second)\n  write       (process second)\n"
    "report: Lisbon 16°, Oslo 14°, Quito 15°, Hanoi 15°\n",
    "sse": '200 left at data: {"read": "tea 2", "of": 30}\n'
    "then it is cancelled before read\n"
    '200 came back to data: {"node": "read", "what": "started"} ... '
    'data: {"status": "interrupted", "questions": [{"send": "30 sources on tea"}]}\n'
    "400 Thread 'tea' is interrupted: it cannot take a new input.\n"
    '200 data: {"status": "completed", "questions": []}\n',
    "ticket_router": "I want a refund.                 Your money is on its way: 20 euros for A-1. [done]\n"
    "I want a refund.                 [people, refund]\n"
    "A refund, please!                Which order is it about? [done]\n"
    "There is an outage.              An engineer is looking into it. [on-call]\n"
    "How do I change password again?  Sign in again after a change of the password; old sessions end. [done]\n"
    "Hello?                           [people, other]\n",
    "support_triage": "asked: Thank you for asking. A charge that was made twice is paid back within five days.\n"
    "asked: We are sorry. A charge that was made twice is paid back within five days.\n"
    "sent to c1@example.org: Thank you for asking. Sign in again after a change of the password; old sessions end.\n"
    "sent to c2@example.org: We are sorry. A charge that was made twice is paid back within five days.\n",
    "runbook": "plan accepted in attempt 2: roll back checkout, restart checkout\n"
    "checkout: checkout fails\ncause: release 51 made the connection pool too small\n"
    "approve by Ann: the release is the cause\ndone: roll back checkout\ndone: restart checkout\n",
    "research_map_reduce": "What is tea? All tea is made of the leaves of one plant.\n"
    "What is coffee? Coffee and tea are drunk in the morning.\nWhat is cocoa? Nobody knows.\n"
    "[plants, breakfast, beans; 20 words, 8 model calls]\n",
    "chat_agent": "user:  Hello!\nclerk: What would you like to know of our teapots and kettles?\n"
    "user:  How many teapots do you have?\nclerk: In stock: 3.\n"
    "user:  Order 2 of them, please.\nasked: order {'item': 'teapot', 'count': 2}\nclerk: Ordered: 2 of teapot.\n"
    "[10 messages, orders: [('teapot', 2)]]\n",
    "long_context": "at most 600 calls and 17,370,000 tokens\n100 pieces read\n200 pieces read\n300 pieces read\n"
    "400 pieces read\nRelease v3 broke the checkout; 1225 of its requests failed.\n[449 calls, 1,070,284 tokens]\n",
    "claims": "ann:  Please pay for this, the invoice is screen.pdf.\n"
    "desk: We have paid 180 euros for: a cracked screen (receipt 1).\n"
    "      [781 of 810 messages were not sent: The customer wrote 391 messages.]\n"
    "ann:  Please pay for this, the invoice is roof.pdf.\n"
    "asked: {'customer': 'ann', 'damage': 'a hole in the roof', 'amount': 2400}\n"
    "desk: We have paid 2400 euros for: a hole in the roof (receipt 2).\n"
    "      [781 of 820 messages were not sent: The customer wrote 391 messages.]\n"
    "ann:  What do you know about me?\n"
    "desk: claim receipt 2: 2400 euros for: a hole in the roof\n"
    "claim receipt 1: 180 euros for: a cracked screen\n"
    "[paid: [('ann', 180), ('ann', 2400)]]\n",
    "map_reduce": "A day: Dawn 3, Noon 3, Dusk 7; 13 words, at most 7\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_short_example_prints_the_documented_output(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As `python -m` does, but in this process."""
    module = f"examples.{name}"
    for loaded in (module, f"{module}.__main__"):  # runpy warns of a module that is there already
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    monkeypatch.setattr(sys, "argv", [module])
    monkeypatch.chdir(ROOT)

    runpy.run_module(module, run_name="__main__", alter_sys=True)

    assert capfd.readouterr() == (PRINTS[name], "")


@pytest.mark.routes(
    quickstart.graph,
    "search",
    [({"question": "q", "calls": 1}, "search"), ({"question": "q", "calls": 2}, "answer")],
)
def test_quickstart_routes_until_there_are_enough_notes() -> None:
    """One test for each row."""


@pytest.mark.parametrize("modes", [("updates", "result"), ("custom", "result"), ("live", "result")])
@pytest.mark.parametrize("store", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
def test_client_that_disconnects_ends_its_run(
    modes: tuple[str, ...], store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves while a node works and nothing is written to it; the commits stay, and the rest runs later."""
    from examples import sse

    monkeypatch.setattr(sse, "MODES", modes)
    url = "memory:" if store == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"

    async def main(runtime: Runtime[sse.State]) -> None:
        async with sse.serving(runtime) as (port, answering):
            status, _ = await asyncio.to_thread(sse.post, port, "t", topic="tea", leave_after=1)
            assert status == 200
            await asyncio.wait(answering)
            assert [task.exception() for task in answering] == [None]
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert runtime.state("t").status == "cancelled"
            _, lines = await asyncio.to_thread(sse.post, port, "t")
            assert lines[-1] == 'data: {"status": "interrupted", "questions": [{"send": "30 sources on tea"}]}'
            await asyncio.wait(answering)

    with Runtime(sse.graph, store=url) as runtime:
        asyncio.run(main(runtime))


def test_map_reduce_of_a_book_without_chapters_ends() -> None:
    run = record(map_reduce.graph, {"book": "Empty"})

    assert_run(run).completed().visited("entitle", "summarise").state("summary", "Empty: ; 0 words, at most 0")
