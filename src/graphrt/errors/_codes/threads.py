"""Errors of threads: verbs, answers, runs, forks, and the claims of other writers."""

from __future__ import annotations

from graphrt.errors import ConflictError, InputError, ReplayDivergedError, RunFailedError, WaitTimeoutError
from graphrt.errors._codes.journal import GRAPH_CHANGED
from graphrt.errors._codes.nodes import NOT_STORABLE
from graphrt.errors._codes.stores import STORE_DAMAGED
from graphrt.errors._error_code import ErrorCode

INTERRUPT_NEEDS_THREAD = ErrorCode(
    "interrupt-needs-thread",
    InputError,
    "Node {node!r} {asks}, but this run has no thread that could wait.",
    fix='Run it on a thread: Runtime(graph, store="memory:").run(input, thread="t").',
)

CONFLICT = ErrorCode(
    "conflict",
    ConflictError,
    "Thread {thread!r} is held by another run.",
    fix="Wait for that run, cancel it, use another thread, or queue: start(input, thread={thread!r}, while_running='queue').",
)
PRUNED_WHILE_READ = CONFLICT.variant(
    "Thread {thread!r} was pruned or deleted while it was read: its entries end at {last}, not at {end}.",
    fix="Try again.",
)
THREAD_HAS_MOVED = CONFLICT.variant(
    "Thread {thread!r} is at entry {got}, not at {expected}: this commit was not stored.",
    fix="Load the thread and continue from its last entry.",
)

UNKNOWN_THREAD = ErrorCode(
    "unknown-thread",
    InputError,
    "There is no thread {thread!r}.",
    fix="Pass the id of a thread that was started, or start this one.",
)

THREAD_EXISTS = ErrorCode(
    "thread-exists",
    InputError,
    "There is a thread {thread!r} already.",
    fix="Pass another id, or delete that thread first.",
)

MADE_ID_EXISTS = THREAD_EXISTS.variant(
    "ids= made the id {thread!r} for a new thread, and there is a thread {thread!r} already.",
    known="nothing was changed",
    fix="Let ids= return another id at each call, in every process. To run on that thread, name it: thread={thread!r}.",
)

NO_SNAPSHOT = ErrorCode(
    "no-snapshot",
    InputError,
    "Thread {thread!r} has no snapshot of entry {seq}: the entries after it could not be folded.",
    known="snapshots of the entries {entries}",
    fix="Prune up to an entry that has a snapshot, or commit one first.",
)

LOST_LEASE = ErrorCode(
    "lost-lease",
    ConflictError,
    "The claim number {epoch} on thread {thread!r} is void: this commit was not stored.",
    fix="Claim the thread again and continue from what is stored; a longer lease_s outlasts longer pauses.",
)

NOT_COMPARABLE = ErrorCode(
    "not-comparable",
    InputError,
    "Two values of type {left:type} cannot be compared: {error:type}: {error}",
    fix="Give the class an __eq__ that answers with True or False, or mark the field untracked.",
)


ENTRY_OF_OLDER_GRAPH = GRAPH_CHANGED.variant(
    "Entry {seq} of thread {thread!r} needs the graph that wrote it: {reason}.",
    known="{has}",
    fix="Use the graph as it was then, or another entry; Migration(nodes=...) says which nodes were renamed.",
)

REPLAY_DIVERGED = ErrorCode(
    "replay-diverged",
    ReplayDivergedError,
    "The replay of thread {thread!r} diverges at entry {seq} ({part}).",
    known="expected {expected_text}; got {got_text}",
    fix="A reducer or a router changed, or is not a pure function of its arguments.",
)

UNKNOWN_RUN = ErrorCode(
    "unknown-run",
    InputError,
    "Thread {thread!r} has no run {run!r}.",
    fix="Take the run_id of a result, or of a snapshot of history(thread).",
)

THREAD_WITHOUT_STORE = ErrorCode(
    "thread-without-store",
    InputError,
    "There is no store to keep threads in, and {what}.",
    fix='Make the runtime with one: Runtime(graph, store="memory:") or Runtime(graph, store="sqlite:///runs.db").',
)

UNKNOWN_ENTRY = ErrorCode(
    "unknown-entry",
    InputError,
    "Thread {thread!r} has no entry {seq!r}.",
    known="entries {first} to {last}",
    fix="Pass the seq of {wanted}.",
)


INPUT_NOT_STORABLE = NOT_STORABLE.variant(
    "{given} that cannot be stored{at}: it {why}",
    error=InputError,
    known="nothing was stored",
    fix="{advice}.",
    boundary=False,
)

WRONG_VERB = ErrorCode(
    "wrong-verb",
    InputError,
    "Thread {thread!r} is {status}: it cannot {doing}.",
    known="graph {graph_name!r}, {entries} entries",
    fix="Use {right}{or_watch}{or_abandon}",
)


SNAPSHOT_NOT_AS_WRITTEN = STORE_DAMAGED.variant(
    "The snapshot of entry {seq} of thread {thread!r} did not come back as it was written: {why}.",
    known="no entry was removed",
    fix="Do not prune the thread until its store returns the data that it was given; replay(thread) checks its entries.",
)

INPUT_OR_ANSWERS = ErrorCode(
    "input-or-answers",
    InputError,
    "{problem}",
    fix="Pass an input to begin a run, thread= and answers= to resume an interrupt, or thread= alone to retry a failed run.",
)

