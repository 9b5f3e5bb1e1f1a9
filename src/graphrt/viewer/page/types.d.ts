// The documents of the viewer. Python builds them (`graphrt.viewer`), and the page shows them: served over HTTP, or
// embedded in a file. `tsc --checkJs` checks the page against this file.
//
// Endpoints, relative to the page. Every GET returns JSON; an error is a `Problem`. `graph=` and `thread=` are query
// parameters, URL-encoded.
//
//   GET  api/head                                        Head
//   GET  api/graph?graph=                                GraphDoc
//   GET  api/threads?graph=&status=&text=&tag=&after=&limit=      ThreadsPage     newest first
//   GET  api/inbox?graph=&after=&limit=                  InboxPage
//   GET  api/thread?graph=&thread=                       ThreadDoc
//   GET  api/rows?graph=&thread=&from=&limit=            RowsPage        `from`: number of the first row
//   GET  api/entries?graph=&thread=&after=&limit=        EntriesPage     `after`: seq of the last entry that is known
//   GET  api/state?graph=&thread=&at=                    StateDoc        `at`: seq; without it the newest
//   GET  api/call?graph=&thread=&seq=                    CallDoc         `seq` of the entry of a model call
//   GET  api/prompt?graph=&thread=&seq=                  PromptDoc       runs nodes again on the recording; see PromptDoc
//   GET  api/conversation?graph=&thread=                 ConversationDoc
//   GET  api/value?graph=&thread=&ref=                   ValueDoc        the content of a `Cut` or a `Media`
//   GET  api/compare?graph=&thread=&other=               CompareDoc
//   GET  api/audit?graph=&thread=                        AuditDoc
//   GET  api/coverage?graph=                             CoverageDoc
//   GET  api/case?graph=&thread=&at=                     CaseDoc         a pytest case of the superstep after entry `at`
//   GET  api/live?graph=&thread=&after=                  text/event-stream of LiveEvent; `after`: the id of the last one
//   POST api/act     body Act, headers `content-type: application/json` and `x-graphrt-viewer: 1`      Acted
//
// With `graphrt ui` every request needs `authorization: Bearer TOKEN`, also that for `api/live` (so it is read with
// fetch(), not EventSource); the token comes in the fragment of the page's address (`#token=...`), which the page takes
// out of the address and keeps in sessionStorage. Mounted in a server, the server's own authorization holds: the page
// sends its token the same way if it has one, and else asks for one after a 401.

// -- values -----------------------------------------------------------------------------------------------------------

/**
 * A value of a state, a prompt or an event: JSON, in which an object whose only keys begin with "$" is a mark.
 *
 * A user's own object that has a key beginning with "$", or the key "__proto__", is sent as `Pairs`, so a mark can never
 * come from a user. Everything inside a value is hostile: names, texts, sizes. Lone surrogates are possible in texts.
 */
type Value = null | boolean | number | string | Value[] | { [name: string]: Value } | Mark;
type Mark = Cut | Pairs | Num | Bytes | Media | Erased | Typed;

/** A value that was cut. A text has its beginning; a list or an object has nothing. `ref` is for `source.value(ref)`. */
interface Cut { $cut: { kind: "text" | "list" | "object" | "depth"; size: number; shown?: string; ref: string | null } }
/** An object as pairs. Ops never lead into it. */
interface Pairs { $pairs: [string, Value][] }
/** A number that JSON or a double cannot represent: its text, such as "NaN" or 2 ** 70. */
interface Num { $number: string }
interface Bytes { $bytes: { size: number; hex: string; ref: string | null } }
/** An image, audio or document. `data` is base64, where it is small enough; else `ref`. Show only png, jpeg, gif, webp. */
interface Media { $media: { kind: string; media_type: string; name: string | null; size: number | null; url: string | null;
  data?: string; ref: string | null } }
/** A value that was erased from the journal. */
interface Erased { $erased: true }
/** A value of a class without its own form, as a short text. */
interface Typed { $repr: string }

// -- head -------------------------------------------------------------------------------------------------------------

interface Head {
  mode: "served" | "file";
  version: string;              // of graphrt
  made_at: number;              // seconds since the epoch, of the file; now, of a server
  title: string;                // of the store or file, for the heading
  graphs: GraphRef[];           // graphs whose code is available
  /** The only thread of a file; null if served. */
  thread: ThreadRef | null;
  user: string;                 // the user, as the server knows them; "" if unknown
  acting: Verb[];               // the rights of this caller; [] in a file
  prompts: boolean;             // whether `prompt` may be asked for
  cases: boolean;               // whether `case` may be asked for
  coverage: string[];           // names of graphs for which there is a CoverageDoc
  /** Words of a command line for copying: `graphrt VERB target THREAD ...`; "" if it is not known. */
  target: string;
  notes: string[];              // sentences to show once, such as what a file leaves out
}
interface GraphRef { graph: string; version: number | null }
interface ThreadRef { graph: string; thread: string }
type Verb = "answer" | "retry" | "cancel";
type Status = "new" | "running" | "interrupted" | "failed" | "cancelled" | "completed";

