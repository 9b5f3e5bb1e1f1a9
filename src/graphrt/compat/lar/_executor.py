"""`GraphExecutor`: runs node objects and gives a record for each step.

It lowers the objects to a graph, drives it with a `Runtime`, and reads its steps. It makes no decisions itself.
"""

from __future__ import annotations

import asyncio
import math
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt._arguments import is_mapping
from graphrt.audit import AuditLog
from graphrt.compat.lar._functions import Outside, checked_budget
from graphrt.compat.lar._log import AuditLogger, RunLog, TokenTracker
from graphrt.compat.lar._lowering import EndlessLoopWarning, Lowering, lower
from graphrt.compat.lar._models import Models
from graphrt.compat.lar._nodes import Ask, BaseNode, HumanJuryNode, asked, has_own_execute, not_here, required, whole
from graphrt.compat.lar._offline import offline
from graphrt.compat.lar._records import CANCELLED, INTERRUPTED, SUCCESS, Recorder, outcome_of, visible
from graphrt.compat.lar._state import BUDGET, StateView, StepOfNode, apply_diff, copied, same
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT
from graphrt.errors._codes.compat import NO_STORE_TO_RESUME, NOTHING_TO_RESUME
from graphrt.events import Amounts
from graphrt.graph import CompiledGraph
from graphrt.harness import Budget, ChatModel, Ledger
from graphrt.limits import Limits
from graphrt.runtime import Runtime, Step
from graphrt.stores import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The outcome of a run."""

    run_id: str
    outcome: str
    """"success", "error", "max_steps_reached", "cancelled" if its reader stopped, or "interrupted" while a question
    waits for `executor.resume`."""
    state: dict[str, Any]
    """The state at the end. A failed step changed nothing."""
    exception: GraphrtError | None
    """The reason why the run ended early; None if it succeeded."""
    _log: RunLog = field(repr=False)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of all steps, rebuilt from the log: 0..n."""
        return self._log.records()

    def raise_for_error(self) -> RunOutcome:
        """Return the outcome itself, or raise the error that ended the run.

        Raises:
            GraphrtError: A node failed (NodeError), or a limit was reached: NodeFatigueError, StepLimitError,
                BudgetExceededError, DeadlineError.
        """
        if self.exception is not None:
            raise self.exception
        return self


@final
class _Run:
    """One run: its runtime, its log and the state after its records."""

    __slots__ = ("exception", "log", "number", "outcome", "recorder", "run_id", "runtime", "state")

    def __init__(
        self,
        run_id: str,
        runtime: Runtime[Any, Any],
        recorder: Recorder,
        log: RunLog,
        state: dict[str, Any],
        number: int,
    ) -> None:
        self.run_id: Final = run_id
        self.runtime: Final = runtime
        self.recorder: Final = recorder
        self.log: Final = log
        self.state = state
        self.number = number
        self.outcome = CANCELLED
        self.exception: GraphrtError | None = None

    def outcome_so_far(self) -> RunOutcome:
        return RunOutcome(
            run_id=self.run_id,
            outcome=self.outcome,
            state=copied(self.state),
            exception=self.exception,
            _log=self.log,
        )


