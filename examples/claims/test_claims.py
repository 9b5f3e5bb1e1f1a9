"""The requirements of an agent desk: decisions, payments, memory, requests to models, and durability.

It has detected these bugs, among others: a claim that is paid twice, a forgotten customer, a lost write of a tool, a
call without its result, an agent that hands over to itself, a skipped approval.
"""

from __future__ import annotations

import pytest

from graphrt import END, Budget, Runtime
from graphrt.errors import BudgetExceededError
from graphrt.events import EffectRecorded, ModelReplied, Usage
from graphrt.harness import AgentReply, AssistantMessage, FunctionModel, Image, ModelProfile, ToolCall, UserMessage
from graphrt.testing import assert_run, explore_crashes, record

from .files import invoice, photo
from .graph import LIMIT, Desk, graph, promises_nothing
from .offline import offline, receive

FILES = {f"{amount}.pdf": invoice(f"Total: {amount} EUR") for amount in (LIMIT, LIMIT + 1)}
FILES["blank.pdf"] = invoice("Thank you!")


def said(*content, customer="ann"):
    return {"customer": customer, "messages": [UserMessage(content=content)]}


def claim(amount, talk=()):
    """A claim of so many euros, after an earlier *talk*."""
    picture = Image.from_bytes(photo("a cracked screen"))
    asked = said(f"Please pay, the invoice is {amount}.pdf.", picture)
    return {**asked, "messages": [*talk, *asked["messages"]]}


TALK = [
    message
    for number in range(400)
    for message in (UserMessage(text=f"My cat is {number} days old."), AssistantMessage(text="How nice!"))
]


@pytest.fixture
def desk():
    return Desk(FILES)


@pytest.fixture
def models():
    return offline()


@pytest.fixture
def large(desk, models):
    """A run that waits for a person."""
    return record(graph, claim(LIMIT + 1), deps=desk, models=models)


# ------------------------------------------------------------------------------------------------ who decides, what is paid


def test_small_claim_is_paid_without_a_question(desk, models):
    run = record(graph, claim(LIMIT), deps=desk, models=models)

    assert_run(run).completed().visited("talk", "pay").routed("talk", "pay").without_warnings()
    assert_run(run).state("damage", "a cracked screen").state("amount", 0).state_after("talk", "amount", LIMIT)
    assert run.state.messages[-1].text == "We have paid 500 euros for: a cracked screen (receipt 1)."
    assert desk.paid == [("ann", LIMIT)]


def test_person_is_asked_about_a_large_claim(large, desk):
    question = {"customer": "ann", "damage": "a cracked screen", "amount": LIMIT + 1}
    assert_run(large).interrupted("approve", payload=question, count=1)
    assert desk.paid == []


def test_large_claim_is_paid_when_the_person_approves(large, desk):
    assert_run(large.resume(True)).completed().routed("approve", "pay").events(EffectRecorded)
    assert desk.paid == [("ann", LIMIT + 1)]


def test_large_claim_is_not_paid_when_the_person_refuses(large, desk):
    run = large.resume(False)

    assert_run(run).completed().routed("approve", END).never_visited("pay").state("amount", 0)
    assert run.state.messages[-1].text == "We cannot pay for this."
    assert desk.paid == []


def test_answer_that_promises_money_is_rewritten(desk, models):
    run = record(graph, claim("blank"), deps=desk, models=models)

    assert_run(run).completed().visited("talk").routed("talk", END).state("amount", 0)
    assert run.state.messages[-1].text == "We need a readable invoice."
    assert "Do not promise a payment." in models["assessor"].calls[-1].text
    assert desk.paid == []


@pytest.mark.parametrize("answer", ["It will be paid.", "You get a refund."])
def test_promises_are_recognised(answer):
    with pytest.raises(Exception, match="Do not promise"):
        promises_nothing(answer)


def test_unassessed_claim_is_not_settled(desk, models, graphrt_model):
    models["assessor"] = graphrt_model([ToolCall(id="1", name="settle"), "What is it about?"])
    run = record(graph, claim(LIMIT), deps=desk, models=models)

    assert_run(run).completed().visited("talk")
    assert models["assessor"].calls[-1].text == "Assess the claim before you settle it."


# ---------------------------------------------------------------------------------------------------- what models are sent


def test_assessor_sees_the_photo_and_the_invoice(desk, models):
    record(graph, claim(LIMIT), deps=desk, models=models)

    seen = [part for message in models["assessor"].calls[-1].messages for part in message.media]
    assert [(part.media_type, part.data) for part in seen] == [
        ("image/png", photo("a cracked screen")),
        ("application/pdf", FILES["500.pdf"]),
    ]


def test_reception_hands_over_with_instructions_and_tools_of_the_assessor(desk, models):
    record(graph, claim(LIMIT), deps=desk, models=models)

    (asked,), (first, *_) = models["reception"].calls, models["assessor"].calls
    assert [tool.name for tool in asked.tools] == ["remember", "recall", "transfer_to_assessor"]
    assert [tool.name for tool in first.tools] == ["open_file", "assess", "settle"]
    assert first.messages[0].text.startswith("Compare the photo")