/** RFC 9457, as the server's other errors. `code` is a slug of docs/errors.md. */
interface Problem { status: number; title: string; detail: string; code: string; fix: string | null }

// -- graph ------------------------------------------------------------------------------------------------------------

interface GraphDoc {
  graph: string;
  version: number | null;
  fingerprint: string;
  /** Whether the graph's code is available. If not, nodes and edges are those in the threads' journals. */
  code: boolean;
  topology: Topology;
}

/** What `CompiledGraph.topology()` returns, with `reads` added to nodes and `aggregates` to fields. */
interface Topology {
  name: string;
  nodes: GraphNode[];
  edges: GraphEdge[];
  state: { [field: string]: FieldDoc };
}
interface GraphNode {
  name: string;
  kind: "function" | "graph" | "chosen";
  graph?: Topology;             // of a nested graph
  reads?: string[];             // fields that it declares to read; absent: all
  tools?: string[];
  [policy: string]: unknown;    // retry, timeout_s, max_visits, interrupt_before ...
}
interface GraphEdge {
  from: string;                 // a node, or "START"
  to: string;                   // a node, or "END"
  kind: "static" | "conditional" | "goto" | "join" | "on_error" | "on_fatigue" | "seen";   // seen: without code
  label?: string | number | boolean | null;
  default?: boolean;
  branch?: number;
  router?: string;
  need?: number; of?: number; join?: number;
}
interface FieldDoc { type?: string; reducer: string; aggregates: boolean; ephemeral?: boolean; untracked?: boolean; redacted?: boolean; [more: string]: unknown }

// -- threads ----------------------------------------------------------------------------------------------------------

interface ThreadsPage { threads: ThreadRow[]; next: string | null }      // next: `after` of the next page
interface ThreadRow {
  graph: string; thread: string; status: Status; title: string | null; tags: string[];
  seq: number; created_at: number; updated_at: number; owned: boolean; priority: number;
  error: string | null;         // of a failed one
  cost_usd: number | null; tokens: number | null;   // of its last run; null: not known without reading the journal
  build: number | null;         // version of the graph that it belongs to; null if unknown
}
interface InboxPage { questions: InboxRow[]; next: string | null }
interface InboxRow extends Question { graph: string; thread: string; title: string | null; status: Status; asked_at: number }

interface Question {
  id: string; kind: string; node: string; task: string;
  payload: Value;
  /** JSON schema of an answer, for a form; {} takes any JSON. Of an approval: what it decides on is in `payload`. */
  schema: { [name: string]: unknown };
  expires_at: number | null; has_default: boolean; default: Value; stale: boolean;
  answerable: boolean;          // false: a timer, signal, child thread or worker answers it
}

interface ThreadDoc {
  graph: string; thread: string; status: Status; title: string | null; tags: string[]; tenant: string | null;
  seq: number; first: number;   // first: 1, or the first entry after a prune
  created_at: number; updated_at: number; owned: boolean; priority: number;
  code: boolean;                // as GraphDoc.code; topology, version and fingerprint as there
  version: number | null; fingerprint: string; topology: Topology;
  rows: number;                 // number of rows so far
  next: string[];               // nodes that run next
  error: string | null;         // class and first line of the error that the thread failed with
  questions: Question[];
  stopped: string[];            // the text of interrupted replies
  runs: Run[];
  usage: Usage;                 // of all runs
  origin: { kind: "fork" | "copy" | "child"; graph: string; thread: string; at: number | null } | null;
  children: { thread: string; graph: string; task: string }[];
  erased: number;               // values that were erased
  redaction: string;            // redaction rules of the last run; "" for none
}
interface Run {
  id: string; row: number; seq: number; at: number; ended_at: number | null;
  /** How it ended; "running" while it has not. */
  status: Status | "handed over"; user: string; supersteps: number; usage: Usage; error: string | null; build: string;
}
interface Usage { calls: number; input_tokens: number; output_tokens: number; total_tokens: number; cost_usd: number | null; [more: string]: unknown }

// -- rows: one line for each event ---------------------------------------------------------------------------------

interface RowsPage { rows: Row[]; total: number; seq: number }   // total: number of rows up to entry `seq`

