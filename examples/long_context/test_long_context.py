"""The answer is correct, no prompt exceeds its bound, the cost stays within its bound, and a failure is an answer too.

It has detected two bugs: a bound of calls that is too small for the log, and the text of an error that is stored as the
answer.
"""

from __future__ import annotations

import pytest

from graphrt import Runtime
from graphrt.harness import FunctionModel, ModelProfile, ToolCall
from graphrt.testing import assert_run, record

from .graph import LIMITS, graph
from .log import write_log
from .offline import QUESTION, offline


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "shop.log"
    return path, write_log(path, 300_000)


def test_release_is_found_and_every_failed_request_is_counted(log):
    path, truth = log
    models = offline()
    run = record(graph, {"log": path, "question": QUESTION}, models=models)

    wanted = f"Release {truth.release} broke the checkout; {truth.failed} of its requests failed."
    assert truth.failed > 20
    assert_run(run).completed().state("answer", wanted).visited("read")
    assert run.result.usage.calls <= LIMITS.bound().calls
    assert run.result.usage.total_tokens <= LIMITS.bound().tokens
    readers, pieces = models["recursive"].calls, models["recursive-piece"].calls
    assert all(sum(len(one.text) for one in request.messages) <= LIMITS.prompt_chars for request in readers)
    assert len(pieces) > 10


def test_log_is_in_no_entry_of_the_journal(log, tmp_path):
    path, _ = log
    with Runtime(graph, models=offline(), store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        runtime.run({"log": path, "question": QUESTION}, thread="t")
        entries = str(list(runtime.entries("t")))

    assert path.read_text(encoding="utf-8")[100_000:100_100] not in entries


def test_model_that_costs_more_than_the_bound_is_abandoned(log):
    costly = FunctionModel(lambda _: "x", profile=ModelProfile(name="costly", count_tokens=lambda _: 10**9))
    run = record(graph, {"log": log[0], "question": QUESTION}, models={**offline(), "recursive": costly})

    assert_run(run).completed().visited("read", "give_up")
    assert "does not fit the budget" in run.state.answer
    assert costly.calls == []


def test_model_that_never_answers_is_abandoned(log):
    endless = FunctionModel(lambda _: ToolCall(id="1", name="length", arguments={}))
    run = record(graph, {"log": log[0], "question": QUESTION}, models={**offline(), "recursive": endless})

    assert_run(run).completed().visited("read", "give_up")
    assert run.state.answer.startswith("No answer to")