@final
class GraphExecutor:
    """Runs node objects, step by step.

    A run that ends early, by fatigue, an empty `token_budget`, a limit or an error in a node, yields a record with the
    outcome "error" or "max_steps_reached" instead of raising. Only wrong arguments, and objects that cannot form a
    graph, raise. An executor may serve several runs, one after another or at the same time.

    Args:
        log_dir: The folder for log files; see `AuditLogger`. None writes no files, or uses `lar_logs` with
            *hmac_secret*.
        offline_mode: Forbid network calls. From the first step until the iterator ends, no Python socket of the process
            connects or looks up a name, in any worker thread. Models must be given by *models*.
        user_id: Recorded in the log of each run.
        logger: The log to use instead of a new one.
        tracker: The token tracker to use instead of a new one. Several executors may share it.
        hmac_secret: Authenticates the journal of each run in the folder of the log, and signs its JSON document; see
            `AuditLogger`. Prefer *audit* with a key that cannot be guessed.
        max_node_fatigue: How often each node object may run; None sets no limit.
        versioner: Must be None: Lár's compliance pack is not supported.
        models: Models by the names that nodes use. Other names are models of litellm.
        ask: Shows the question of a `HumanJuryNode` and returns a line. By default `input` if there is a terminal;
            otherwise the run pauses.
        budget: Limits of each run: dollars, tokens, calls, seconds.
        audit: Makes the journal of each run an authenticated audit log; the run's id is the id of its thread. Values of
            the state must be storable then.
        store: Where runs are kept, a store or its URL, such as `"sqlite:///runs.db"`: a run that pauses continues in
            another process. Values of the state must be storable then. An audit log in a database is a store too.
        document: Whether the log of each run is also written as one JSON document; None writes it if there is an
            *hmac_secret* to sign it.
        deadline_s: Seconds that a run may be driven.
        clock: Returns seconds since the epoch; by default the system clock.
        sleep: Waits before a model call is retried; a function of seconds.
        seed: Seed of random numbers, such as those for the backoff.

    Raises:
        InputError: An argument is wrong (`input`).
    """

    def __init__(
        self,
        log_dir: str | Path | None = None,
        offline_mode: bool = False,  # noqa: FBT001, FBT002 - the order of Lár's arguments
        user_id: str | None = None,
        logger: AuditLogger | None = None,
        tracker: TokenTracker | None = None,
        hmac_secret: str | None = None,
        max_node_fatigue: int | None = 50,
        versioner: None = None,
        *,
        models: Mapping[str, ChatModel] | None = None,
        ask: Ask | None = None,
        budget: Budget | None = None,
        audit: AuditLog | None = None,
        store: Store | str | None = None,
        document: bool | None = None,
        deadline_s: float | None = None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Any] | None = None,
        seed: int | None = None,
    ) -> None:
        _check("logger", logger, AuditLogger)
        _check("tracker", tracker, TokenTracker)
        not_here("versioner", versioner, "GraphExecutor")
        for option, argument in {"log_dir": log_dir, "document": document}.items():
            if logger is not None and argument is not None:
                raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                    argument="logger= of GraphExecutor",
                    other=f"{option}=",
                    superfluous=f"{option}=, and give AuditLogger({option}=...)",
                )
        if max_node_fatigue is not None:
            whole("max_node_fatigue", max_node_fatigue, "GraphExecutor", least=1)
        self.logger: Final = AuditLogger(log_dir, document=document, clock=clock) if logger is None else logger
        if hmac_secret is not None:
            self.logger.sign_with(hmac_secret)
        if audit is None and self.logger.audit is not None:
            audit = self.logger.audit
            audit.user = audit.user or user_id or ""
        self.tracker: Final = TokenTracker() if tracker is None else tracker
        self.user_id = user_id
        self.offline_mode = offline_mode
        self.max_node_fatigue = max_node_fatigue
        self.result: RunOutcome | None = None
        """The outcome of the most recent run that ended or paused; None before."""
        self._models = Models(given=dict(models or {}), offline=offline_mode)
        self._ask = ask
        self._deadline_s = deadline_s
        self._audit = audit
        self._store = store
        self._options: dict[str, Any] = {"budget": budget, "clock": clock, "sleep": sleep, "seed": seed}
        self._paused: _Run | None = None

    # -- running -------------------------------------------------------------------------------------------------

    def run_step_by_step(
        self, start_node: BaseNode, initial_state: Mapping[str, Any], max_steps: int = 100
    ) -> Iterator[dict[str, Any]]:
        """Run the nodes from *start_node* on, and yield the record of each step after the step.

        Nothing runs before the iterator is read. Closing the iterator ends the run.

        Args:
            start_node: The first node.
            initial_state: Keys and values, which are copied. `token_budget` bounds the tokens of the run.
            max_steps: Maximum number of steps. If more remain, the last record has the outcome "max_steps_reached".

        Yields:
            Records, 1..n, with the keys `step`, `node`, `node_id`, `state_before`, `state_diff`, `state_after`,
            `outcome`, `run_metadata` and `reads`. `reads` maps each key that was read to the step that made its value,
            None for the initial state. After an error they have `error` and `error_type`; for a batch or a design
            `inner`, the records of the inner runs; and any notes of the node, such as `prompt`. They are copies. A
            record is in the files of the log before it is yielded.

        Raises:
            InputError: An argument is wrong.
            DefinitionError: The objects cannot form a graph. Nothing ran.
        """
        run, steps = self._begin(start_node, initial_state, max_steps)
        return self._records(run, steps)

    def run(self, start_node: BaseNode, initial_state: Mapping[str, Any], max_steps: int = 100) -> RunOutcome:
        """Run the nodes to the end; see `run_step_by_step`.

        Returns:
            The outcome of the run, including an error, which `raise_for_error()` raises.
        """
        run, steps = self._begin(start_node, initial_state, max_steps)
        return self._ended(run, steps)

    def resume_step_by_step(
        self,
        answer: str | Mapping[str, str],
        *,
        run_id: str | None = None,
        start_node: BaseNode | None = None,
        max_steps: int = 100,
    ) -> Iterator[dict[str, Any]]:
        """Answer the question of a paused run, continue it, and yield further records.

        Args:
            answer: The choice; or ids to choices, if several questions are open. The ids are in the record's
                `questions`.
            run_id: The run, which another process may have begun, with the same *store* or *audit*. None means the
                newest paused run of this executor.
            start_node: The first node of that run, made by the same program.
            max_steps: As in `run_step_by_step`, for a run that another process began.

        Raises:
            InputError: No such run is paused, or the answer is not one of the choices; then the run stays paused.
        """
        run, steps = self._resumed(answer, run_id, start_node, max_steps)
        return self._records(run, steps)

    def resume(
        self,
        answer: str | Mapping[str, str],
        *,
        run_id: str | None = None,
        start_node: BaseNode | None = None,
        max_steps: int = 100,
    ) -> RunOutcome:
        """Answer the question of a paused run, and continue to the end; see `resume_step_by_step`."""
        run, steps = self._resumed(answer, run_id, start_node, max_steps)
        return self._ended(run, steps)

    def to_graph(self, start_node: BaseNode) -> CompiledGraph[Any, Any, Any]:
        """Return the graph as which the nodes run, to draw or inspect it.

        Raises:
            InputError, DefinitionError: As `run_step_by_step`.
        """
        return self._lowered(start_node, 100).graph

    # -- one run -------------------------------------------------------------------------------------------------

    def _lowered(self, start_node: BaseNode | None, max_steps: int) -> Lowering:
        start = required("start_node", start_node, "GraphExecutor")
        whole("max_steps", max_steps, "GraphExecutor", least=1)
        limits = Limits(max_steps=max_steps, max_visits=self.max_node_fatigue, deadline_s=self._deadline_s)
        ask = self._ask
        if ask is None and sys.stdin is not None and sys.stdin.isatty():
            ask = input
        lowering = lower(
            start,
            models=self._models,
            ask=ask,
            limits=limits,
            outside=Outside(state=GraphState, run_graph=self._run_inside),
        )
        if lowering.circles:
            message = f"{lowering.circles[0]} The run continues until max_node_fatigue, max_steps or a budget ends it."
            warnings.warn(message, EndlessLoopWarning, stacklevel=4)  # the location of the program's call
        return lowering

    def _begin(self, start_node: Any, initial_state: Any, max_steps: int) -> tuple[_Run, Iterator[Step[Any]]]:
        if not is_mapping(initial_state) or not all(isinstance(key, str) for key in initial_state):
            raise INVALID_ARGUMENT(
                argument="initial_state", value=initial_state, wanted="a dictionary of texts to values, {} for none"
            )
        state: dict[str, Any] = copied(dict(initial_state))
        budget = checked_budget(state.get(BUDGET))
        if budget is not None:
            state[BUDGET] = max(0, budget)  # nothing is left, so the first call that needs it is refused
        lowering = self._lowered(start_node, max_steps)
        run_id = str(uuid.uuid4())
        recorder = Recorder(lowering=lowering)
        runtime = self._runtime(recorder)
        run_input: dict[str, Any] = {"values": {key: value for key, value in state.items() if key != BUDGET}}
        if budget is not None:
            run_input[BUDGET] = state[BUDGET]
        steps = runtime.steps(run_input, thread=run_id if runtime.store is not None else None)
        log = self.logger.begin(run_id, self.user_id, state)
        return _Run(run_id, runtime, recorder, log, state, 0), steps

    def _runtime(self, recorder: Recorder) -> Runtime[Any, Any]:
        lowering = recorder.lowering
        store = self._store
        if store is None and self._audit is None and lowering.asks:  # an audit log may have its own store
            store = "memory:"
        return Runtime(
            lowering.graph,
            store=store,
            audit=self._audit,
            sinks=[self.tracker, lowering.inside],
            check_state=False,  # functions work on copies; see GraphState
            **self._options,
        )

    def _resumed(
        self, answer: Any, run_id: str | None, start_node: BaseNode | None, max_steps: int
    ) -> tuple[_Run, Iterator[Step[Any]]]:
        run = self._paused
        if run_id is not None and (run is None or run.run_id != run_id):
            run = self._reopened(run_id, start_node, max_steps)
        if run is None:
            raise NOTHING_TO_RESUME()
        try:
            steps = run.runtime.steps(thread=run.run_id, answers=answer)
        except BaseException:
            if run is not self._paused:  # it was opened only for this answer
                run.runtime.close()
            raise
        if self._paused is run:  # otherwise another run has paused in the meantime
            self._paused = None
        return run, steps

    def _reopened(self, run_id: str, start_node: BaseNode | None, max_steps: int) -> _Run:
        """Return a paused run that another process began, with the records from its journal."""
        if self._store is None and self._audit is None:
            raise NO_STORE_TO_RESUME(run_id=run_id)
        recorder = Recorder(lowering=self._lowered(start_node, max_steps))
        runtime = self._runtime(recorder)
        state = copied(visible(runtime.state(run_id).values))
        initial, records, pauses = recorder.of_journal(runtime.entries(run_id))
        log = self.logger.begin(run_id, self.user_id, initial, records)
        return _Run(run_id, runtime, recorder, log, state, len(records) + pauses)

    def _run_inside(self, node: BaseNode, state: StateView) -> None:
        """Run a node that is itself a graph for a step of this executor, within the remaining budgets.

        Raises:
            GraphrtError: The run has failed.
        """
        ledger: Ledger | None = state.step.ctx.budget
        options: dict[str, Any] = {**self._options, "budget": _rest_of(ledger)}
        executor = GraphExecutor(
            models=self._models.given,
            offline_mode=self.offline_mode,
            tracker=self.tracker,
            max_node_fatigue=self.max_node_fatigue,
            ask=self._ask,
            deadline_s=self._deadline_s,
            **options,
        )
        outcome = _run_alone(node, state, executor)
        if ledger is not None:
            ledger.charge(_used(outcome.records))
        outcome.raise_for_error()

    def _ended(self, run: _Run, steps: Iterator[Step[Any]]) -> RunOutcome:
        for _ in self._records(run, steps):
            pass
        return run.outcome_so_far()

    def _records(self, run: _Run, steps: Any) -> Iterator[dict[str, Any]]:
        failed, run.outcome = False, CANCELLED
        paused: dict[str, Any] | None = None
        with ExitStack() as stack:
            if self.offline_mode:
                stack.enter_context(offline())
            stack.callback(self._end, run)
            stack.callback(steps.close)
            try:
                for step in steps:
                    record = run.recorder.of_step(step, run.number)
                    failed = step.error is not None
                    if record["outcome"] == INTERRUPTED:
                        paused = record  # the last one; its questions are known after the pause
                    else:
                        yield self._kept(run, record)
                run.outcome = SUCCESS if paused is None else INTERRUPTED
                if paused is not None:
                    questions = [{"id": question.id, **question.payload} for question in steps.result.interrupts]
                    yield self._kept(run, {**paused, "questions": questions})
            except GraphrtError as error:
                run.exception, run.outcome = error, outcome_of(error)
                if not failed:
                    yield self._kept(run, run.recorder.of_limit(error, run.number, run.state))

    def _kept(self, run: _Run, record: dict[str, Any]) -> dict[str, Any]:
        """Log a record and return it; the log has a copy."""
        run.log.add(record)
        run.state = apply_diff(run.state, copied(record["state_diff"]))
        run.number += 1
        return record

    def _end(self, run: _Run) -> None:
        if run.outcome == INTERRUPTED:
            self._paused = run
        else:
            run.runtime.close()
        self.result = run.outcome_so_far()
        end = {"kind": "end", "outcome": run.outcome, "steps": run.number, "tokens": self.tracker.get_summary()}
        run.log.write(end)
        if self.logger.writes_documents and run.outcome != INTERRUPTED:
            summary = {"total_steps": run.number, **self.tracker.get_summary()}
            self.logger.save_to_file(run.run_id, self.user_id, summary, run.outcome)


