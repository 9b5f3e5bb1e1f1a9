// A recording of a thread: its rows, and derived data: the state at any row, counts in the graph, writers of a field.

import { END, START, edgeKey, keyOf } from "./layout.js";
import { isTree } from "./json.js";

const KEYFRAME = 100;
const PAGE = 2000;

export class Recording {
  constructor(/** @type {Source} */ source, /** @type {ThreadRef} */ ref, /** @type {ThreadDoc} */ doc) {
    this.source = source;
    this.ref = ref;
    this.doc = doc;
    /** @type {Row[]} */ this.rows = [];
    this.total = doc.rows;
    /** @type {Map<number, Container>} The states before every hundredth row. */
    this.keyframes = new Map([[0, {}]]);
    /** @type {Map<string, string>} Names of nodes by the paths of their tasks. */
    this.nodes = new Map();
    /** @type {Map<string, string[]>} */ this.paths = new Map();
    /** @type {Map<string, number[]>} The rows that wrote a field of the outermost graph. */
    this.writers = new Map();
    /** @type {Promise<void> | null} */ this.loading = null;
    this.again = false;
  }

  // Load the missing rows; a call during a load repeats it at the end.
  /** @param {() => void} progress Called after each page. */
  load(progress) {
    if (this.loading) {
      this.again = true;
      return this.loading;
    }
    this.loading = this.loadAll(progress).finally(() => (this.loading = null));
    return this.loading;
  }

  async loadAll(/** @type {() => void} */ progress) {
    do {
      this.again = false;
      for (;;) {
        const page = await this.source.rows(this.ref, this.rows.length, PAGE);
        for (const row of page.rows) this.take(row);
        this.total = Math.max(page.total, this.rows.length);
        progress();
        if (!page.rows.length || this.rows.length >= this.total) break;
      }
    } while (this.again);
  }

  take(/** @type {Row} */ row) {
    this.rows.push(row);
    if (row.task && row.node) this.nodes.set(row.task, row.node);
    if (row.path) return;
    for (const field of row.wrote) {
      const known = this.writers.get(field);
      if (known) known.push(row.n);
      else this.writers.set(field, [row.n]);
    }
  }

  // The state after a row; -1 is before the first.
  /** @param {number} n @returns {Record<string, any>} */
  stateAfter(n) {
    const until = Math.min(n, this.rows.length - 1);
    let at = Math.floor((until + 1) / KEYFRAME) * KEYFRAME;
    while (!this.keyframes.has(at)) at -= KEYFRAME;
    let state = /** @type {Container} */ (this.keyframes.get(at));
    let own = new WeakSet();
    for (; at <= until; at++) {
      if (at % KEYFRAME === 0 && !this.keyframes.has(at)) {
        this.keyframes.set(at, state);
        own = new WeakSet();
      }
      for (const op of /** @type {Row} */ (this.rows[at]).ops) state = applied(state, op, own);
    }
    return /** @type {Record<string, any>} */ (state);
  }

  // The names of the nodes that lead to a row's node, itself included.
  pathOf(/** @type {Row} */ row) { return [...this.around(row.path), ...(row.node ? [row.node] : [])]; }