/**
 * One line of the timeline: a task that ended, failed or paused; or what changed the state, or a run, from outside.
 * The state after row n is the fold of the `ops` of rows 0 to n. Rows of nested graphs have a `path`, and no ops: what
 * they wrote comes with the row of their outermost task.
 */
interface Row {
  n: number;                    // from 0, without gaps: position in the list and in deep links
  kind: "task" | "input" | "edit" | "fork" | "migration" | "stopped" | "pruned" | "resumed" | "ended" | "fatigue"
    | "retried";                // a task whose attempt failed and is repeated; it has a row of its own when it ends
  seq: number;                  // entry after which it is placed
  at: number;                   // time of that entry
  began_at: number | null;      // when its superstep became due; null if unknown. Not the node's own time, which no journal has
  run: string;                  // id
  superstep: number;            // of the graph at its path; 0 before the first
  path: string;                 // ids of the tasks that run the nested graphs around it, with "/"; "" at the top
  node: string | null; task: string | null;
  attempt: number;              // from 1
  outcome: "success" | "error" | "handled" | "interrupted" | null;    // of a task; handled: an on_error node takes over
  user: string;                 // the user who started, resumed or edited; "" if unknown
  text: string;                 // one line: the error, the question, how a run ended, what an edit was for
  ops: Op[];
  wrote: string[];              // fields that it wrote; also of nested rows
  /** Edges that were taken after it: indexes into `edges` of the topology at its path. A router's label is not journalled: an edge counts if its target became due. */
  edges: number[];
  goto: string[] | null;        // targets of a Command
  calls: CallRef[];             // model calls, in order
  tools: ToolRef[];             // effects and tool calls, in order
  asked: string[];              // ids of its questions
  answers: AnswerRef[];         // answers to it
  usage: Usage | null;
}

/** A change of the state. `path` begins with the name of a field; numbers are positions in lists. An op whose path leads into a mark is skipped: the value is only known from `state`. Paths can contain any text, "__proto__" excepted. */
type Op =
  | ["=", (string | number)[], Value]                       // set
  | ["-", (string | number)[]]                              // remove a field or key
  | ["+", (string | number)[], Value[]]                     // append items to a list
  | ["~", (string | number)[], number, number, Value[]];    // splice a list: position, how many go, what comes

interface CallRef { seq: number; model: string | null; input_tokens: number; output_tokens: number; cost_usd: number | null; tools: string[]; text: string; at: number }
interface ToolRef { seq: number; name: string; kind: "tool" | "effect"; at: number; arguments: Value; result: Value }
interface AnswerRef { seq: number; id: string; by: string; user: string; answer: Value; at: number }

interface StateDoc { at: number; status: Status | null; values: { [field: string]: Value }; code: boolean }

// -- journal ------------------------------------------------------------------------------------------------------------

interface EntriesPage { entries: EntryDoc[]; more: boolean }
interface EntryDoc { seq: number; at: number; run: string; cause: number; path: string; event: string; data: { [name: string]: Value } }

// -- model calls --------------------------------------------------------------------------------------------------------

interface CallDoc {
  seq: number; at: number; task: string; node: string; model: string | null; usage: Usage | null;
  reply: { text: string; thinking: string; tool_calls: { id: string; name: string; arguments: Value }[]; finish: string; rest: Value };
  /** The prompt; null: ask `prompt`, or see `prompt_problem`. In a file it is here if it could be rebuilt. */
  prompt: Prompt | null;
  prompt_problem: string;       // why it is missing: a sentence; "" if `prompt` may be asked for
}
/** The request to a model. No journal has prompts, only their digests: they are rebuilt by running the nodes on the recording, without models, tools or effects, and are shown only if the digest is the recorded one. */
interface PromptDoc { seq: number; prompt: Prompt | null; problem: string }
interface Prompt {
  messages: Message[];
  tools: { name: string; description: string; parameters: Value }[];
  output: Value;                // schema of the requested output; null without
  settings: { [name: string]: Value };
}
interface Message { role: string; parts: Part[]; id: string | null }
type Part =
  | { kind: "text" | "thinking"; text: string | Cut }
  | { kind: "call"; id: string; name: string; arguments: Value }
  | { kind: "result"; id: string; name: string; error: boolean; value: Value }
  | { kind: "media"; media: Media }
  | { kind: "question"; id: string; payload: Value; answer: Value; answered: boolean; by: string }
  | { kind: "error"; text: string }
  | { kind: "data"; value: Value };

interface ConversationDoc { messages: (Message & { seq: number; at: number })[] }
interface ValueDoc { value: Value; text: string | null; data: string | null }   // one of them: text of a cut text, base64 of bytes