# -- node objects outside of a run -------------------------------------------------------------------------------------


@final
class GraphState(StateView):
    """The state as a function sees it: `get`, `set`, `delete`, `get_all`, and `state["key"]`.

    Changes are collected and become the node's update when the function returns. A list or an object that was read and
    then changed in place counts as written, so no change is lost.

    In unit tests of nodes, a program can make a state itself: `AddValueNode("a", 1).execute(GraphState())`.

    Args:
        initial_state: Keys and values. They are copied on reading, so the caller's values stay unchanged.
        step: The step of a run; only a run passes it.
    """

    __slots__ = ()

    def __init__(self, initial_state: Mapping[str, Any] | None = None, step: StepOfNode | None = None) -> None:
        super().__init__(initial_state, _OutsideOfRuns() if step is None else step)


@final
class _OutsideOfRuns:
    """The step for a node object whose `execute` is called by a unit test or a program; see `StepOfNode`."""

    __slots__ = ("note",)

    def __init__(self) -> None:
        self.note: dict[str, Any] = {}

    def ask_model(self, node: BaseNode, state: StateView) -> None:
        _run_alone(node, state, GraphExecutor()).raise_for_error()

    def ask_person(self, node: HumanJuryNode, context: Mapping[str, Any]) -> str:
        choice = asked(input, node, context)
        if choice is None:
            raise EOFError(f"The input ended before the question was answered: {node.prompt}")
        return choice

    def run_graph(self, node: BaseNode, state: StateView) -> None:
        _run_alone(node, state, GraphExecutor()).raise_for_error()

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run(fn(*args))


