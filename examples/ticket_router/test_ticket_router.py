"""The routes of tickets: routing tables for the decisions, recorded runs for the paths through the graph.

It has detected two bugs: `by_amount` with `if not state.amount`, which treats a free order as unknown, and `search`
without its `max_visits`. No mutant of the routes survives it.
"""

from __future__ import annotations

import pytest

from graphrt import END, START
from graphrt.testing import assert_run, failing, record

from .graph import ARTICLES, LIMIT, graph

TEXT = {"text": "Hello?"}


class PaperShop:
    """An order system that records its payments."""

    def __init__(self):
        self.paid = []

    def amount_of(self, order):
        return {"A-1": 20.0, "A-2": 900.0}.get(order)

    def pay_back(self, order, amount):
        self.paid.append((order, amount))
        return f"receipt {len(self.paid)}"


@pytest.fixture
def shop():
    return PaperShop()


@pytest.mark.routes(
    graph,
    {
        START: [(TEXT, "label")],
        "label": [
            ({**TEXT, "topic": "refund", "order": "A-1"}, "find_order"),
            ({**TEXT, "topic": "refund"}, "ask_for_order"),
            ({**TEXT, "topic": "outage"}, "check_plan"),
            ({**TEXT, "topic": "how do i"}, "search"),
            ({**TEXT, "topic": "unsubscribe"}, END),
            ({**TEXT, "topic": "other"}, "hand_over"),
            ({**TEXT, "topic": "a topic of next year"}, "hand_over"),
        ],
        "find_order": [
            ({**TEXT, "amount": None}, "ask_for_order"),
            ({**TEXT, "amount": 0.0}, "refund"),
            ({**TEXT, "amount": LIMIT}, "refund"),
            ({**TEXT, "amount": LIMIT + 0.01}, "hand_over"),
        ],
        "search": [
            ({**TEXT, "query": ["export"], "article": "Choose File."}, "reply"),
            ({**TEXT, "query": ["export", "now"]}, "widen"),
            ({**TEXT, "query": ["export"]}, "hand_over"),
        ],
    },
)
def test_routing():
    """One test for each row."""


def test_small_refund_is_paid_once(shop):
    run = record(graph, {"text": "A refund, please.", "order": "A-1"}, deps=shop)

    assert_run(run).completed().visited("label", "find_order", "refund")
    assert_run(run).state("replies", ["Your money is on its way: receipt 1."])
    assert shop.paid == [("A-1", 20.0)]


def test_large_refund_is_left_to_a_person(shop):
    run = record(graph, {"text": "A refund, please.", "order": "A-2"}, deps=shop)

    assert_run(run).routed("find_order", "hand_over").never_visited("refund").state("queue", "people, refund")


@pytest.mark.parametrize("ticket", [{"text": "A refund!"}, {"text": "A refund!", "order": "A-3"}])
def test_customer_is_asked_for_an_unknown_order(shop, ticket):
    run = record(graph, ticket, deps=shop)

    assert_run(run).completed().routed("ask_for_order", END).state("replies", ["Which order is it about?"])
    assert shop.paid == []


def test_second_message_of_the_customer_is_answered_below_the_first(shop, graphrt_runtime):
    desk = graphrt_runtime(graph, deps=shop)
    desk.run({"text": "A refund!"}, thread="t")
    result = desk.run({"text": "A refund, please.", "order": "A-1"}, thread="t")

    assert result.state.replies == ["Which order is it about?", "Your money is on its way: receipt 1."]


def test_busy_order_system_is_retried(shop, graphrt_clock):
    busy = graph.with_nodes({"find_order": failing(2, {"amount": 20.0})})
    run = record(busy, {"text": "A refund!", "order": "A-1"}, deps=shop, sleep=graphrt_clock.sleep)

    assert_run(run).retried("find_order", times=2).visited("label", "find_order", "refund")
    assert graphrt_clock.slept == [2, 4]


def test_order_system_that_is_down_does_not_lose_the_ticket(shop, graphrt_clock):
    down = graph.with_nodes({"find_order": failing(3)})
    run = record(down, {"text": "A refund!", "order": "A-1"}, deps=shop, sleep=graphrt_clock.sleep)

    assert_run(run).completed().routed("find_order", "hand_over").state("queue", "order-system-down")


def test_search_is_widened_until_there_is_an_article():
    run = record(graph, {"text": "How do I change password again?"})

    assert_run(run).visited("label", "search", "widen", "search", "reply")
    assert_run(run).state("replies", [ARTICLES["change password"]])


def test_search_is_abandoned_after_three_attempts():
    run = record(graph, {"text": "How do I dance the tango with a bear?"})

    assert_run(run).routed("search", "widen", times=3).routed("search", "hand_over").state("queue", "people, how do i")


@pytest.mark.parametrize(
    ("customer", "target", "queue", "replies"),
    [
        ("pro", "page_engineer", "on-call", ["An engineer is looking into it."]),
        ("free", "hand_over", "people, outage", []),
    ],
)
def test_only_a_paying_customer_wakes_an_engineer(customer, target, queue, replies):
    run = record(graph, {"text": "There is an outage.", "customer": customer})

    assert_run(run).visited("label", "check_plan", target).routed(target, END)
    assert_run(run).state("queue", queue).state("replies", replies)


def test_unsubscribing_customer_gets_no_answer():
    assert_run(record(graph, {"text": "unsubscribe"})).completed().visited("label").state("replies", [])
