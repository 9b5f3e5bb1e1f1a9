// The steps of a thread: its graph, the list of steps, and the details of the selected step.

import { amount, fill, fold, h, markOf, money, small, span, statusClass } from "./dom.js";
import { DetailPane } from "./detail.js";
import { GraphView } from "./graph.js";
import { edgeKey, keyOf } from "./layout.js";
import { commands } from "./keys.js";
import { go } from "./routes.js";
import { VirtualList } from "./vlist.js";

const HEIGHT = 34;
const SHOWS = { all: "All steps", failed: "Failed", asked: "Asked or answered", model: "Model calls", top: "Not nested" };
const KINDS = /** @type {Record<string, string>} */ ({
  input: "input", edit: "edited", fork: "forked", migration: "migrated", stopped: "stopped", pruned: "pruned",
    resumed: "resumed", ended: "ended", fatigue: "too many visits", retried: "retried",
});

export class StepsPanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    this.selected = -1;
    /** @type {number[]} The rows of the list after filtering. */
    this.visible = [];
    /** @type {Set<string>} Paths of tasks whose nested steps are hidden. */
    this.closed = new Set();
    /** @type {Set<string>} Paths of tasks that have nested steps. */
    this.nested = new Set();
    /** @type {{ from: number, to: number }[]} The time of each row, without idle time. */
    this.times = [];
    this.active = 0;
    this.cursor = 0;
    this.show_ = "all";
    this.text = "";
    /** @type {number | undefined} */ this.drawing = undefined;
    /** @type {Map<string, string> | undefined} */ this.covered = undefined;
    this.graph = new GraphView({ onselect: (key) => this.goNode(key) });
    this.graph.show(shared.recording.doc.topology);
    this.list = new VirtualList({
      label: "Steps", height: HEIGHT, row: (at) => this.row(at), rowClass: (at) => this.rowClass(at),
      onselect: (at) => this.goVisible(at), onfold: (at, open) => this.fold(at, open),
    });
    this.detail = new DetailPane(shared);
    this.filter = this.makeFilter();
    this.coverage = shared.app.head.coverage.includes(shared.ref.graph)
      ? small("Coverage", () => this.toggleCoverage(), { "aria-pressed": "false" }) : null;
    if (this.coverage) this.graph.element.append(h("div", { class: "graph-more" }, this.coverage));
    this.count = h("span", { class: "quiet num" });
    const panes = { graph: this.graph.element, list: h("div", { class: "list-pane" },
      h("div", { class: "list-head" }, this.filter, this.count), this.list.element), detail: this.detail.element };
    const names = { graph: "Graph", list: "Steps", detail: "Detail" };
    this.switch = h("div", { class: "panes-switch", role: "group", "aria-label": "Pane" },
      Object.entries(names).map(([pane, name]) => h("button",
        { type: "button", "data-pane": pane, "aria-pressed": "false", onclick: () => this.showPane(pane) }, name)));
    this.element = h("div", { class: "steps", "data-pane": "list" }, this.switch, panes.graph, panes.list, panes.detail);
    this.showPane("list");
  }

  /** @param {string} pane The visible one of the three on a narrow screen. */
  showPane(pane) {
    this.element.dataset["pane"] = pane;
    for (const button of this.switch.children) button.setAttribute("aria-pressed", String(button.getAttribute("data-pane") === pane));
  }

  makeFilter() {
    const input = h("input", { type: "search", placeholder: "Node, text or field", "aria-label": "Filter the steps", autocomplete: "off" });
    const select = h("select", { "aria-label": "Kinds of steps" }, Object.entries(SHOWS).map(([value, name]) => h("option", { value }, name)));
    const changed = () => {
      this.text = input.value.toLowerCase();
      this.show_ = select.value;
      this.sift();
    };
    input.addEventListener("input", changed);
    select.addEventListener("change", changed);
    return h("div", { class: "filter", role: "search" }, input, select);
  }

  refresh() {
    this.measure();
    this.sift();
  }

  show(/** @type {Route} */ route) {
    const { rows } = this.shared.recording;
    if (this.times.length !== rows.length) this.refresh();
    const wanted = route.item === "" ? this.first() : Number(route.item);
    this.detail.tab = route.query["tab"] ?? "changes";
    this.detail.call = Number(route.query["call"] ?? 0);
    const far = this.selected !== wanted;
    this.selected = Number.isInteger(wanted) ? Math.max(-1, Math.min(wanted, rows.length - 1)) : -1;
    this.list.select(this.visible.indexOf(this.selected));
    if (far && this.element.isConnected && route.item !== "" && this.entered) this.showPane("detail");
    this.entered = true;
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = undefined;
      this.draw();
    });
    this.declare();
  }

  /** The default step: the failed one of a failed thread, otherwise the last task. */
  first() {
    const { rows, doc } = this.shared.recording;
    const failed = doc.status === "failed" ? rows.findLastIndex((row) => row.outcome === "error") : -1;
    return failed >= 0 ? failed : rows.findLastIndex((row) => row.kind === "task");
  }

  draw() {
    const { recording } = this.shared;
    const overlay = recording.overlay(this.selected);
    if (this.covered) overlay.coverage = this.covered;
    this.graph.update(overlay);
    if (overlay.selected) this.graph.reveal(overlay.selected);
    this.detail.show(recording.rows[this.selected] ?? null);
  }

  declare() {
    const next = (/** @type {(row: Row) => boolean} */ wanted) => () => {
      const { rows } = this.shared.recording;
      const at = rows.findIndex((row) => row.n > this.selected && wanted(row));
      const n = at >= 0 ? at : rows.findIndex(wanted);
      if (n >= 0) this.shared.goRow(n);
    };
    const here = () => this.shared.recording.rows[this.selected];
    commands("Steps", [
      { key: "j", does: "Next step", run: () => this.list.move(1) },
      { key: "k", does: "Previous step", run: () => this.list.move(-1) },
      { key: "n", does: "Next step of this node", run: () => next((row) => row.node === here()?.node && row.path === here()?.path)() },
      { key: "e", does: "Next failed step", run: next((row) => row.outcome === "error" || row.outcome === "handled") },
      { key: "q", does: "Next step with a question or an answer", run: next((row) => row.asked.length + row.answers.length > 0) },
      { key: "b", does: "Next step with a model call", run: next((row) => row.calls.length > 0) },
      { key: "/", does: "Filter the steps", run: () => this.filter.querySelector("input")?.focus() },
      { key: "g", does: "Go to the graph", run: () => (this.showPane("graph"), this.graph.canvas.focus()) },
      { key: "o", does: "Go to the list", run: () => (this.showPane("list"), this.list.element.focus()) },
      { key: "z", does: "Show or hide the steps of nested graphs", run: () => this.foldAll() },
      ...(this.coverage ? [{ key: "v", does: "Show route coverage on the graph", run: () => this.toggleCoverage() }] : []),
      ...this.detail.commands((query) => this.goTab(query)),
    ]);
  }

  goTab(/** @type {Record<string, string>} */ query) {
    this.showPane("detail");
    const { ref } = this.shared;
    go({ view: "thread", ref, tab: "steps", item: String(this.selected), query }, true);
  }

  goVisible(/** @type {number} */ at) {
    const n = this.visible[at];
    if (n !== undefined) this.shared.goRow(n);
  }

  goNode(/** @type {string} */ key) {
    const { rows } = this.shared.recording;
    const n = rows.findLastIndex((row) => row.node !== null && row.kind === "task" && keyOf(this.shared.recording.pathOf(row)) === key);
    if (n >= 0) this.shared.goRow(n);
  }

  /** Compute the times of new rows. Pauses between runs take no space. */
  measure() {
    const { rows } = this.shared.recording;
    for (let at = this.times.length; at < rows.length; at++) {
      const row = /** @type {Row} */ (rows[at]);
      const from = Math.min(row.began_at ?? row.at, row.at);
      if (from > this.cursor) this.cursor = from;
      const start = Math.max(0, this.active - (this.cursor - from));
      if (row.at > this.cursor) {
        this.active += row.at - this.cursor;
        this.cursor = row.at;
      }
      this.times.push({ from: start, to: Math.max(start, this.active - (this.cursor - row.at)) });
      const parts = row.path ? row.path.split("/") : [];
      for (let depth = 1; depth <= parts.length; depth++) this.nested.add(parts.slice(0, depth).join("/"));
    }
  }

  /** Find the rows that match the filters. */
  sift() {
    const { rows } = this.shared.recording;
    this.visible = [];
    for (const row of rows) if (this.isVisible(row)) this.visible.push(row.n);
    fill(this.count, this.visible.length === rows.length ? `${rows.length.toLocaleString("en-US")}${rows.length < this.shared.recording.total ? " …" : ""}` : `${this.visible.length} of ${rows.length}`);
    this.list.show(this.visible.length);
    this.list.select(this.visible.indexOf(this.selected));
  }

  isVisible(/** @type {Row} */ row) {
    if (this.show_ === "failed" && row.outcome !== "error" && row.outcome !== "handled") return false;
    if (this.show_ === "asked" && row.asked.length + row.answers.length === 0) return false;
    if (this.show_ === "model" && row.calls.length === 0) return false;
    if (this.show_ === "top" && row.path) return false;
    if (this.closed.size && row.path) {
      const parts = row.path.split("/");
      if (parts.some((_, depth) => this.closed.has(parts.slice(0, depth + 1).join("/")))) return false;
    }
    if (!this.text) return true;
    const words = [row.node ?? "", row.text, KINDS[row.kind] ?? "", ...row.wrote, ...row.tools.map((one) => one.name),
      ...row.calls.map((one) => one.model ?? "")];
    return words.some((word) => word.toLowerCase().includes(this.text));
  }

  // Open or close the nested rows of a row; from a nested row, go to its parent.
  fold(/** @type {number} */ at, /** @type {boolean} */ open) {
    const row = this.shared.recording.rows[this.visible[at] ?? -1];
    if (!row?.task) return false;
    const own = row.task;
    if (this.nested.has(own) && this.closed.has(own) === open) {
      if (open) this.closed.delete(own);
      else this.closed.add(own);
      this.sift();
      return true;
    }
    if (open || !row.path) return false;
    const around = this.shared.recording.rows.findIndex((one) => one.n > row.n && one.task === row.path);
    if (around >= 0) this.shared.goRow(around);
    return around >= 0;
  }

  foldAll() {
    if (this.closed.size) this.closed.clear();
    else for (const path of this.nested) this.closed.add(path);
    this.sift();
  }

  rowClass(/** @type {number} */ at) {
    const row = this.shared.recording.rows[this.visible[at] ?? -1];
    return row ? `is-${statusClass(row.outcome ?? "")}${row.kind === "task" ? "" : " outside"}` : "";
  }

  row(/** @type {number} */ at) {
    const n = this.visible[at] ?? 0;
    const row = this.shared.recording.rows[n];
    if (!row) return [];
    const depth = row.path ? row.path.split("/").length : 0;
    const name = h("span", { class: "step-name" }, row.node ?? KINDS[row.kind] ?? row.kind);
    name.style.paddingInlineStart = `${depth * 14}px`;
    const own = row.task ?? "";
    const time = this.times[n];
    const bar = h("span", { class: "bar" });
    if (time && this.active > 0) {
      const fill = h("span", {});
      fill.style.left = `${Math.min(97, (time.from / this.active) * 100)}%`;
      fill.style.width = `${Math.max(2, ((time.to - time.from) / this.active) * 100)}%`;
      bar.append(fill);
    }
    const tokens = row.usage?.total_tokens ?? 0;
    const cost = money(row.usage?.cost_usd);
    return [
      h("span", { class: "step-n num quiet" }, row.n),
      h("span", { class: "step-mark", role: "img", "aria-label": row.outcome ?? row.kind }, row.kind === "task"
        ? markOf(row.outcome ?? "running") : "·"),
      h("span", { class: "step-what" }, name, row.attempt > 1 ? badge(`attempt ${row.attempt}`) : null,
        this.nested.has(own) ? badge(this.closed.has(own) ? "▸ nested" : "▴ nested") : null,
        row.calls.length ? badge(`✦ ${row.calls.length}`, `${row.calls.length} model calls`) : null,
        row.tools.length ? badge(`⚙ ${row.tools.length}`, `${row.tools.length} tools and effects`) : null,
        row.answers.length ? badge(`↩ ${row.answers[0]?.user || "answered"}`,
          `answered${row.answers[0]?.user ? ` by ${row.answers[0].user}` : ""}`) : row.asked.length ? badge("? asked") : null,
        h("span", { class: "step-text quiet" }, row.text || (row.user ? `by ${row.user}` : row.wrote.join(", ")))),
      h("span", { class: "step-amount num quiet", title: cost }, tokens ? `${amount(tokens)} tok` : ""),
      h("span", { class: "step-time num quiet" }, row.began_at === null ? "" : span(row.at - row.began_at)), bar,
    ];
  }

  async toggleCoverage() {
    const { app, ref, recording } = this.shared;
    if (this.covered) this.covered = undefined;
    else {
      const { arcs } = await app.source.coverage(ref.graph);
      const taken = recording.overlay(recording.rows.length - 1).edges;
      this.covered = new Map();
      for (const arc of arcs) {
        const around = arc.path ? arc.path.split("/") : [];
        const edge = arc.edge === null ? null : recording.topologyAt(around)?.edges[arc.edge];
        if (!edge) continue;
        const key = edgeKey(around, edge.from, edge.to);
        const now = arc.taken ? "tested" : taken.has(key) ? "only here" : arc.possible === false ? "not reached" : "no test";
        if (this.covered.get(key) !== "tested") this.covered.set(key, now);
      }
    }
    this.coverage?.setAttribute("aria-pressed", String(Boolean(this.covered)));
    this.draw();
  }
}

/** @param {string} text @param {string} [title] */
function badge(text, title) {
  return h("span", { class: "badge", title }, text);
}
