"""Retries of a node: their number, their delay, and the retried errors (decision 0012; no test waits for a clock)."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import DefinitionError, HarnessError, NodeError, RetryPolicy, Runtime, UpdateError
from graphrt.errors import AuthenticationError, BadRequestError, RateLimitError, TransientModelError

from .support import Face, as_kind, get, note, parallel, sequence

AT_ONCE: dict[str, Any] = {"wait_initial_s": 0.0}


class StatusError(Exception):
    """An error like that of an HTTP client."""

    def __init__(self, status: int, **data: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.__dict__.update(data)


class AnsweredError(Exception):
    """An error of a client that keeps the status on its response."""

    def __init__(self, status: int, headers: Any = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = type("Response", (), {"status_code": status, "headers": headers or {}})()


def flaky(errors: list[Exception], seen: list[int]) -> Any:
    """A node that raises each of *errors* once and then succeeds; *seen* collects the attempts."""
    left = list(errors)

    def node(state: Any, ctx: Any) -> Any:
        seen.append(ctx.attempt)
        if left:
            raise left.pop(0)
        return {"notes": ["done"]}

    return node


@pytest.mark.parametrize("beside", [False, True])
def test_a_failed_attempt_is_repeated_until_the_attempts_are_used_up(face: Face, made: Any, beside: bool) -> None:
    seen: list[int] = []
    node = made(flaky([ConnectionError("1"), ConnectionError("2")], seen))
    others = [("other", note("other"))] if beside else []
    graph = parallel(("node", node), *others, node={"retry": RetryPolicy(3, **AT_ONCE)})

    state = face.run(graph, {}).state

    assert get(state, "notes") == ["done", *(name for name, _ in others)]
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("beside", [False, True])
def test_the_last_error_is_raised_with_the_number_of_attempts(face: Face, made: Any, beside: bool) -> None:
    seen: list[int] = []
    last = ConnectionError("3")
    node = made(flaky([ConnectionError("1"), ConnectionError("2"), last], seen))
    others = [("other", note("other"))] if beside else []
    graph = parallel(("node", node), *others, node={"retry": RetryPolicy(3, **AT_ONCE)})

    with pytest.raises(NodeError) as caught:
        face.run(graph, {})

    assert seen == [1, 2, 3]
    assert caught.value.__cause__ is last
    assert "3 attempts" in str(caught.value)


def test_int_as_retry_is_a_policy(face: Face) -> None:
    with pytest.raises(NodeError):
        face.run(sequence(("node", flaky([ConnectionError("1")], [])), node={"retry": 1}), {})


def test_without_a_policy_nothing_is_retried(face: Face) -> None:
    seen: list[int] = []
    with pytest.raises(NodeError):
        face.run(sequence(("node", flaky([ConnectionError()], seen))), {})
    assert seen == [1]


PASSING = [
    ConnectionError(),
    ConnectionResetError(),
    TimeoutError(),
    OSError("network"),
    RuntimeError("odd"),
    *[StatusError(code) for code in (408, 409, 425, 429, 500, 502, 503, 504, 529)],
    AnsweredError(429),
    AnsweredError(500),
    RateLimitError("busy"),
    TransientModelError("down"),
    ExceptionGroup("all pass", [ConnectionError(), StatusError(503)]),
]
HOPELESS = [
    ValueError(),
    TypeError(),
    KeyError("k"),
    AttributeError(),
    ZeroDivisionError(),
    NotImplementedError(),
    FileNotFoundError(),
    PermissionError(),
    AssertionError(),
    *[StatusError(code) for code in (400, 401, 403, 404, 410, 422)],
    AnsweredError(400),
    AnsweredError(404),
    AuthenticationError("key"),
    BadRequestError("no"),
    HarnessError("unknown"),
    ExceptionGroup("one does not", [ConnectionError(), ValueError()]),
]


def name_of(error: Exception) -> str:
    return f"{type(error).__name__}({error})"


@pytest.mark.parametrize("error", PASSING, ids=name_of)
def test_transient_errors_are_retried_by_default(face: Face, error: Exception) -> None:
    seen: list[int] = []
    graph = sequence(("node", flaky([error], seen)), node={"retry": RetryPolicy(2, **AT_ONCE)})

    face.run(graph, {})

    assert seen == [1, 2]


@pytest.mark.parametrize("error", HOPELESS, ids=name_of)
def test_permanent_errors_are_not_retried_by_default(face: Face, error: Exception) -> None:
    seen: list[int] = []
    graph = sequence(("node", flaky([error], seen)), node={"retry": RetryPolicy(2, **AT_ONCE)})

    with pytest.raises((NodeError, HarnessError)):
        face.run(graph, {})

    assert seen == [1]


@pytest.mark.parametrize(
    ("retry_on", "retried"),
    [
        (ValueError, True),
        (LookupError, False),
        ((LookupError, ValueError), True),
        (lambda e: "yes" in str(e), True),
        (lambda e: "no" in str(e), False),
    ],
)
def test_retry_on_selects_the_retried_errors(face: Face, retry_on: Any, retried: bool) -> None:
    seen: list[int] = []
    policy = RetryPolicy(2, retry_on=retry_on, **AT_ONCE)
    graph = sequence(("node", flaky([ValueError("yes")], seen)), node={"retry": policy})

    if retried:
        face.run(graph, {})
    else:
        with pytest.raises(NodeError):
            face.run(graph, {})

    assert seen == ([1, 2] if retried else [1])


def test_a_predicate_that_raises_counts_as_no_and_is_noted_on_the_error(face: Face) -> None:
    def broken(error: Exception) -> bool:
        raise KeyError("oops")

    error = ConnectionError("lost")
    graph = sequence(("node", flaky([error], [])), node={"retry": RetryPolicy(2, retry_on=broken, **AT_ONCE)})

    with pytest.raises(NodeError) as caught:
        face.run(graph, {})

    assert caught.value.__cause__ is error
    assert any("oops" in text for text in error.__notes__)


def waits(face: Face, policy: RetryPolicy, errors: list[Exception], **options: Any) -> list[float]:
    """The waits before each further attempt, read from the journal."""
    entries: list[Any] = []
    graph = sequence(("node", flaky(errors, [])), node={"retry": policy})
    face.run(Runtime(graph, sinks=[entries.append], **options), {})
    return [entry.event.delay_s for entry in entries if type(entry.event).__name__ == "TaskRetried"]


def test_jitter_is_derived_and_equal_in_every_run(face: Face) -> None:
    policy = RetryPolicy(4, wait_initial_s=0.002, wait_max_s=0.004)
    errors: list[Exception] = [ConnectionError(), ConnectionError(), ConnectionError()]

    first, second = waits(face, policy, errors, seed=1), waits(face, policy, errors, seed=2)

    assert first == second
    assert len(set(first)) == 3
    assert all(0 <= wait <= bound for wait, bound in zip(first, (0.002, 0.004, 0.004), strict=True))


def test_without_jitter_the_wait_equals_the_bound(face: Face) -> None:
    policy = RetryPolicy(4, wait_initial_s=0.001, wait_max_s=0.003, jitter=False)

    assert waits(face, policy, [ConnectionError()] * 3) == [0.001, 0.002, 0.003]


@pytest.mark.parametrize(
    "error",
    [
        StatusError(429, retry_after_s=0.003),
        StatusError(429, retry_after=0.003),
        AnsweredError(503, {"retry-after": "0.003"}),
        AnsweredError(503, {"Retry-After": "0.003"}),
        RateLimitError("busy", retry_after_s=0.003),
    ],
    ids=name_of,
)
def test_retry_after_of_the_server_is_respected(face: Face, error: Exception) -> None:
    assert waits(face, RetryPolicy(2, wait_initial_s=0.0), [error]) == [0.003]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    ("policy", "asked", "said"),
    [
        (RetryPolicy(2, **AT_ONCE), 120.5, "it asks to wait 120.5 s, and the retry policy waits at most 120 s"),
        (RetryPolicy(2, wait_max_s=0.001), 0.002, "0.002 s"),
        (RetryPolicy(2, wait_max_s=3600, **AT_ONCE), 3600.5, "at most 3600 s"),
        (RetryPolicy(2, **AT_ONCE), 3e7, "30000000 s"),
        (RetryPolicy(2, **AT_ONCE), 86_400 * 365 * 2, "63072000 s"),
        (RetryPolicy(2, **AT_ONCE), float("inf"), "inf s"),
        (RetryPolicy(2, **AT_ONCE), "1e999", "inf s"),
        (RetryPolicy(2, **AT_ONCE), 10**400, "inf s"),
    ],
)
def test_node_fails_at_once_if_retry_after_exceeds_its_policy(
    face: Face, policy: RetryPolicy, asked: Any, said: str, beside: bool
) -> None:
    seen: list[int] = []
    others = [("other", note("other"))] if beside else []
    graph = parallel(("node", flaky([StatusError(429, retry_after=asked)], seen)), *others, node={"retry": policy})

    with pytest.raises(NodeError) as caught:
        face.run(graph, {})

    assert seen == [1]
    assert said in caught.value.what
    assert "wait_max_s" in str(caught.value)


@pytest.mark.parametrize(
    "hint", ["soon", "Wed, 21 Oct 2026 07:28:00 GMT", -1, -(10**400), float("nan"), True], ids=repr
)
def test_invalid_retry_after_is_ignored(face: Face, hint: Any) -> None:
    assert waits(face, RetryPolicy(2, **AT_ONCE), [StatusError(429, retry_after=hint)]) == [0.0]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_bad_update_is_not_retried_unless_asked(face: Face, kind: str) -> None:
    seen: list[int] = []

    def node(state: Any, ctx: Any) -> Any:
        seen.append(ctx.attempt)
        return {"nope": 1}

    for policy, attempts in (
        (RetryPolicy(3, **AT_ONCE), [1]),
        (RetryPolicy(2, retry_on=UpdateError, **AT_ONCE), [1, 2]),
    ):
        seen.clear()
        with pytest.raises(UpdateError):
            face.run(sequence(("node", as_kind(kind, node)), node={"retry": policy}), {})
        assert seen == attempts


def test_retry_of_the_thread_grants_all_attempts_again(face: Face) -> None:
    seen: list[int] = []
    errors: list[Exception] = [ConnectionError()] * 3
    runtime = Runtime(
        sequence(("node", flaky(errors, seen)), node={"retry": RetryPolicy(2, **AT_ONCE)}), store="memory:"
    )
    with pytest.raises(NodeError):
        face.run(runtime, {}, thread="t")

    result = face.retry(runtime, "t")

    assert get(result.state, "notes") == ["done"]
    assert seen == [1, 2, 1, 2]


def test_random_numbers_and_idempotency_key_are_the_same_at_every_attempt(face: Face, made: Any) -> None:
    seen: list[Any] = []

    def node(state: Any, ctx: Any) -> Any:
        seen.append((ctx.random.random(), ctx.idempotency_key, ctx.task_id))
        if len(seen) < 3:
            raise ConnectionError
        return None

    face.run(sequence(("node", made(node)), node={"retry": RetryPolicy(3, **AT_ONCE)}), {})

    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.parametrize(
    "policy", [RetryPolicy(0), RetryPolicy(2, growth=0.5), RetryPolicy(2, wait_max_s=-1), "often", True], ids=repr
)
def test_invalid_policy_is_refused_by_compile(policy: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        sequence(("node", note("x")), node={"retry": policy})

    assert {problem.code for problem in caught.value.problems} <= {"bad-policy", "bad-limit"}
    assert "node" in str(caught.value)
