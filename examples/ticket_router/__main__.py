"""Six tickets, and their routes."""

from __future__ import annotations

from typing import Any

from graphrt import Runtime

from .graph import graph

TICKETS: list[dict[str, Any]] = [
    {"text": "I want a refund.", "order": "A-1"},
    {"text": "I want a refund.", "order": "A-2"},
    {"text": "A refund, please!"},
    {"text": "There is an outage.", "customer": "pro"},
    {"text": "How do I change password again?"},
    {"text": "Hello?"},
]


class PaperShop:
    """Stands for the order system."""

    def amount_of(self, order: str) -> float | None:
        """The amount paid for an order, in euros."""
        return {"A-1": 20.0, "A-2": 900.0}.get(order)

    def pay_back(self, order: str, amount: float) -> str:
        """Pay *amount* back."""
        return f"{amount:g} euros for {order}"


def main() -> None:
    """Route each ticket."""
    with Runtime(graph, store="memory:", deps=PaperShop()) as runtime:
        for number, ticket in enumerate(TICKETS, 1):
            result = runtime.run(ticket, thread=f"ticket-{number}")
            print(f"{ticket['text']:<32}", *result.state.replies, f"[{result.state.queue or 'done'}]")


if __name__ == "__main__":
    main()