// -- compare, audit, coverage, case ---------------------------------------------------------------------------------------

interface CompareDoc {
  same: boolean;
  left: EntryDoc | null; right: EntryDoc | null;      // the first entries that differ; null: that side has ended
  left_row: number | null; right_row: number | null;  // rows at or after them
  fields: string[];
  sentence: string;
}
interface AuditDoc {
  /** "intact": all was checked; "damaged"; "unchecked": nothing to verify with (no chain, no key). */
  verdict: "intact" | "damaged" | "unchecked";
  sentence: string;
  chained: boolean; keyed: boolean;
  problems: string[];
  heads: { seq: number; at: number; digest: string }[];
  erasures: { seq: number; at: number; by: string; reason: string; lines: number }[];
  redactions: { seq: number; rules: string }[];
}
interface CoverageDoc {
  graph: string; file: string; percent: number; count: number; taken: number;
  arcs: CoverageArc[];
}
interface CoverageArc {
  id: string; path: string;     // names of nodes that lead to a nested graph, with "/"; "" at the top
  kind: string; source: string; target: string; label: string;
  taken: boolean; tests: number; sample: string[];    // sample: at most 5 tests
  possible: boolean | null;     // of one that no test took: whether an explorer took it; null if none looked
  edge: number | null;          // index into `edges` of the topology at its path; null if it is none
}
interface CaseDoc { name: string; text: string; seq: number }

// -- live and acting ------------------------------------------------------------------------------------------------------

/** Events of `api/live`, by the `event:` line; the `id:` line is the position to continue from. */
type LiveEvent =
  | { event: "entry"; data: EntryDoc }        // after one, the page asks for the new rows
  | { event: "live"; data: LiveDoc }
  | { event: "end"; data: { status: Status; seq: number } }      // the run has ended; the stream closes
  | { event: "problem"; data: Problem };
interface LiveDoc {
  mode: "messages" | "live" | "custom";
  task: string; node: string | null; path: string;
  /** messages: "text", "thinking", "tool"; live: started, retrying, ended, step, withdrawn (withdraws the items of the task); custom: "value". */
  what: string;
  text: string;                 // a delta of a reply
  value: Value;
  missed: number;               // items before this one that were lost
}
interface Act { graph: string; thread: string; verb: Verb; answers?: { [id: string]: unknown } }
interface Acted { thread: string; status: Status; seq: number }

/** The requests of the page: over HTTP, or to the data in a file. A rejection is a `Problem`. */
interface Source {
  head(): Promise<Head>;
  graph(graph: string): Promise<GraphDoc>;
  threads(query: { graph?: string; status?: string; text?: string; tag?: string; after?: string; limit?: number }): Promise<ThreadsPage>;
  inbox(query: { graph?: string; after?: string; limit?: number }): Promise<InboxPage>;
  thread(ref: ThreadRef): Promise<ThreadDoc>;
  rows(ref: ThreadRef, from: number, limit: number): Promise<RowsPage>;
  entries(ref: ThreadRef, after: number, limit: number): Promise<EntriesPage>;
  state(ref: ThreadRef, at?: number): Promise<StateDoc>;
  call(ref: ThreadRef, seq: number): Promise<CallDoc>;
  prompt(ref: ThreadRef, seq: number): Promise<PromptDoc>;
  conversation(ref: ThreadRef): Promise<ConversationDoc>;
  value(ref: ThreadRef, token: string): Promise<ValueDoc>;
  compare(ref: ThreadRef, other: string): Promise<CompareDoc>;
  audit(ref: ThreadRef): Promise<AuditDoc>;
  coverage(graph: string): Promise<CoverageDoc>;
  case(ref: ThreadRef, at: number): Promise<CaseDoc>;
  act(act: Act): Promise<Acted>;
  live(ref: ThreadRef, after: string, on: (event: LiveEvent) => void): () => void;
}

// -- file -----------------------------------------------------------------------------------------------------------------

/**
 * The data in a file: base64 of gzip of this, as `<script type="application/octet-stream;base64" id="data">...</script>`.
 * If there is such an element, the page is a file; otherwise it is served, and sends requests below `<meta name="api" content="api/">`.
 * `why` needs no document: a row says what it wrote, and a node what it reads; the page follows the rows back.
 */
interface FileData {
  head: Head; graph: GraphDoc; thread: ThreadDoc;
  rows: Row[]; entries: EntryDoc[];
  calls: { [seq: string]: CallDoc };
  conversation: ConversationDoc;
  audit: AuditDoc | null; coverage: CoverageDoc | null;
  cases: { [at: string]: CaseDoc };       // of the failed or last superstep, if it could be written
}
