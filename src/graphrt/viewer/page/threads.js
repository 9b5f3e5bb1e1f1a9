// All threads of a store, and the inbox of their open questions.

import { add, age, amount, chip, escaped, fill, h, moment, money, moveFocus, notify, plural, quiet, remark, sign } from "./dom.js";
import { answerForm, approvalForm } from "./forms.js";
import { isTree, tree } from "./json.js";
import { commands } from "./keys.js";
import { address, go } from "./routes.js";
import { reasonOf } from "./source.js";
import { VirtualList } from "./vlist.js";

const PAGE = 100;
const STATUSES = ["running", "interrupted", "failed", "cancelled", "completed", "new"];

export class ThreadsView {
  constructor(/** @type {App} */ app) {
    this.app = app;
    /** @type {ThreadRow[]} */ this.rows = [];
    /** @type {string | null} */ this.next = null;
    this.asked = 0;
    // The first page is kept as it is now, while somebody looks.
    this.timer = setInterval(() => document.visibilityState === "visible" && this.rows.length <= PAGE && this.load(false), 5000);
    this.list = new VirtualList({
      label: "Threads", height: 52, row: (at) => threadRow(/** @type {ThreadRow} */ (this.rows[at])),
      onselect: (at, by) => by === "click" && this.open(at), onopen: (at) => this.open(at),
    });
    this.more = h("button", { type: "button", onclick: () => this.load(true) }, "Load more");
    this.count = h("p", { class: "quiet", role: "status" });
    this.form = this.makeForm();
    this.element = h("section", { class: "threads", "aria-labelledby": "threads-title" }, h("h1", { id: "threads-title" }, "Threads"),
      app.head.notes.map((note) => h("p", { class: "note" }, note)), this.form, this.list.element,
        h("div", { class: "foot" }, this.count, this.more));
  }

  title() { return "Threads"; }

  close() { clearInterval(this.timer); }

  takes(/** @type {Route} */ route) { return route.view === "threads"; }

  makeForm() {
    const select = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string[]} */ values) =>
      h("label", {}, quiet(label), h("select", { name }, h("option", { value: "" }, "All"),
        values.map((value) => h("option", { value }, value))));
    const graphs = this.app.head.graphs.map((one) => one.graph);
    const form = h("form", { class: "filters", role: "search" },
      h("label", { class: "wide" }, quiet("Search"), h("input",
        { name: "text", type: "search", placeholder: "Title or id", autocomplete: "off" })),
      select("status", "Status", STATUSES), graphs.length > 1 ? select("graph", "Graph", graphs) : null,
      h("label", {}, quiet("Tag"), h("input", { name: "tag", autocomplete: "off", size: 10 })));
    /** @type {number | undefined} */ let waiting;
    const changed = () => {
      const query = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
      go({ view: "threads", query }, true);
    };
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(changed, 200);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      changed();
    });
    return form;
  }

  show(/** @type {Route} */ route) {
    for (const [name, value] of Object.entries({ text: "", status: "", graph: "", tag: "", ...route.query })) {
      const control = this.form.elements.namedItem(name);
      if ((control instanceof HTMLInputElement || control instanceof HTMLSelectElement) && control.value !== value) control.value = value;
    }
    this.query = route.query;
    commands("Threads", [
      { key: "/", does: "Search", run: () => /** @type {HTMLElement} */ (this.form.elements.namedItem("text")).focus() },
      { key: "j", does: "Next thread", run: () => this.list.move(1) },
      { key: "k", does: "Previous thread", run: () => this.list.move(-1) },
      { key: "Enter", does: "Open the thread", run: () => this.open(this.list.selected) },
      { key: "m", does: "Load more threads", run: () => this.load(true) },
      { key: "r", does: "Reload the list", run: () => this.load(false) },
    ]);
    this.load(false);
  }

  open(/** @type {number} */ at) {
    const row = this.rows[at];
    if (row) go({ view: "thread", ref: { graph: row.graph, thread: row.thread } });
  }

  async load(/** @type {boolean} */ more) {
    if (more && this.next === null) return;
    const asked = ++this.asked;
    try {
      const page = await this.app.source.threads({ ...this.query, limit: PAGE,
        ...(more && this.next !== null ? { after: this.next } : {}) });
      if (asked !== this.asked) return;
      this.rows = more ? [...this.rows, ...page.threads] : page.threads;
      this.next = page.next;
      this.more.hidden = page.next === null;
      fill(this.count, this.rows.length ? `${plural(this.rows.length, "thread")}${page.next === null ? "" : " so far"}` : "No thread matches.");
    } catch (error) {
      fill(this.count, h("span", { class: "bad" }, reasonOf(error)));
    }
    this.list.show(this.rows.length);
  }
}

