// A thread: its status, its questions or its failure, and its views.

import { age, amount, chip, copier, copy, facts, fill, h, moment, money, notify, plural, remark, sign, span } from "./dom.js";
import { brief, codeBlock } from "./json.js";
import { commands } from "./keys.js";
import { address, go } from "./routes.js";
import { reasonOf } from "./source.js";
import { Recording } from "./recording.js";
import { StepsPanel } from "./steps.js";
import { TalkPanel } from "./talk.js";
import { FieldsPanel } from "./fields.js";
import { JournalPanel } from "./journal.js";
import { ComparePanel } from "./compare.js";
import { AboutPanel } from "./about.js";
import { questionCard } from "./threads.js";

const PANELS = {
  steps: ["Steps", "s", StepsPanel],
  conversation: ["Conversation", "c", TalkPanel],
  fields: ["Fields", "f", FieldsPanel],
  journal: ["Journal", "l", JournalPanel],
  compare: ["Compare", "x", ComparePanel],
  about: ["About", "a", AboutPanel],
};
const PIECES = 4000;

export class ThreadView {
  constructor(/** @type {App} */ app, /** @type {ThreadRef} */ ref) {
    this.app = app;
    this.ref = ref;
    /** @type {Map<string, Panel>} */ this.panels = new Map();
    /** @type {Recording | null} */ this.recording = null;
    /** @type {Route | null} */ this.route = null;
    /** @type {(() => void) | null} */ this.stop = null;
    /** @type {Map<string, { node: string, text: string }>} The text of running tasks so far, by path and task. */
    this.saying = new Map();
    /** @type {number | undefined} */ this.drawing = undefined;
    this.closed = false;
    this.head = h("header", { class: "thread-head" });
    this.banner = h("div", { class: "banners" });
    this.now = h("div", { class: "now", role: "log", "aria-label": "Running tasks", hidden: true });
    this.tabs = h("nav", { class: "tabs", "aria-label": "Views of the thread" });
    this.body = h("div", { class: "thread-body" }, h("p", { class: "empty" }, "Loading…"));
    this.element = h("section", { class: "thread", "aria-label": "Thread" }, this.head, this.banner, this.now, this.tabs, this.body);
    this.opened = this.open();
  }

  title() { return this.recording?.doc.title || this.ref.thread; }

  /** @param {Route} route */
  takes({ view, ref }) { return view === "thread" && ref?.graph === this.ref.graph && ref.thread === this.ref.thread; }

  close() {
    this.stop?.();
    this.closed = true;
  }

  async open() {
    try {
      const { source } = this.app;
      const doc = await source.thread(this.ref);
      const recording = new Recording(source, this.ref, doc);
      this.recording = recording;
      this.shared = this.share(recording);
      this.drawHead();
      await recording.load(() => this.refreshPanel(true));
      this.drawHead();
      this.follow();
    } catch (error) {
      fill(this.body, h("p", { class: "empty bad", role: "alert" }, reasonOf(error)));
    }
  }

  /** @param {Recording} recording @returns {Shared} */
  share(recording) {
    const { app, ref } = this;
    const goRow = (/** @type {number} */ n, query = this.route?.tab === "steps" ? this.route.query : {}) =>
      go({ view: "thread", ref, tab: "steps", item: String(n), query }, this.route?.tab === "steps");
    const rowAddress = (/** @type {number} */ n) => address({ view: "thread", ref, tab: "steps", item: String(n) });
    return { app, ref, recording, goRow, rowAddress, writeCase: (seq) => this.writeCase(seq),
      load: (token) => app.source.value(ref, token) };
  }

  show(/** @type {Route} */ route) {
    this.route = route;
    commands("Thread", [
      ...Object.entries(PANELS).map(([tab, [name, key]]) => ({ key: /** @type {string} */ (key), does: String(name),
        run: () => go({ view: "thread", ref: this.ref, tab }) })),
      { key: "p", does: "Write the failed or last step as a pytest case", run: () => this.writeCase(null) },
      { key: "y", does: "Copy a link to this view", run: () => copy(location.href, "Link copied") },
    ]);
    this.drawTabs();
    this.refreshPanel();
  }

