"""Invalid calls: each raises a typed, helpful error and changes nothing, and the next valid call works."""

from __future__ import annotations

import asyncio

import pytest

from graphrt import Runtime
from graphrt.errors import GraphrtError, InputError, StoreError
from graphrt.stores import open_store

from .support import ask, line, note, refused

IDS = {
    "empty": ("", "empty"),
    "blank": (" ", "begins with"),
    "a space inside": ("a b", "' '"),
    "a path": ("../../etc/passwd", "begins with '.'"),
    "a slash": ("a/b", "'/'"),
    "a backslash": ("a\\b", "character 2"),
    "10,000 characters": ("x" * 10_000, "10,000 characters"),
    "a null": ("a\x00b", "character 2"),
    "a newline": ("a\n", "character 2"),
    "a lone surrogate": ("\ud800", "begins with"),
    "not ASCII": ("żółw", "begins with"),
    "a quote": ("a';DROP TABLE thread;--", "character 2"),
    "a dash first": ("-rf", "begins with '-'"),
    "a number": (7, "int"),
    "bytes": (b"t", "bytes"),
    "a list": (["t"], "list"),
    "a bool": (True, "bool"),
}


@pytest.mark.parametrize("name", IDS)
def test_invalid_ids_are_refused_by_every_verb(world, name):
    bad, word = IDS[name]
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    for call in (
        lambda: runtime.run({"notes": []}, thread=bad),
        lambda: list(runtime.steps({"notes": []}, thread=bad)),
        lambda: list(runtime.stream({"notes": []}, thread=bad)),
        lambda: runtime.resume(bad, 1),
        lambda: runtime.retry(bad),
        lambda: runtime.state(bad),
        lambda: runtime.history(bad),
        lambda: list(runtime.entries(bad)),
        lambda: runtime.replay(bad),
        lambda: runtime.diff("t", bad),
        lambda: runtime.diff(bad, "t"),
        lambda: runtime.update(bad, {}),
        lambda: runtime.bulk_update(bad, []),
        lambda: runtime.fork(bad),
        lambda: runtime.fork("t", to=bad),
        lambda: runtime.copy_thread(bad),
        lambda: runtime.copy_thread("t", bad),
        lambda: runtime.delete_thread(bad),
        lambda: runtime.prune(bad),
    ):
        error = refused("bad-thread", call, word, error=InputError)
        assert len(str(error)) < 1_000
    assert [info.thread for info in runtime.threads()] == ["t"]
    assert runtime.run({"notes": []}, thread="t").status == "completed"


@pytest.mark.parametrize("good", ["t", "a.b", "user@host:5", "x=1+2-3", "0", "_", "A" * 200, "a..b"])
def test_valid_ids_work(durable, good):
    runtime = durable.runtime(line(("q", ask("q"))))
    runtime.run({"notes": []}, thread=good)

    assert runtime.resume(good, "yes").status == "completed"
    assert [info.thread for info in runtime.threads()] == [good]


def test_ids_that_differ_in_case_are_two_threads(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": ["1"]}, thread="Thread")
    runtime.run({"notes": ["2"]}, thread="thread")

    assert runtime.state("Thread").values["notes"] == ["1", "a"]
    assert runtime.state("thread").values["notes"] == ["2", "a"]


def test_error_about_an_unknown_thread_names_no_other_thread(world):
    """The reader of an error may not be allowed to see the other threads."""
    runtime = world.runtime(line(("a", note("a"))))
    refused("unknown-thread", lambda: runtime.state("order-1"), "'order-1'", error=InputError)
    runtime.run({"notes": []}, thread="order-17")

    for verb in (runtime.state, runtime.history, runtime.resume, runtime.retry, runtime.replay, runtime.prune):
        error = refused("unknown-thread", lambda verb=verb: verb("order-71"), "'order-71'", error=InputError)
        assert error.thread == "order-71"
        assert "order-17" not in f"{error} {vars(error)}"
    assert [info.thread for info in runtime.threads()] == ["order-17"]


def test_thread_verbs_without_a_store_raise():
    runtime = Runtime(line(("a", note("a"))))
    for call in (
        lambda: runtime.run({"notes": []}, thread="t"),
        lambda: runtime.resume("t", 1),
        lambda: runtime.retry("t"),
        lambda: runtime.state("t"),
        lambda: runtime.history("t"),
        lambda: list(runtime.entries("t")),
        lambda: runtime.replay("t"),
        lambda: runtime.diff("t", "u"),
        lambda: runtime.update("t", {}),
        lambda: runtime.fork("t"),
        runtime.threads,
        lambda: runtime.copy_thread("t"),
        lambda: runtime.delete_thread("t"),
        lambda: runtime.prune("t"),
        lambda: runtime.sweep(older_than_s=1),
        runtime.check_threads,
    ):
        refused("thread-without-store", call, "store", 'store="', error=InputError)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"store": "sqlite"}, "unknown-store", ["'sqlite'", "sqlite:///"]),
        ({"store": "mysql://x"}, "unknown-store", ["mysql", "sqlite"]),
        ({"store": "sqlite://runs.db"}, "unknown-store", ["sqlite:///"]),
        ({"store": ""}, "unknown-store", ["sqlite:///"]),
        ({"store": "runs.db"}, "unknown-store", ["runs.db", "sqlite:///"]),
        ({"store": {}}, "input", ["dict", "sqlite:///"]),
        ({"store": 5}, "input", ["int"]),
        ({"lease_s": 0}, "input", ["0"]),
        ({"lease_s": "30"}, "input", ["'30'"]),
        ({"lease_s": float("nan")}, "input", ["nan"]),
        ({"migrations": ["abc"]}, "input", ["'abc'", "Migration"]),
        ({"migrations": 5}, "input", ["5", "Migration"]),
    ],
)
def test_invalid_options_are_refused_at_once(tmp_path, monkeypatch, options, code, words):
    monkeypatch.chdir(tmp_path)

    refused(code, lambda: Runtime(line(("a", note("a"))), **options), *words, error=InputError)
    assert list(tmp_path.iterdir()) == []


