"""`Secret`: where it is shown, how it is revealed, and its form after a restart."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from graphrt import START, Context, GraphBuilder, GraphrtError, Runtime
from graphrt.audit import Secret
from graphrt.errors import InputError, NodeError, UpdateError


class Holder(BaseModel):
    name: str = "n"
    token: Secret[str] | None = None
    number: Secret[int] | None = None
    deep: list[dict[str, Secret[str]]] = []


def test_only_reveal_shows_the_value() -> None:
    secret = Secret("canary")

    assert [repr(secret), str(secret), f"{secret}", f"{secret:>12}", "%s" % secret] == [  # noqa: UP031
        "Secret(***)",
        "Secret(***)",
        "Secret(***)",
        " Secret(***)",
        "Secret(***)",
    ]
    assert secret.reveal() == "canary"
    assert secret.known
    assert copy.deepcopy(secret) is secret
    assert not hasattr(secret, "__dict__")


def test_secrets_are_equal_by_value_and_have_no_hash() -> None:
    assert Secret("ä") == Secret("ä") != Secret("b")
    assert Secret(b"a") == Secret(b"a") != Secret("a")
    assert Secret(1) == Secret(1)
    assert Secret("a") != "a"
    with pytest.raises(TypeError):
        hash(Secret("a"))


def test_secret_cannot_be_pickled_or_nested() -> None:
    with pytest.raises(InputError) as pickled:
        pickle.dumps(Secret("canary"))
    with pytest.raises(InputError) as nested:
        Secret(Secret("canary"))

    assert (pickled.value.code, nested.value.code) == ("secret-pickled", "input")
    assert "canary" not in str(pickled.value) + str(nested.value)


def test_pydantic_validates_the_value_and_masks_json() -> None:
    made = Holder.model_validate({"token": "canary", "number": Secret("7"), "deep": [{"a": Secret("canary")}]})

    assert made.token == Secret("canary")
    assert made.number == Secret(7)
    assert "canary" not in made.model_dump_json() + repr(made) + json.dumps(made.model_dump(mode="json"))
    assert made.model_dump()["token"] == Secret("canary")


def work(state: Holder, ctx: Context) -> Any:
    told = ctx.interrupt("go on?", key="go")
    return {"name": f"{told} {state.token.reveal() == 'canary' if state.token else None}"}


def graph(node: Any = work) -> Any:
    g = GraphBuilder(Holder, name="secrets")
    g.add_node("work", node)
    g.add_edge(START, "work")
    return g.compile()


def given() -> dict[str, Any]:
    return {"token": Secret("canary"), "deep": [{"a": Secret("canary")}]}


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_secret_is_absent_after_a_restart(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(graph(), store=store) as first:
        first.run(given(), thread="t")
        assert b"canary" not in files(tmp_path)
    with Runtime(graph(), store=store) as second, pytest.raises(NodeError) as caught:
        second.resume("t", "yes")

    cause = caught.value.__cause__
    assert isinstance(cause, InputError)
    assert (cause.code, cause.__dict__["field"]) == ("secret-absent", "token")
    assert "runtime.update(thread, {'token': Secret(...)})" in str(cause)


def test_secret_that_an_update_sets_again_is_known(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Runtime(graph(), store=store) as first:
        first.run(given(), thread="t")
    with Runtime(graph(), store=store) as second:
        second.update("t", {"token": Secret("canary")})
        result = second.resume("t", "yes")

        assert result.state.name == "yes True"
        assert not result.state.deep[0]["a"].known
    assert b"canary" not in files(tmp_path)


def test_runtime_that_received_a_secret_keeps_it_over_a_pause(tmp_path: Path) -> None:
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.run(given(), thread="t")
        result = runtime.resume("t", "yes")

    assert result.state.name == "yes True"
    assert result.state.deep[0]["a"].known


def test_replay_and_state_agree_with_a_run_that_had_a_secret(tmp_path: Path) -> None:
    with Runtime(graph(), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        runtime.run(given(), thread="t")
        runtime.resume("t", "yes")
        assert runtime.replay("t") is not None
        state = runtime.state("t").values

    assert not state.token.known
    assert state.token == Secret._absent("token")


@pytest.mark.parametrize("value", ["canary", Secret("canary")])
def test_invalid_value_is_not_quoted(tmp_path: Path, value: Any) -> None:
    with Runtime(graph(lambda state: {"number": value}), store=f"sqlite:///{tmp_path}/runs.db") as runtime:
        with pytest.raises(UpdateError) as updated:
            runtime.run({}, thread="t")
        with pytest.raises(GraphrtError) as run:
            runtime.run({"number": value}, thread="u")

    assert "canary" not in str(updated.value) + str(run.value)
    assert "does not fit its type" in str(updated.value)
    assert b"canary" not in files(tmp_path)


def test_secret_of_pydantic_is_refused_and_the_error_names_ours(tmp_path: Path) -> None:
    class Old(BaseModel):
        token: SecretStr | None = None

    g = GraphBuilder(Old, name="old")
    g.add_node("work", lambda state: None)
    g.add_edge(START, "work")
    with pytest.raises(InputError) as caught:
        Runtime(g.compile(), store=f"sqlite:///{tmp_path}/runs.db")

    assert "graphrt.audit.Secret" in str(caught.value)


def test_secret_is_an_ordinary_value_in_a_run_without_a_store() -> None:
    def use(state: Holder) -> Any:
        return {"name": state.token.reveal() if state.token else ""}

    assert graph(use).run({"token": Secret("x")}).state.name == "x"