  // Show the panel of the route, which is created on first use.
  /** @param {boolean} [changed] Whether the thread has new entries. */
  refreshPanel(changed = false) {
    if (!this.shared || !this.route || this.closed) return;
    const tab = Object.hasOwn(PANELS, this.route.tab) ? this.route.tab : "steps";
    let panel = this.panels.get(tab);
    if (!panel) {
      const [, , Made] = /** @type {[string, string, new (shared: Shared) => Panel]} */ (PANELS[/** @type {keyof typeof PANELS} */ (tab)]);
      panel = new Made(this.shared);
      this.panels.set(tab, panel);
    } else if (changed || this.body.firstElementChild !== panel.element) panel.refresh();
    if (this.body.firstElementChild !== panel.element) this.body.replaceChildren(panel.element);
    panel.show(this.route);
  }

  drawTabs() {
    const links = Object.entries(PANELS).map(([tab, [name]]) =>
      h("a", { href: address({ view: "thread", ref: this.ref, tab }), "aria-current": tab === this.route?.tab
        ? "page" : null }, String(name)));
    fill(this.tabs, links);
    this.tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  drawHead() {
    if (!this.recording) return;
    const { doc, total, rows } = this.recording;
    const took = doc.runs.reduce((sum, run) => sum + Math.max(0, (run.ended_at ?? doc.updated_at) - run.at), 0);
    const { usage } = doc;
    const known = [
      `${doc.graph}${doc.version ? ` v${doc.version}` : ""}`, moment(doc.created_at), took ? span(took) : "", plural(total, "step"),
      usage.calls ? plural(usage.calls, "model call") : "", usage.total_tokens
        ? `${amount(usage.total_tokens)} tokens` : "", money(usage.cost_usd),
      doc.runs[0]?.user ? `started by ${doc.runs[0].user}` : "",
    ];
    const { acting } = this.app.head;
    const act = (/** @type {"retry" | "cancel"} */ verb, /** @type {string} */ label) =>
      acting.includes(verb) ? h("button", { type: "button", onclick: () => this.act(verb) }, label) : null;
    const unfinished = doc.status === "interrupted" || doc.status === "failed";
    fill(this.head, h("div", { class: "thread-title" }, h("h1", {}, doc.title || doc.thread), chip(doc.status),
      doc.tags.map((tag) => h("span", { class: "tag" }, tag))),
      facts([doc.title ? h("code", {}, doc.thread) : null, ...known]),
      h("div", { class: "actions" }, unfinished || doc.status === "cancelled" ? act("retry", "Retry") : null,
        doc.status === "interrupted" || doc.status === "running" ? act("cancel", "Cancel") : null,
        this.app.head.cases && rows.length ? h("button", { type: "button", onclick: () => this.writeCase(null) },
          "Write a test case") : null));
    this.drawBanner();
  }

  drawBanner() {
    if (!this.recording) return;
    const { doc } = this.recording;
    /** @type {(Node | null)[]} */ const parts = [];
    if (doc.status === "failed") parts.push(this.failure());
    for (const question of doc.questions) {
      parts.push(questionCard(question, this.ref, this.app, () => this.changed("Answered")));
    }
    for (const text of doc.stopped) parts.push(h("p", { class: "note" }, `A reply was interrupted after: ${text}`));
    if (!doc.code) parts.push(h("p", { class: "note" }, "The graph's code is not available: fields show their last written values, and the drawing shows what the journal recorded."));
    if (doc.first > 1) parts.push(h("p", { class: "note" }, `Entries before ${doc.first} were pruned.`));
    if (this.app.head.mode === "file") parts.push(...this.app.head.notes.map((note) => h("p", { class: "note" }, note)));
    fill(this.banner, ...parts);
  }

  /** The error of a failed thread, and a link to its step. */
  failure() {
    const row = this.failedRow();
    const { doc } = /** @type {Recording} */ (this.recording);
    const where = row ? h("a", { class: "button", href: address({ view: "thread", ref: this.ref, tab: "steps",
      item: String(row.n) }) }, `Go to step ${row.n}`) : null;
    return h("div", { class: "banner is-bad", role: "alert" }, sign("✕ "),
      h("div", {}, h("strong", {}, row?.node ? `Failed in ${row.node}` : "Failed"),
        h("div", { class: "banner-text" }, doc.error ?? row?.text ?? "")), where);
  }

  failedRow() { return this.recording?.rows.findLast((row) => row.outcome === "error" && row.path === "") ?? null; }

  async act(/** @type {"retry" | "cancel"} */ verb) {
    try {
      await this.app.source.act({ ...this.ref, verb });
      this.changed(verb === "retry" ? "Retrying" : "Cancelled");
    } catch (error) {
      notify(reasonOf(error));
    }
  }

  async changed(/** @type {string} */ message) {
    notify(message);
    await this.reload();
    this.follow();
  }

  async reload() {
    if (!this.recording || this.closed) return;
    this.recording.doc = await this.app.source.thread(this.ref);
    await this.recording.load(() => this.refreshPanel(true));
    this.drawHead();
    this.refreshPanel(true);
  }

  /** Follow a running thread. */
  follow() {
    this.stop?.();
    this.stop = null;
    if (this.closed || !this.recording || this.app.head.mode === "file") return;
    if (this.recording.doc.status !== "running" && !this.recording.doc.owned) return;
    /** @type {number | undefined} */ let waiting;
    const soon = () => {
      waiting ??= setTimeout(async () => {
        waiting = undefined;
        await this.reload().catch((error) => notify(reasonOf(error)));
      }, 250);
    };
    this.stop = this.app.source.live(this.ref, String(this.recording.doc.seq), (event) => {
      if (event.event === "entry") soon();
      else if (event.event === "live") this.hear(event.data);
      else if (event.event === "problem") notify(event.data.title);
      else {
        this.saying.clear();
        this.drawNow();
        soon();
      }
    });
  }

  hear(/** @type {LiveDoc} */ item) {
    const key = `${item.path}\u0001${item.task}`;
    if (item.what === "ended" || item.what === "withdrawn" || item.what === "step") this.saying.delete(key);
    else {
      const known = this.saying.get(key) ?? { node: item.node ?? "", text: "" };
      if (item.what === "text") known.text = (known.text + item.text).slice(-PIECES);
      else if (item.mode === "custom") known.text = brief(item.value, 400);
      this.saying.set(key, { node: item.node ?? known.node, text: known.text });
    }
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = undefined;
      this.drawNow();
    });
  }

  drawNow() {
    this.now.hidden = this.saying.size === 0;
    fill(this.now, [...this.saying.values()].map(({ node, text }) =>
      h("div", { class: "saying" }, h("strong", {}, sign("▶ "), node), " ", h("span", { dir: "auto" }, text))));
  }

  async writeCase(/** @type {number | null} */ seq) {
    if (!this.recording) return;
    const at = seq ?? (this.failedRow() ?? this.recording.rows.findLast((row) => row.kind === "task" && row.path === ""))?.seq;
    if (at === undefined || !this.app.head.cases) return notify("No test case can be written: the graph's code is not available");
    /** @type {(Node | string)[]} */ let content;
    try {
      const { name, text } = await this.app.source.case(this.ref, at - 1);
      content = [h("p", {}, "A pytest case for this step, with its recording:"),
        copier("Copy the test", text), codeBlock(text), remark(name)];
    } catch (error) {
      content = [h("p", { class: "bad", role: "alert" }, reasonOf(error))];
    }
    const dialog = h("dialog", { class: "wide", "aria-label": "Test case" }, h("h2", {}, "Test case"), content,
      h("form", { method: "dialog" }, h("button", {}, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
}
