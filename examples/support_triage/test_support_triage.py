"""A person in the loop: who is asked, the content of the question, and the effect of each answer.

It has detected two bugs: a desk that sends the draft although the person wrote their own text, and a mail that is sent
without `kind="once"`, and therefore twice when the tracker fails after it.
"""

from __future__ import annotations

import pytest

from graphrt import END
from graphrt.events import AnswerUsed
from graphrt.harness import FunctionModel
from graphrt.testing import assert_run, record

from .graph import ARTICLES, Desk, graph

CALM = {"number": 8, "customer": "bob@example.org", "ticket": "I cannot sign in."}
ANGRY = {"number": 7, "customer": "ann@example.org", "ticket": "You charged me twice!"}
TRIAGED = {**CALM, "article": "Sign in again.", "draft": "Sign in again.", "triage": {"topic": "technical"}}


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def asked(desk, graphrt_model):
    """A run that waits for the verdict on a draft."""
    models = {
        "classifier": graphrt_model([{"topic": "billing", "angry": True}]),
        "writer": FunctionModel(lambda request: "We are sorry." if "Remark" in request.text else "It is paid back."),
    }
    return record(graph, ANGRY, deps=desk, models=models)


@pytest.mark.routes(
    graph,
    {
        "write": [
            (TRIAGED, "send"),
            ({**TRIAGED, "article": ""}, "approve"),
            ({**TRIAGED, "draft": "It is paid back."}, "approve"),
            ({**TRIAGED, "triage": {"topic": "technical", "angry": True}}, "approve"),
            ({**TRIAGED, "triage": None}, "approve"),
        ],
        "approve": [
            ({**TRIAGED, "verdict": {"do": "rewrite"}}, "write"),
            ({**TRIAGED, "verdict": {"do": "send"}}, END),
            ({**TRIAGED, "verdict": {"do": "drop"}}, END),
        ],
    },
)
def test_routing():
    """One test for each row."""


def test_harmless_answer_is_sent_without_a_question(desk, graphrt_model):
    classifier = graphrt_model([{"topic": "technical", "angry": False}])
    writer = graphrt_model(["Sign in again."])
    run = record(graph, CALM, deps=desk, models={"classifier": classifier, "writer": writer})

    assert_run(run).completed().visited("classify", "look_up", "write", "send").state("receipt", "mail 1")
    assert_run(run).usage(calls=2).without_warnings()
    assert ARTICLES["technical"] in writer.calls[0].text
    assert (desk.sent, desk.closed) == ([("bob@example.org", "Sign in again.")], [8])


def test_person_sees_the_ticket_and_the_draft(asked, desk):
    assert_run(asked).interrupted("approve", payload={"ticket": ANGRY["ticket"], "draft": "It is paid back."}, count=1)
    assert desk.sent == []


def test_draft_is_sent_when_the_person_approves(asked, desk):
    run = asked.resume(answer={"do": "send"})

    assert_run(run).completed().routed("approve", END).events(AnswerUsed).state("receipt", "mail 1")
    assert desk.sent == [("ann@example.org", "It is paid back.")]


def test_person_may_write_their_own_text(asked, desk):
    assert_run(asked.resume(answer={"do": "send", "text": "You have it back."})).completed()
    assert desk.sent == [("ann@example.org", "You have it back.")]


def test_draft_is_rewritten_until_the_person_approves(asked, desk):
    again = asked.resume(answer={"do": "rewrite", "text": "say sorry"})
    assert_run(again).interrupted("approve", payload={"ticket": ANGRY["ticket"], "draft": "We are sorry."})

    done = again.resume(answer={"do": "send"})
    assert_run(done).visited("classify", "look_up", "write", "approve", "write", "approve").routed("approve", "write")
    assert_run(done).state_after("write", "draft", "It is paid back.")
    assert_run(done).state_after("write", "draft", "We are sorry.", nth=2)
    assert desk.sent == [("ann@example.org", "We are sorry.")]


def test_dropped_ticket_is_not_answered(asked, desk):
    assert_run(asked.resume(answer={"do": "drop"})).completed().state("receipt", "")
    assert desk.sent == []


def test_empty_answer_is_not_sent_and_can_be_replaced(asked, desk):
    refused = asked.resume(answer={"do": "send", "text": "  "})
    assert_run(refused).failed(ValueError, match="an empty answer is not sent", node="approve")

    assert_run(refused.resume(answer={"do": "send"})).completed()
    assert len(desk.sent) == 1


def test_mail_is_sent_once_although_the_tracker_fails_after_it(asked, desk, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(desk, "closed", None)
        assert_run(asked.resume(answer={"do": "send"})).failed(AttributeError, node="approve")

    assert_run(asked.retry()).completed().state("receipt", "mail 1")
    assert (len(desk.sent), desk.closed) == (1, [7])


def test_person_may_answer_after_a_restart(desk, graphrt_runtime, graphrt_store, graphrt_model):
    models = {"classifier": graphrt_model([{"topic": "billing"}]), "writer": graphrt_model(["It is paid back."])}
    graphrt_runtime(graph, store=graphrt_store, deps=desk, models=models).run(ANGRY, thread="t")

    later = graphrt_runtime(graph, store=graphrt_store, deps=desk, models={})
    assert later.resume("t", answer={"do": "send"}).status == "completed"
    assert desk.sent == [("ann@example.org", "It is paid back.")]