  // The names of the nodes for a path of tasks.
  /** @param {string} path @returns {string[]} */
  around(path) {
    if (!path) return [];
    const known = this.paths.get(path);
    if (known) return known;
    const parts = path.split("/");
    const names = parts.map((task, at) => this.nodes.get(parts.slice(0, at + 1).join("/")) ?? task.replace(/^[^:]*:/, "").replace(/#.*$/, ""));
    if (parts.every((_, at) => this.nodes.has(parts.slice(0, at + 1).join("/")))) this.paths.set(path, names);
    return names;
  }

  // The topology that the nodes of a path belong to.
  /** @param {string[]} names @returns {Topology | null} */
  topologyAt(names) {
    /** @type {Topology | undefined} */ let topology = this.doc.topology;
    for (const name of names) topology = topology?.nodes.find((node) => node.name === name)?.graph;
    return topology ?? null;
  }

  // The overlay of the graph after a row.
  /** @param {number} n @returns {Overlay} */
  overlay(n) {
    /** @type {Overlay} */
    const overlay = { nodes: new Map(), edges: new Map(), selected: null };
    /** @type {Map<string, Topology | null>} */ const topologies = new Map();
    const count = (/** @type {string} */ key, /** @type {string} */ status) => {
      overlay.nodes.set(key, { status, count: (overlay.nodes.get(key)?.count ?? 0) + 1 });
    };
    for (let at = 0; at <= n && at < this.rows.length; at++) {
      const row = /** @type {Row} */ (this.rows[at]);
      const around = this.around(row.path);
      if (row.node && row.kind === "task") count(keyOf([...around, row.node]), STATUS[row.outcome ?? ""] ?? "running");
      if (!topologies.has(row.path)) topologies.set(row.path, this.topologyAt(around));
      for (const index of row.edges) {
        const edge = topologies.get(row.path)?.edges[index];
        if (!edge) continue;
        const key = edgeKey(around, edge.from, edge.to);
        overlay.edges.set(key, (overlay.edges.get(key) ?? 0) + 1);
        for (const end of [edge.from, edge.to]) if (end === START || end === END) overlay.nodes.set(keyOf([...around,
          end]), { status: "completed", count: 1 });
      }
    }
    if (n >= this.rows.length - 1) this.overlayNow(overlay, count);
    const row = this.rows[n];
    if (row) overlay.selected = keyOf(this.pathOf(row));
    return overlay;
  }

  // The tasks that run or wait now.
  /** @param {Overlay} overlay @param {(key: string, status: string) => void} count */
  overlayNow(overlay, count) {
    const { status, next, questions } = this.doc;
    for (const node of next) {
      const key = keyOf([node]);
      const known = overlay.nodes.get(key)?.count ?? 0;
      const now = questions.some((one) => one.node === node) ? "waiting" : status === "failed"
        ? "failed" : status === "running" ? "running" : "due";
      if (!known) count(key, now);
      else overlay.nodes.set(key, { status: now, count: known });
    }
  }

  // The rows that a row's node read from: for each field that it reads, the last writer.
  inputsOf(/** @type {Row} */ row) {
    const before = this.began(row);
    const node = this.doc.topology.nodes.find((one) => one.name === row.node);
    const fields = node?.reads ?? Object.keys(this.doc.topology.state);
    return fields.map((field) => ({ field, writer: this.writerBefore(field, before), declared: Boolean(node?.reads) }))
      .filter((one) => one.writer !== null || one.declared)
      .sort((a, b) => (b.writer ?? -1) - (a.writer ?? -1));
  }

  // The first row of the superstep of a row: its task saw the writes before it.
  began(/** @type {Row} */ row) {
    let n = row.n;
    while (n > 0) {
      const before = /** @type {Row} */ (this.rows[n - 1]);
      if (before.path === "" && (before.run !== row.run || before.superstep !== row.superstep || before.kind !== "task")) break;
      n--;
    }
    return n;
  }

  // The last row before *n* that wrote a field.
  writerBefore(/** @type {string} */ field, /** @type {number} */ n) {
    const all = this.writers.get(field) ?? [];
    for (let at = all.length - 1; at >= 0; at--) if (/** @type {number} */ (all[at]) < n) return /** @type {number} */ (all[at]);
    return null;
  }

  // The rows that a value of a field consists of at a position, newest first: one, or all since it was last set.
  madeBy(/** @type {string} */ field, /** @type {number} */ n) {
    const all = (this.writers.get(field) ?? []).filter((one) => one <= n).reverse();
    if (!this.doc.topology.state[field]?.aggregates) return all.slice(0, 1);
    // A task sets a sum each time, but a list or an object only when it replaces it.
    const sets = (/** @type {Row} */ row) => row.ops.some((op) =>
      op[0] === "=" && op[1].length === 1 && op[1][0] === field && (row.kind !== "task" || isTree(op[2])));
    const set = all.findIndex((one) => sets(/** @type {Row} */ (this.rows[one])));
    return set < 0 ? all : all.slice(0, set + 1);
  }
}

/** @type {Record<string, string>} */
const STATUS = { success: "completed", error: "failed", handled: "failed", interrupted: "waiting" };

// A state after an operation. Objects outside *own* are copied before a change, and the copies added to it.
/** @param {Container} state @param {Op} op @param {WeakSet<object>} own @returns {Container} */
function applied(state, op, own) {
  const [, path] = op;
  const root = owned(state, own);
  /** @type {any} */ let at = root;
  for (const key of path.slice(0, -1)) {
    const next = Object.hasOwn(at, key) ? at[key] : undefined;
    if (!isTree(next) || isMark(next)) return root;
    at = at[key] = owned(next, own);
  }
  const last = path.at(-1);
  if (last === undefined) return op[0] === "=" && isTree(op[2]) ? /** @type {Container} */ (op[2]) : root;
  const target = Object.hasOwn(at, last) ? at[last] : undefined;
  if (op[0] === "=") at[last] = op[2];
  else if (op[0] === "-") Array.isArray(at) ? at.splice(Number(last), 1) : delete at[last];
  else if (target === undefined || Array.isArray(target)) {
    const list = (at[last] = owned(target ?? [], own));
    if (op[0] === "+") for (const one of op[2]) list.push(one);
    else if (op[0] === "~") own.add((at[last] = [...list.slice(0, op[2]), ...op[4], ...list.slice(op[2] + op[3])]));
  }
  return root;
}

/** @param {any} container @param {WeakSet<object>} own @returns {any} */
function owned(container, own) {
  if (own.has(container)) return container;
  const copy = Array.isArray(container) ? container.slice() : { ...container };
  own.add(copy);
  return copy;
}

// Whether an object is the placeholder of a value.
export function isMark(/** @type {unknown} */ value) {
  if (!isTree(value) || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => key.startsWith("$"));
}