function threadRow(/** @type {ThreadRow} */ row) {
  const name = row.title || row.thread;
  const about = [row.graph + (row.build ? ` v${row.build}` : ""), row.title ? row.thread : "",
    plural(row.seq, "entry")].filter(Boolean).join(" · ");
  return [
    chip(row.status),
    h("span", { class: "thread-name" }, h("span", { class: "strong" }, name), row.tags.map((tag) => h("span", { class: "tag" }, tag)),
      h("span", { class: row.error ? "bad second" : "quiet second" }, row.error ?? about)),
    h("span", { class: "thread-cost num quiet" }, [row.tokens ? `${amount(row.tokens)} tokens` : "",
      money(row.cost_usd)].filter(Boolean).join(" · ")),
    h("time", { class: "num quiet", title: moment(row.created_at) }, age(row.updated_at)),
  ];
}

export class InboxView {
  constructor(/** @type {App} */ app) {
    this.app = app;
    /** @type {string | null} */ this.next = null;
    this.cards = h("div", { class: "cards" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.load(true) }, "Load more");
    this.element = h("section", { class: "inbox", "aria-labelledby": "inbox-title" },
      h("h1", { id: "inbox-title" }, "Inbox"), this.cards, this.more);
  }

  title() { return "Inbox"; }

  takes(/** @type {Route} */ route) { return route.view === "inbox"; }

  show() {
    commands("Inbox", [
      { key: "j", does: "Next question", run: () => moveFocus(this.cards.children, 1) },
      { key: "k", does: "Previous question", run: () => moveFocus(this.cards.children, -1) },
      { key: "r", does: "Reload the inbox", run: () => this.load(false) },
    ]);
    this.load(false);
  }

  async load(/** @type {boolean} */ more) {
    try {
      const page = await this.app.source.inbox({ limit: 50, ...(more && this.next !== null ? { after: this.next } : {}) });
      if (!more) this.cards.replaceChildren();
      this.next = page.next;
      this.more.hidden = page.next === null;
      for (const one of page.questions) this.cards.append(this.card(one));
      if (!this.cards.children.length) add(this.cards, h("p", { class: "empty" }, "No thread waits for an answer."));
    } catch (error) {
      fill(this.cards, h("p", { class: "bad" }, reasonOf(error)));
    }
  }

  card(/** @type {InboxRow} */ row) {
    const ref = { graph: row.graph, thread: row.thread };
    const link = h("a", { href: address({ view: "thread", ref }) }, row.title || row.thread);
    const answered = () => {
      card.remove();
      notify("Answered");
    };
    const card = questionCard(row, ref, this.app, answered, [link, ` · ${row.graph} · asked ${age(row.asked_at)}`]);
    return card;
  }
}

/**
 * A question, with a form for users who may answer it.
 * @param {Question} question
 * @param {ThreadRef} ref
 * @param {App} app
 * @param {() => void} answered
 * @param {(Node | string)[]} [where]
 */
export function questionCard(question, ref, app, answered, where = []) {
  const { id, kind, node, payload, schema, stale, answerable, expires_at: expires } = question;
  const heading = `${node} ${kind === "approval" ? "asks for approval" : kind === "question" ? "asks" : `waits (${kind})`}`;
  const send = async (/** @type {unknown} */ answer) => {
    await app.source.act({ ...ref, verb: "answer", answers: { [id]: answer } });
    answered();
  };
  const start = question.has_default ? question.default : undefined;
  const may = answerable && app.head.acting.includes("answer");
  const proposed = kind === "approval" && isTree(payload) ? /** @type {Record<string, unknown>} */ (payload)["arguments"] : undefined;
  const form = !may ? null : isTree(proposed) ? approvalForm(proposed,
    send) : answerForm({ schema, label: "Answer", initial: start, send });
  const note = stale ? "The state was edited after this question; a retry asks it again." : !answerable
    ? "A timer, signal, other thread or worker answers this." : "";
  const asked = typeof payload === "string" ? h("p", { class: "asked" }, payload) : tree(payload,
    { load: (token) => app.source.value(ref, token), label: "Question" });
  return h("article", { class: "question", tabindex: -1, "aria-label": escaped(heading) },
    h("header", {}, h("strong", {}, sign("? "), heading), where.length ? quiet(" ", ...where) : null),
    h("div", { class: "question-body" }, h("div", {}, asked), form), note ? remark(note) : null, expires
      ? remark(`Expires ${moment(expires)}`) : null);
}