def _rest_of(ledger: Ledger | None) -> Budget | None:
    """Return the remainder of the budgets of a step; None if it has no bounds."""
    ledgers = [] if ledger is None else list(ledger.chain())
    remaining: dict[str, list[Any]] = {
        "tokens": [level.remaining_tokens for level in ledgers],
        "usd": [level.remaining_usd for level in ledgers],
        "calls": [level.remaining_calls for level in ledgers],
        "seconds": [level.remaining_s for level in ledgers],
    }
    limits: dict[str, Any] = {}
    for unit, amounts in remaining.items():
        known = [amount for amount in amounts if amount is not None]
        if known:
            limits[unit] = min(known)
    return Budget(**limits) if limits else None


def _used(records: Iterable[Mapping[str, Any]]) -> Amounts:
    """Return the usage of a run according to its records. Records that name a model count as calls."""
    used = Amounts()
    for record in records:
        metadata: Mapping[str, Any] = record["run_metadata"]
        dollars: float = metadata.get("cost_usd", 0.0)
        inner = _used(record.get("inner", ()))
        calls = max(inner.calls, int("model" in metadata))
        used = used.plus(Amounts(metadata.get("total_tokens", 0), math.ceil(dollars * 1_000_000), calls))
    return used


def _run_alone(node: BaseNode, state: StateView, executor: GraphExecutor) -> RunOutcome:
    """Run a ready-made node by itself, apply its writes to *state*, and return the outcome.

    Args:
        node: The node. It may be of a subclass whose `execute` called that of the ready-made class.
        state: The state.
        executor: Runs it.
    """
    kind: Any = next(kind for kind in type(node).__mro__ if issubclass(kind, BaseNode) and not has_own_execute(kind))
    alone: Any = kind.__new__(kind)
    alone.__dict__.update(vars(node))
    for link in ("next_node", "error_node"):
        if hasattr(alone, link):
            setattr(alone, link, None)
    before = state.get_all()
    outcome = executor.run(alone, before)
    for key in before:
        if key not in outcome.state:
            state.delete(key)
    for key, value in outcome.state.items():
        if key not in before or not same(value, before[key]):
            state.set(key, value)
    return outcome


def _check(option: str, value: Any, kind: type[Any]) -> None:
    if value is not None and not isinstance(value, kind):
        raise INVALID_ARGUMENT(
            argument=f"{option} of GraphExecutor",
            value=value,
            wanted=f"a {kind.__name__} of graphrt.compat.lar",
        )
