"""`GraphExecutor`: runs node objects and gives a record for each step.

It lowers the objects to a graph, drives it with a `Runtime`, and reads its steps. It decides nothing itself.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from graphrt._arguments import is_mapping
from graphrt.audit import AuditLog
from graphrt.compat.lar._functions import Ask
from graphrt.compat.lar._log import AuditLogger, RunLog, TokenTracker
from graphrt.compat.lar._lowering import Lowering, lower
from graphrt.compat.lar._models import Models
from graphrt.compat.lar._nodes import BaseNode, required, whole
from graphrt.compat.lar._offline import offline
from graphrt.compat.lar._records import CANCELLED, INTERRUPTED, SUCCESS, outcome_of, record_of, record_of_limit
from graphrt.compat.lar._state import BUDGET, apply_diff, copied
from graphrt.errors import GraphrtError
from graphrt.errors._codes.arguments import ARGUMENTS_EXCLUDE_EACH_OTHER, INVALID_ARGUMENT
from graphrt.errors._codes.compat import NOTHING_TO_RESUME
from graphrt.graph import CompiledGraph
from graphrt.harness import Budget, ChatModel
from graphrt.limits import Limits
from graphrt.runtime import Runtime, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """How a run ended, and what it left."""

    run_id: str
    outcome: str
    """How it ended: "success", "error", "max_steps_reached", "cancelled" if its reader stopped, or "interrupted" while
    a question waits for `executor.resume`."""
    state: dict[str, Any]
    """The state at the end. A step that failed changed nothing."""
    exception: GraphrtError | None
    """What ended the run, if it did not succeed; else None."""
    _log: RunLog = field(repr=False)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of all steps, made anew from the log: 0..n."""
        return self._log.records()

    def raise_for_error(self) -> RunOutcome:
        """Return the outcome itself, or raise what ended the run.

        Raises:
            GraphrtError: A node failed (NodeError), or a limit was reached: NodeFatigueError, StepLimitError,
                BudgetExceededError, DeadlineError.
        """
        if self.exception is not None:
            raise self.exception
        return self