def test_models_get_the_end_of_a_long_conversation_and_calls_with_their_results(desk, models):
    run = record(graph, claim(LIMIT, TALK), deps=desk, models=models)

    assert_run(run).completed()
    assert len(run.state.messages) == 810
    for request in [*models["reception"].calls, *models["assessor"].calls]:
        assert len(request.messages) < 40
        assert "[Summary of the first " in request.messages[1].text
        calls = [call.id for message in request.messages for call in getattr(message, "tool_calls", ())]
        results = [message.tool_call_id for message in request.messages if message.role == "tool"]
        assert calls == results


def test_conversation_of_200_turns_is_summarised_once_and_stays_complete(desk, models):
    """Each turn is a run; a summary is stored with the conversation, and only later messages are summarised later."""
    models["reception"] = FunctionModel(
        receive, profile=ModelProfile(name="counted", count_tokens=lambda asked: 100 * len(asked.messages))
    )
    with Runtime(graph, store="memory:", deps=desk, models=models) as runtime:
        for number in range(200):
            result = runtime.run(said(f"My cat is {number} days old."), thread="t")

    assert [message.text for message in result.state.messages[::2]] == [f"My cat is {n} days old." for n in range(200)]
    assert max(len(request.messages) for request in models["reception"].calls) == 160
    parts = [request.text for request in models["reception-summary"].calls]
    assert [text.count("user: My cat is 0 days old.") for text in parts] == [1, 0, 0, 0]
    assert len(set(parts)) == 4


# -------------------------------------------------------------------------------------------------------- what is remembered


def test_customer_is_remembered_in_another_conversation_and_hidden_from_others(desk, models):
    with Runtime(graph, store="memory:", deps=desk, models=models) as runtime:
        runtime.run(claim(LIMIT), thread="2026")
        runtime.run(said("I have moved to Bergen."), thread="2026")
        ann = runtime.run(said("What do you know about me?"), thread="2027")
        bob = runtime.run(said("What do you know about me?", customer="bob"), thread="bob")

    assert ann.state.messages[-1].text == "town: lives in Bergen\nclaim receipt 1: 500 euros for: a cracked screen"
    assert bob.state.messages[-1].text == "Nothing was remembered about that."


# ------------------------------------------------------------------------------------------------------------- what it costs


def metered(models):
    """The models with different usage for each call, and a list that collects it."""
    meter = []

    def model(double):
        async def reply(request):
            meter.append(Usage(input_tokens=1_000 + len(meter), output_tokens=50, calls=1))
            used = meter[-1]
            said = await double.invoke(request)
            return AgentReply(text=said.text, tool_calls=said.tool_calls, usage=used)

        return FunctionModel(reply)

    return {name: model(double) for name, double in models.items()}, meter


def test_usage_is_the_sum_of_all_calls_with_pictures_handoffs_and_summaries(desk, models):
    doubles, meter = metered(models)
    run = record(graph, claim(LIMIT, TALK), deps=desk, models=doubles)

    assert_run(run).completed()
    assert [len(doubles[name].calls) > 0 for name in ("reception", "assessor", "reception-summary")] == [True] * 3
    assert run.usage == sum(meter, Usage())
    assert [event.usage for event in run.events if isinstance(event, ModelReplied)] == meter


def test_budget_of_exactly_the_needed_calls_is_enough_and_one_less_is_not(desk, models):
    needed = record(graph, claim(LIMIT, TALK), deps=Desk(FILES), models=offline()).usage.calls

    with Runtime(graph, store="memory:", deps=desk, models=models, budget=Budget(calls=needed)) as runtime:
        assert runtime.run(claim(LIMIT, TALK), thread="t").usage.calls == needed
    with Runtime(graph, store="memory:", deps=desk, models=models, budget=Budget(calls=needed - 1)) as runtime:
        with pytest.raises(BudgetExceededError):
            runtime.run(claim(LIMIT, TALK), thread="t")
        assert sum(isinstance(entry.event, ModelReplied) for entry in runtime.entries("t")) == needed - 1
    assert desk.paid == [("ann", LIMIT)]


# ------------------------------------------------------------------------------------------------------------- that it lasts


LONG = [UserMessage(text="x" * 20_000), AssistantMessage(text="How nice!")]


@pytest.mark.parametrize("talk", [[], LONG], ids=["short", "summarised"])
def test_process_that_dies_anywhere_pays_once_and_ends_with_the_same_memory_and_usage(talk):
    found = explore_crashes(
        graph,
        claim(LIMIT + 1, talk),
        options=lambda: {"deps": Desk(FILES), "models": offline()},
        answers=[True],
        once=lambda desk: desk.paid,
    )
    assert found.check().tried > 30
