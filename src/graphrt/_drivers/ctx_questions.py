"""`ctx.interrupt`, `ctx.sleep` and `ctx.answer`: questions of people and of the clock, and when they answer themselves.

Which earlier question and which answer belong to a call is decided in `_engine.questions`. Here are the parts that need
the services of the run: its clock, which is read when a question is asked for the first time and never again.

A node pauses by asking a *question*, which is kept on its task as an `OpenInterrupt`. When an answer has arrived, the
node runs again from its start, and the same call returns the answer. A question may *expire*: at a moment it answers
itself, by a default or by an error. `ctx.sleep` is a question of the kind `timer`, which only expires (R23).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple, final

from graphrt._drivers.run_services import RunServices
from graphrt._due_times import expiry
from graphrt._engine.open_interrupt import BY_EXPIRY, OpenInterrupt
from graphrt._engine.outcome import answer_type as described_answer
from graphrt._engine.outcome import checked_default
from graphrt._engine.questions import ask
from graphrt._engine.storability import check_storable
from graphrt._engine.task import Task
from graphrt._plan.fields import own
from graphrt._plan.quoting import short
from graphrt.commands import UNSET, check_default, check_expiry
from graphrt.errors._codes.timers import QUESTION_EXPIRED


class Expiry(NamedTuple):
    """When a question answers itself, and with what."""

    due_s: Callable[[], float] | None
    """Returns the moment, in seconds since the epoch; called if the question is new. None: it waits for ever."""
    default: Any = UNSET
    """The answer that it gives itself; UNSET if the node gets an error instead (or a timer just returns)."""


NEVER: Final = Expiry(None)
"""The expiry of a question that waits for ever."""


def checked_expiry(services: RunServices, expires_s: Any, expires_at: Any, default: Any) -> Expiry:
    """Return the arguments `expires_s`, `expires_at` and `default` of `ctx.interrupt`, not yet checked, as an `Expiry`.

    Raises:
        InputError: One of them is wrong, or they do not go together.
    """
    check_expiry(expires_s)
    at = expiry(expires_s, expires_at)  # *expires_at* in seconds since the epoch; None if it is None
    check_default(default, expires_s if at is None else at)
    if at is not None:
        return Expiry(lambda: at, default)
    return NEVER if expires_s is None else Expiry(lambda: services.clock() + expires_s, default)


def answered(
    task: Task, name: str, payload: Any, answer_type: Any, when: Expiry, *, keyed: bool, kind: str
) -> OpenInterrupt | None:
    """Return the answered question that *task* asks again; None if the task has to wait for an answer.

    If it has to wait, the question is on the task afterwards, and the context raises `Suspended`.

    Args:
        name: Key of the question inside the task: the user's key, or the ordinal of the call.
        payload: What to show to the person who answers.
        answer_type: Type that the answer must have, as the user passed it; None takes any answer.
        keyed: Whether *name* alone identifies the question. If not, an earlier question matches only if its payload is
            equal too.
        kind: What answers it: `question` for a person, `timer`, `signal`, `thread` or `effect`.

    Raises:
        UpdateError: The payload or the default cannot be stored.
        InputError: The default does not fit the *answer_type*.
    """
    engine = task.engine
    if engine.thread is None:
        return None  # the engine refuses the pause: without a thread no answer could arrive
    payload = check_storable(engine, task, payload, "asks with a payload")
    described = described_answer(engine, task, answer_type)  # as plain data, which can be stored
    default = checked_default(engine, task, when.default, described)  # UNSET stays UNSET
    known = len(task.more().interrupts)
    # The question that matches, with its answer or open; else a new one, appended to the task's.
    question = ask(engine, task, name, payload, described, keyed=keyed, kind=kind)
    if question.answered:
        return question
    if len(task.more().interrupts) > known and when.due_s is not None:  # asked now for the first time
        question.expires_at, question.default = when.due_s(), default
    return None


def answer_to(task: Task, question: OpenInterrupt) -> Any:
    """Return the answer to *question* as a copy, which the node may change while the recorded one stays (R15).

    Raises:
        QuestionExpiredError: It was not answered in time, and has no default.
    """
    # `by` names what answered the question. BY_EXPIRY means that it expired without a default.
    if question.by == BY_EXPIRY:
        where = task.engine.where(task)
        raise QUESTION_EXPIRED(interrupt=question.id, asker=question.node, payload=short(question.payload), where=where)
    return own(question.answer)


@final
class Slept:
    """The result of `ctx.sleep`. Awaiting it returns at once, so async nodes may write `await ctx.sleep(...)`."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        """Return at once."""
        return
        yield  # never reached: makes this a generator, which `__await__` has to return


SLEPT: Final = Slept()
"""The only instance."""