@final
class _Run:
    """One run: its runtime, its log and the state that its records have led to."""

    __slots__ = ("exception", "log", "lowering", "number", "outcome", "run_id", "runtime", "state")

    def __init__(
        self, run_id: str, runtime: Runtime[Any], lowering: Lowering, log: RunLog, state: dict[str, Any]
    ) -> None:
        self.run_id: Final = run_id
        self.runtime: Final = runtime
        self.lowering: Final = lowering
        self.log: Final = log
        self.state = state
        self.number = 0
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

    What ends a run early is a record with the outcome "error" or "max_steps_reached", not an exception: fatigue, an
    empty `token_budget`, a limit, an error in a node. Only objects that cannot be a graph, and wrong arguments, raise.
    An executor may serve several runs, one after another or at the same time.

    Args:
        log_dir: The folder for log files; see `AuditLogger`. None writes none.
        offline_mode: Forbid network calls. From the first step until the iterator ends, no Python socket of the process
            connects or looks up a name, in no worker thread. Models must be given by *models*.
        user_id: Stands in the log of each run.
        logger: The log, in place of a new one.
        tracker: Adds up tokens, in place of a new one. It may be shared by several executors.
        hmac_secret: Authenticates the journal of each run in the folder of the log; see `AuditLogger`. *audit* is the
            way with a key that cannot be guessed.
        max_node_fatigue: How often each node object may run; None sets no limit.
        models: Models by the names that nodes use. A name that is missing here is a model of litellm.
        ask: Shows the question of a `HumanJuryNode` and returns a line. By default `input` if there is a terminal;
            otherwise the run pauses.
        budget: Limits of each run: dollars, tokens, calls, seconds.
        audit: Makes the journal of each run an authenticated audit log; the run's id is the id of its thread. Values of
            the state must be storable then.
        deadline_s: Seconds that a run may be driven.
        clock: Returns seconds since the epoch; by default the system clock.
        sleep: Makes the waits before a model is asked again; a function of seconds.
        seed: Seeds what draws numbers, such as the waits.

    Raises:
        InputError: An argument is wrong (`input`).
    """

    def __init__(
        self,
        *,
        log_dir: str | Path | None = None,
        offline_mode: bool = False,
        user_id: str | None = None,
        logger: AuditLogger | None = None,
        tracker: TokenTracker | None = None,
        hmac_secret: str | None = None,
        max_node_fatigue: int | None = 50,
        models: Mapping[str, ChatModel] | None = None,
        ask: Ask | None = None,
        budget: Budget | None = None,
        audit: AuditLog | None = None,
        deadline_s: float | None = None,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Any] | None = None,
        seed: int | None = None,
    ) -> None:
        _check("logger", logger, AuditLogger)
        _check("tracker", tracker, TokenTracker)
        if logger is not None and log_dir is not None:
            raise ARGUMENTS_EXCLUDE_EACH_OTHER(
                argument="logger= of GraphExecutor",
                other="log_dir=",
                superfluous="log_dir=, and give AuditLogger(log_dir=...)",
            )
        if max_node_fatigue is not None:
            whole("max_node_fatigue", max_node_fatigue, "GraphExecutor", least=1)
        self.logger: Final = AuditLogger(log_dir, clock=clock) if logger is None else logger
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
        """How the newest run that ended, or paused, did so; None before."""
        self._models = Models(given=dict(models or {}), offline=offline_mode)
        self._ask = ask
        self._deadline_s = deadline_s
        self._options: dict[str, Any] = {"budget": budget, "audit": audit, "clock": clock, "sleep": sleep, "seed": seed}
        self._paused: _Run | None = None

    # -- running -------------------------------------------------------------------------------------------------

    def run_step_by_step(
        self, start_node: BaseNode, initial_state: Mapping[str, Any], max_steps: int = 100
    ) -> Iterator[dict[str, Any]]:
        """Run the nodes from *start_node* on, and yield the record of each step after it was made.

        Nothing runs before the iterator is read, and a reader that stops ends the run.

        Args:
            start_node: The first node.
            initial_state: Keys and values, which are copied. `token_budget` bounds the tokens of the run.
            max_steps: How many steps may be made. If more remain, the last record has the outcome "max_steps_reached".

        Yields:
            Records, 1..n, with the keys `step`, `node`, `node_id`, `state_before`, `state_diff`, `state_after`,
            `outcome` and `run_metadata`; with `error` and `error_type` after an error; and with what the node notes,
            such as `prompt`. They are copies.

        Raises:
            InputError: An argument is wrong.
            DefinitionError: The objects cannot be a graph, for instance because they point in a circle without a way
                out. Nothing ran.
        """
        run, steps = self._begin(start_node, initial_state, max_steps)
        return self._records(run, steps)

    def run(self, start_node: BaseNode, initial_state: Mapping[str, Any], max_steps: int = 100) -> RunOutcome:
        """Run the nodes to the end; see `run_step_by_step`.

        Returns:
            How the run ended. An error is in it; `raise_for_error()` raises it.
        """
        run, steps = self._begin(start_node, initial_state, max_steps)
        return self._ended(run, steps)

    def resume_step_by_step(self, answer: str | Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Answer the question that the newest paused run waits for, go on, and yield further records.

        Args:
            answer: The choice; or ids to choices, if several questions wait. The ids are in the record `questions`.

        Raises:
            InputError: No run of this executor waits, or the answer is not one of the choices; it still waits then.
        """
        run, steps = self._resumed(answer)
        return self._records(run, steps)

    def resume(self, answer: str | Mapping[str, str]) -> RunOutcome:
        """Answer the question that the newest paused run waits for, and go on to the end; see `resume_step_by_step`."""
        run, steps = self._resumed(answer)
        return self._ended(run, steps)

    def to_graph(self, start_node: BaseNode) -> CompiledGraph[Any, Any]:
        """Return the graph that the nodes are run as, to draw it or to see its topology.

        Raises:
            InputError, DefinitionError: As `run_step_by_step`.
        """
        return self._lowered(start_node, 100).graph

    # -- one run -------------------------------------------------------------------------------------------------

    def _lowered(self, start_node: BaseNode, max_steps: int) -> Lowering:
        start = required("start_node", start_node, "GraphExecutor")
        whole("max_steps", max_steps, "GraphExecutor", least=1)
        limits = Limits(max_steps=max_steps, max_visits=self.max_node_fatigue, deadline_s=self._deadline_s)
        ask = self._ask
        if ask is None and sys.stdin is not None and sys.stdin.isatty():
            ask = input
        return lower(start, models=self._models, ask=ask, limits=limits)

    def _begin(self, start_node: Any, initial_state: Any, max_steps: int) -> tuple[_Run, Iterator[Step[Any]]]:
        if not is_mapping(initial_state) or not all(isinstance(key, str) for key in initial_state):
            raise INVALID_ARGUMENT(
                argument="initial_state", value=initial_state, wanted="a dictionary of texts to values, {} for none"
            )
        state: dict[str, Any] = copied(dict(initial_state))
        lowering = self._lowered(start_node, max_steps)
        run_id = str(uuid.uuid4())
        audit = self._options["audit"]
        thread = run_id if lowering.asks or audit is not None else None
        runtime: Runtime[Any] = Runtime(
            lowering.graph,
            store="memory:" if thread and audit is None else None,  # an audit log brings a store
            sinks=[self.tracker],
            check_state=False,  # functions work on copies: see GraphState
            **self._options,
        )
        given: dict[str, Any] = {"values": {key: value for key, value in state.items() if key != BUDGET}}
        if state.get(BUDGET) is not None:
            given[BUDGET] = state[BUDGET]
        steps = runtime.steps(given, thread=thread)  # refuses a wrong budget now, before the log begins
        return _Run(run_id, runtime, lowering, self.logger.begin(run_id, self.user_id, state), state), steps

    def _resumed(self, answer: Any) -> tuple[_Run, Iterator[Step[Any]]]:
        run = self._paused
        if run is None:
            raise NOTHING_TO_RESUME()
        steps = run.runtime.steps(thread=run.run_id, answers=answer)
        if self._paused is run:  # else another run has paused meanwhile
            self._paused = None
        return run, steps

    def _ended(self, run: _Run, steps: Iterator[Step[Any]]) -> RunOutcome:
        for _ in self._records(run, steps):
            pass
        return run.outcome_so_far()

    def _records(self, run: _Run, steps: Any) -> Iterator[dict[str, Any]]:
        objects = run.lowering.objects
        failed, run.outcome = False, CANCELLED
        paused: dict[str, Any] | None = None
        with ExitStack() as stack:
            if self.offline_mode:
                stack.enter_context(offline())
            stack.callback(self._end, run)
            stack.callback(steps.close)
            try:
                for step in steps:
                    record = record_of(step, run.number, objects)
                    failed = step.error is not None
                    if record["outcome"] == INTERRUPTED:
                        paused = record  # the last one: its questions are known when the run has paused
                    else:
                        yield self._kept(run, record)
                run.outcome = SUCCESS if paused is None else INTERRUPTED
                if paused is not None:
                    asked = [{"id": one.id, **one.payload} for one in steps.result.interrupts]
                    yield self._kept(run, {**paused, "questions": asked})
            except GraphrtError as error:
                run.exception, run.outcome = error, outcome_of(error)
                if not failed:
                    yield self._kept(run, record_of_limit(error, run.number, run.state, objects))

    def _kept(self, run: _Run, record: dict[str, Any]) -> dict[str, Any]:
        """Log a record and return it; the log has a copy of its own."""
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


def _check(option: str, given: Any, kind: type[Any]) -> None:
    if given is not None and not isinstance(given, kind):
        raise INVALID_ARGUMENT(
            argument=f"{option} of GraphExecutor",
            value=given,
            wanted=f"a {kind.__name__} of graphrt.compat.lar",
        )