OTHER_INPUT = ErrorCode(
    "other-input",
    InputError,
    "The run of thread {thread!r} began with another input: it differs in {fields:names}.",
    known="status {status}",
    fix="Pass the input that began it. Or continue without an input: retry({thread!r}). Or give up what is left: "
    'run(input, thread={thread!r}, if_exists="abandon").',
)

GOTO_NEEDED = ErrorCode(
    "goto-needed",
    InputError,
    "Node {node!r} routes by the Commands that it returns: where it would lead is not known.",
    known="it declares {declared:names}",
    fix="Name the target: update(thread, values, as_node={node!r}, goto={first!r}), or goto=END.",
)


UNKNOWN_INTERRUPT = ErrorCode(
    "unknown-interrupt",
    InputError,
    "{problem}.",
    known="{questions}",
    fix="A mapping is read as interrupt ids to answers: resume({thread!r}, {{{first!r}: ...}}). "
    "If this mapping is itself the answer: resume({thread!r}, answer={{...}}).",
)
NO_OPEN_INTERRUPT = UNKNOWN_INTERRUPT.variant(
    "An answer was given, but no interrupt is open.",
    fix="Continue without an answer: resume({thread!r}) or retry({thread!r}).",
)
ANSWER_WAITS = UNKNOWN_INTERRUPT.variant(
    "Interrupt {interrupt} was answered already: another answer waits until the run in progress takes it.",
    fix="Read the thread with state({thread!r}) once its run has taken the answer. The first answer counts.",
)

NO_ANSWER = ErrorCode("no-answer", InputError, "No answer was given.", known="{questions}", fix="{how}")

AMBIGUOUS_ANSWER = ErrorCode(
    "ambiguous-answer", InputError, "One answer was given, but {number} {what}.", known="{questions}", fix="{how}"
)

ANSWER_HAS_EFFECTS = ErrorCode(
    "answer-has-effects",
    InputError,
    "The answer to interrupt {interrupt} cannot be replaced: task {task} continued with it, and recorded "
    "{effects:the effect|the effects} {effects:names} after it.",
    known="answered with {answer}",
    fix="Continue with the answer: retry({thread!r}). Or decide what the node would have written: "
    "update({thread!r}, values, as_node={asker!r}). Or abandon the superstep: "
    'run(input, thread={thread!r}, if_exists="abandon").',
)

INTERRUPT_EXPIRED = ErrorCode(
    "interrupt-expired",
    InputError,
    "Interrupt {interrupt} expired {late_s:.0f} s ago.",
    known="asked by {asker!r}: {payload}",
    fix="Use retry({thread!r}) to ask again, or drive({thread!r}) to continue without an answer.",
)

INTERRUPT_HAS_ITS_DEFAULT = INTERRUPT_EXPIRED.variant(
    "Interrupt {interrupt} expired {late_s:.0f} s ago, and answers itself with its default.",
    known="asked by {asker!r}: {payload}",
    fix="Use drive({thread!r}), or resume({thread!r}) without an answer, to continue with the default.",
)

ANSWER_DOES_NOT_FIT = ErrorCode(
    "bad-answer",
    InputError,
    "The answer to interrupt {interrupt} does not fit: {problem}",
    known="asked by {asker!r}: {payload}; wanted {wanted}",
    fix="Pass an answer of that type. Nothing was changed.",
)

# Runs that their caller does not drive

RUN_FAILED_ELSEWHERE = ErrorCode(
    "run-failed",
    RunFailedError,
    "The run of thread {thread!r} failed with {error}: {message}.",
    known="the thread has {seq} entries{done}",
    fix="Mend the cause; then retry({thread!r}), or start(thread={thread!r}) for a worker, runs what is left.",
)
PARKED = ErrorCode(
    "parked",
    RunFailedError,
    "{tries} runs in a row took thread {thread!r} over and died before they stored anything, so it is parked",
    known="a task of the open superstep may kill its process",
    fix="Mend the cause; then retry({thread!r}), or start(thread={thread!r}) for a worker, tries it again.",
)
WAITS_FOR_SIGNAL = ErrorCode(
    "waits-for-signal",
    InputError,
    "Interrupt {interrupt} waits for the signal {payload}, and takes no answer.",
    known="asked by {asker!r} with ctx.receive()",
    fix="Send the signal: signal({thread!r}, {payload}, value).",
)
NOT_DUE = ErrorCode(
    "not-due",
    InputError,
    "Thread {thread!r} is {status}, so no work is due on it.",
    known="a worker drives threads without an owner: running ones, and those with mail, or with a timer or question that is over",
    fix="An ended thread takes a new input, a paused one an answer, and a failed or cancelled one a retry; start() leaves"
    " that to a worker.",
)
NOT_ENDED_YET = ErrorCode(
    "wait-timeout",
    WaitTimeoutError,
    "The run of thread {thread!r} has not ended after {timeout_s} seconds.",
    known="it has {seq} entries, and {driver}",
    fix="Wait longer, or look who drives the thread: nothing was changed.",
)
NOT_IN_THE_LOG = ErrorCode(
    "not-in-the-log",
    ReplayDivergedError,
    "Node {node!r} asked {asked}, and the log has no answer to it.",
    known="{instead}",
    fix="If the node was changed on purpose, this is its first different action. Otherwise make it depend on its state alone.",
)
