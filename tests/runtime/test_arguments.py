"""The arguments of a Runtime are validated when it is created."""

from __future__ import annotations

import enum
import inspect
from pathlib import Path
from typing import Any

import pytest

from graphrt import Runtime, TokenTracker
from graphrt._runs.run_config import configure
from graphrt.errors import InputError, brief
from graphrt.harness import ScriptedModel
from graphrt.harness.litellm._model import LiteLLMModel
from graphrt.runtime import RuntimeOptions

from .support import note, sequence


@pytest.mark.parametrize(
    ("sinks", "told"),
    [
        (TokenTracker(), ("a TokenTracker stands alone", "sinks=[tracker]")),
        (TokenTracker, ("the class TokenTracker", "sinks=[TokenTracker()]")),
        ([TokenTracker], ("the class TokenTracker", "sinks=[TokenTracker()]")),
        ([print, 5], ("an int", "cannot be called")),
        (print, ("stands alone",)),
        ("entries", ("a str", "cannot be called")),
    ],
)
def test_sinks_that_cannot_take_entries_are_refused(sinks: Any, told: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        Runtime(sequence(("a", note("a"))), sinks=sinks)

    assert caught.value.code == "input"
    assert [word for word in told if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"chain": "yes"}, "True or False"),
        ({"check_state": 1}, "True or False"),
        ({"stream_models": "no"}, "True or False"),
        ({"ids": "run-1"}, "a function that returns another id"),
        ({"ids": str}, "a function that returns another id"),
    ],
)
def test_flags_and_ids_of_another_type_are_refused(options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))}= cannot be") as caught:
        Runtime(sequence(("a", note("a"))), **options)

    assert (caught.value.code, wanted in caught.value.fix) == ("input", True)


def test_arguments_of_verbs_are_no_options() -> None:
    graph = sequence(("a", note("a")))
    for call in (
        lambda: Runtime(graph, store="memory:", thread="t"),
        lambda: graph.steps({}, store="memory:", thread="t"),
        lambda: graph.stream({}, store="memory:", thread="t"),
    ):
        with pytest.raises(InputError, match="thread= is not an option") as caught:
            call()
        assert "stream(input, thread=...)" in caught.value.fix


def test_id_that_a_runtime_makes_is_that_of_a_new_thread() -> None:
    """A generator of ids that begins anew in each process does not run on the threads of the last one."""
    with Runtime(sequence(("a", note("a"))), store="memory:", ids=lambda: "run-1") as runtime:
        runtime.run({})
        with pytest.raises(InputError, match="ids= made the id 'run-1'") as caught:
            runtime.run({})
        assert caught.value.code == "thread-exists"
        assert runtime.state("run-1").seq == 4
        runtime.run({}, thread="run-1")


@pytest.mark.parametrize("collection", [list, tuple, iter])
def test_sinks_in_any_collection_get_the_entries(collection: Any) -> None:
    seen: list[Any] = []
    Runtime(sequence(("a", note("a"))), sinks=collection([seen.append, TokenTracker()])).run({})

    assert seen


@pytest.mark.parametrize("model", [LiteLLMModel("openai/x"), ScriptedModel(["x"])])
def test_model_instead_of_a_harness_is_refused_with_the_name_of_its_agent(model: Any) -> None:
    with pytest.raises(InputError, match=r"Agent\(model\)") as caught:
        Runtime(sequence(("a", note("a"))), harness=model)

    assert caught.value.code == "bad-harness"
    assert "invoke()" in str(caught.value)


def test_runtimes_and_graphs_take_the_same_options_with_the_same_defaults() -> None:
    of_runtime, of_graph = (dict(inspect.signature(it).parameters) for it in (Runtime, configure))
    assert of_runtime.pop("graph").kind is of_graph.pop("graph").kind

    assert {name: it.default for name, it in of_runtime.items()} == {name: it.default for name, it in of_graph.items()}
    assert set(of_runtime) == set(RuntimeOptions.__annotations__)


@pytest.mark.parametrize(
    "wrong",
    [{"budget": 3}, {"harness": object()}, {"sinks": [3]}, {"worker_threads": 0}],
    ids=lambda it: next(iter(it)),
)
def test_store_is_not_opened_if_another_argument_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    graph = sequence(("a", note("x")))

    with pytest.raises(InputError):
        Runtime(graph, store=f"sqlite:///{tmp_path}/runs.db", **wrong)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", ["1", 1.0, True, 2**64, -(2**63) - 1, 10**5000], ids=brief)
def test_seed_has_to_fit_into_a_journal(seed: Any) -> None:
    with pytest.raises(InputError) as caught:
        Runtime(sequence(("a", note("x"))), seed=seed)

    assert caught.value.code == "input"
    assert "seed=" in str(caught.value)


class Few(enum.IntEnum):
    TWO = 2


def test_number_may_be_an_int_subclass_but_not_a_bool() -> None:
    runtime = Runtime(sequence(("a", note("a"))), store="memory:", worker_threads=Few.TWO)
    assert runtime.worker_threads == 2
    assert list(runtime.threads(limit=Few.TWO)) == []

    for wrong in (True, 2.0, "2"):
        with pytest.raises(InputError) as caught:
            Runtime(runtime.graph, worker_threads=wrong)  # type: ignore[arg-type]
        assert caught.value.code == "input"
        assert f"worker_threads= cannot be {wrong!r}." in str(caught.value)