def test_class_instead_of_a_store_is_refused():
    from graphrt.stores import MemoryStore

    refused("input", lambda: Runtime(line(("a", note("a"))), store=MemoryStore), "MemoryStore", error=InputError)


@pytest.mark.parametrize("face", ["sync", "async"])
def test_closed_store_raises_a_typed_error(tmp_path, face):
    store = open_store(f"sqlite:///{tmp_path}/runs.db")
    runtime = Runtime(line(("a", note("a"))), store=store)
    runtime.run({"notes": []}, thread="t")
    store.close()

    def call():
        if face == "sync":
            return runtime.state("t")
        return asyncio.run(runtime.arun({"notes": []}, thread="t"))

    refused("store-closed", call, "closed", error=StoreError)


@pytest.mark.parametrize("given", [None, 5, "text", [("notes", [])], object()])
def test_inputs_that_do_not_match_the_state_are_refused(world, given):
    runtime = world.runtime(line(("a", note("a"))))
    with pytest.raises(InputError):
        runtime.run(given, thread="t")
    assert runtime.threads() == ()
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t").seq

    with pytest.raises(InputError) as caught:
        runtime.run(given, thread="t")
    assert "mapping" in str(caught.value)
    assert runtime.state("t").seq == before
    assert runtime.run({"notes": []}, thread="t").status == "completed"


def test_updates_that_are_not_pairs_are_refused(world):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    before = runtime.state("t").seq
    for updates in ([{"notes": ["x"]}], [1], 5, [({}, None, None)], {"notes": ["x"]}):
        with pytest.raises(GraphrtError) as caught:
            runtime.bulk_update("t", updates)
        assert caught.value.code == "bad-input"
        assert "as_node" in str(caught.value)
    assert runtime.state("t").seq == before


@pytest.mark.parametrize("older_than_s", [-1, "1 day", None, float("nan"), True])
def test_sweep_refuses_invalid_ages(world, older_than_s):
    """A negative or missing age would delete everything."""
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")

    refused("input", lambda: runtime.sweep(older_than_s=older_than_s), "older_than_s", error=InputError)
    assert len(runtime.threads()) == 1


@pytest.mark.parametrize(
    "filters", [{"graph": 5}, {"prefix": 5}, {"prefix": b"t"}, {"updated_before": "1"}, {"updated_before": True}]
)
def test_filters_that_match_no_thread_by_type_are_refused(world, filters):
    runtime = world.runtime(line(("a", note("a"))))
    runtime.run({"notes": []}, thread="t")
    (name, value) = next(iter(filters.items()))

    refused("input", lambda: runtime.threads(**filters), f"{name}=", repr(value), error=InputError)
    refused("input", lambda: asyncio.run(runtime.athreads(**filters)), f"{name}=", error=InputError)
    assert [one.thread for one in runtime.threads(graph=None, prefix="t", updated_before=10**12)] == ["t"]


@pytest.mark.parametrize("modes", [5, None, b"updates", ["values", 5], [["values"]]])
def test_unknown_stream_modes_are_refused(world, modes):
    runtime = world.runtime(line(("a", note("a"))))

    refused("input", lambda: list(runtime.stream({"notes": []}, modes=modes)), "'updates'", error=InputError)


@pytest.mark.parametrize("told", ["12:30", None, b"1", True, 1j])
def test_clock_that_does_not_return_a_number_is_refused_by_name(world, told):
    runtime = world.runtime(line(("a", note("a"))), clock=lambda: told)

    with pytest.raises(InputError, match="time that the clock returned cannot be") as caught:
        runtime.run({"notes": []}, thread="t")
    assert repr(told) in str(caught.value)
    assert runtime.threads() == ()
    with pytest.raises(InputError, match="time that the clock returned cannot be"):
        runtime.sweep(older_than_s=1)


@pytest.mark.parametrize("clock", [5, "now", float])
def test_clock_that_is_not_callable_is_refused(clock):
    refused("input", lambda: Runtime(line(("a", note("a"))), clock=clock), "time.time", error=InputError)


@pytest.mark.parametrize("key", [5, b"k", ("k",)])
def test_key_of_a_question_that_is_not_a_string_is_refused(world, key):
    runtime = world.runtime(line(("q", lambda state, ctx: {"notes": [ctx.interrupt("Really?", key=key)]})))

    error = refused("input", lambda: runtime.run({"notes": []}, thread="t"), "key=", repr(key))
    assert isinstance(error, InputError)
    assert runtime.state("t").status == "failed"
