// One step: its node, changes, reads, model calls, tools and journal entries.

import { add, age, amount, chip, copier, facts, fill, fold, h, moment, money, plural, quiet, remark, sign, small, span } from "./dom.js";
import { brief, change, isTree, tree, valueBlock } from "./json.js";
import { callLine, promptBlock, replyBlock } from "./messages.js";
import { address } from "./routes.js";
import { reasonOf } from "./source.js";

const TABS = { changes: "Changes", before: "Before", after: "After", prompt: "Prompt", reply: "Reply", tools: "Tools", events: "Events" };
const EVENTS = 300;

export class DetailPane {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    /** @type {Row | null} */ this.row = null;
    this.tab = "changes";
    this.call = 0;
    this.drawn = "";
    this.head = h("header", { class: "detail-head" });
    this.tabs = h("div", { class: "tabs small-tabs", role: "tablist", "aria-label": "Details of the step" });
    this.body = h("div", { class: "detail-body", role: "tabpanel", tabindex: 0, id: "detail-body" });
    this.element = h("section", { class: "detail-pane", "aria-label": "Step" }, this.head, this.tabs, this.body);
  }

  // The commands of the keyboard.
  commands(/** @type {(query: Record<string, string>) => void} */ goTab) {
    this.goTab = goTab;
    const step = (/** @type {number} */ by) => {
      const many = this.row?.calls.length ?? 0;
      if (many) goTab({ tab: this.tab, call: String((this.call + by + many) % many) });
    };
    return [
      ...Object.entries(TABS).map(([tab, name], at) => ({ key: String(at + 1), does: `${name} of the step`, run: () => goTab({ tab }) })),
      { key: ".", does: "Next model call of the step", run: () => step(1) },
      { key: ",", does: "Previous model call of the step", run: () => step(-1) },
    ];
  }

  show(/** @type {Row | null} */ row) {
    const drawn = `${row?.n} ${this.tab} ${this.call}`;
    if (drawn === this.drawn) return;
    if (row !== this.row) this.body.scrollTop = 0;
    this.drawn = drawn;
    this.row = row;
    if (!row) {
      fill(this.head, h("p", { class: "empty" }, "No step is selected."));
      this.tabs.replaceChildren();
      this.body.replaceChildren();
      return;
    }
    this.drawHead(row);
    this.drawTabs(row);
    this.drawBody(row);
  }

  drawHead(/** @type {Row} */ row) {
    const { recording, writeCase, app, ref } = this.shared;
    const path = recording.pathOf(row);
    const took = row.began_at === null ? "" : span(row.at - row.began_at);
    const run = recording.doc.runs.findIndex((one) => one.id === row.run);
    const known = [
      row.kind === "task" ? `superstep ${row.superstep}` : "", row.attempt > 1 ? `attempt ${row.attempt}` : "", took,
      moment(row.at), recording.doc.runs.length > 1 && run >= 0 ? `run ${run + 1}` : "", `entry ${row.seq}`, row.user
        ? `by ${row.user}` : "",
      row.usage?.total_tokens ? `${amount(row.usage.total_tokens)} tokens` : "", money(row.usage?.cost_usd),
      row.goto ? `goto ${row.goto.join(", ")}` : "",
    ];
    const bad = row.outcome === "error" || row.outcome === "handled";
    const ends = { left: String(Math.max(0, row.n - 1)), right: String(row.n) };
    fill(this.head,
      h("h2", {}, h("span", { class: "quiet num" }, row.n, " "), path.slice(0, -1).map((name) => quiet(name, " › ")),
        path.at(-1) ?? row.kind, " ", row.outcome ? chip(row.outcome) : null),
      facts(known), row.text ? h("p", { class: `step-message ${bad ? "bad" : ""}`, dir: "auto" }, row.text) : null,
      row.answers.map((one) => this.answer(one)), row.asked.map((id) => this.later(row, id)),
      h("div", { class: "actions" },
        h("a", { class: "button small", href: address({ view: "thread", ref, tab: "compare", query: ends }) }, "Compare"),
        app.head.cases && app.head.mode === "served" && row.kind === "task"
          ? small("Write a test case", () => writeCase(row.seq)) : null,
        copier("Copy link", () => `${location.href.split("#", 1)[0]}${this.shared.rowAddress(row.n)}`)));
  }

  // A link to the answer of a question of a row.
  later(/** @type {Row} */ row, /** @type {string} */ id) {
    const { recording, rowAddress } = this.shared;
    const found = recording.rows.find((one) => one.n > row.n && one.answers.some((answer) => answer.id === id));
    const answer = found?.answers.find((one) => one.id === id);
    if (!found || !answer) return remark("Not answered yet.");
    return h("p", {}, h("a", { href: rowAddress(found.n) },
      `Answered in step ${found.n}${answer.user ? ` by ${answer.user}` : ""}`), ": ", brief(answer.answer, 120));
  }

  answer(/** @type {AnswerRef} */ answer) {
    const from = answer.user ? `Answered by ${answer.user}` : answer.by ? `Answered by ${answer.by}` : "Answered";
    const asked = this.shared.recording.rows.find((one) => one.asked.includes(answer.id));
    return h("div", { class: "answered" }, sign("↩ "), h("strong", {}, from), " ",
      h("time", { class: "quiet", title: moment(answer.at) }, age(answer.at)),
      asked && asked !== this.row ? [" ", h("a", { href: this.shared.rowAddress(asked.n) }, `asked in step ${asked.n}`)] : null,
      tree(answer.answer, { load: this.shared.load, label: "Answer" }));
  }

  drawTabs(/** @type {Row} */ row) {
    const counts = /** @type {Record<string, number>} */ ({ changes: row.wrote.length, prompt: row.calls.length,
      reply: row.calls.length, tools: row.tools.length });
    const entries = Object.entries(TABS);
    const buttons = entries.map(([tab, name], at) =>
      h("button", {
        type: "button", role: "tab", "aria-selected": String(tab === this.tab), "aria-controls": "detail-body",
          tabindex: tab === this.tab ? 0 : -1,
        class: tab in counts && !counts[tab] ? "faint" : null, onclick: () => this.goTab?.({ tab }),
        onkeydown: (/** @type {KeyboardEvent} */ event) => {
          const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
          const next = entries[(at + by + entries.length) % entries.length]?.[0];
          if (!by || !next) return;
          event.preventDefault();
          this.goTab?.({ tab: next });
          requestAnimationFrame(() => /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-selected=true]"))?.focus());
        },
      }, name, counts[tab] ? quiet(` ${counts[tab]}`) : null));
    const focused = this.tabs.contains(document.activeElement);
    fill(this.tabs, buttons);
    if (focused) /** @type {HTMLElement | null} */ (this.tabs.querySelector("[aria-selected=true]"))?.focus();
  }

  drawBody(/** @type {Row} */ row) {
    const { recording, load } = this.shared;
    if (this.tab === "before") fill(this.body, valueBlock(recording.stateAfter(row.n - 1), { load, label: "State before" }));
    else if (this.tab === "after") fill(this.body, valueBlock(recording.stateAfter(row.n), { load, label: "State after" }));
    else if (this.tab === "prompt" || this.tab === "reply") this.drawCalls(row);
    else if (this.tab === "tools") this.drawTools(row);
    else if (this.tab === "events") this.drawEvents(row);
    else this.drawChanges(row);
  }

  drawChanges(/** @type {Row} */ row) {
    const { recording, load, rowAddress } = this.shared;
    const before = recording.stateAfter(row.n - 1);
    fill(this.body, row.ops.map((op) => change(op, valueAt(before, op[1]), { load })));
    if (row.path) {
      const around = recording.rows.find((one) => one.n > row.n && one.task === row.path);
      add(this.body, remark(row.wrote.length ? `It wrote ${row.wrote.join(", ")}. ` : "It wrote nothing. ",
        around ? h("a", { href: rowAddress(around.n) }, "The writes of a nested graph are applied with its outer step.")
          : "The writes of a nested graph are applied with its outer step, which has not ended."));
    } else if (!row.ops.length) {
      add(this.body, remark(row.outcome === "error" ? "It failed, and changed nothing." : "It changed nothing in the state."));
    }
    if (row.outcome === "error" || row.asked.length) this.drawOwnEvents(row);
    const edges = row.edges.map((index) => recording.topologyAt(recording.around(row.path))?.edges[index]).filter((edge) => edge !== undefined);
    if (edges.length) add(this.body, remark("Continued with ", edges.map((edge) => edge.to).join(", "), "."));
  }

  async drawCalls(/** @type {Row} */ row) {
    const { calls } = row;
    if (!calls.length) {
      const { rows } = this.shared.recording;
      const next = rows.find((one) => one.n > row.n && one.calls.length) ?? rows.find((one) => one.calls.length);
      const link = next ? h("a", { href: `${this.shared.rowAddress(next.n)}?tab=${this.tab}` }, `See step ${next.n}.`) : null;
      return fill(this.body, h("p", { class: "empty" }, "No model was called in this step. ", link));
    }
    const at = Math.min(this.call, calls.length - 1);
    const call = /** @type {CallRef} */ (calls[at]);
    const button = (/** @type {CallRef} */ one, /** @type {number} */ index) =>
      small(`Call ${index + 1}${one.tools.length ? " ⚙" : ""}`,
        () => this.goTab?.({ tab: this.tab, call: String(index) }), { "aria-pressed": String(index === at) });
    const group = { class: "calls", role: "group", "aria-label": "Model calls" };
    const many = calls.length === 1 ? null : h("div", group, calls.slice(0, 200).map(button));
    const place = h("div", {}, remark("Loading…"));
    fill(this.body, many, callLine(call), place);
    const drawn = this.drawn;
    try {
      const doc = await this.shared.app.source.call(this.shared.ref, call.seq);
      if (drawn !== this.drawn) return;
      if (this.tab === "reply") return fill(place, replyBlock(doc, this.shared.load));
      const known = { prompt: doc.prompt, problem: doc.prompt_problem };
      const asks = !known.prompt && !known.problem;
      const { prompt, problem } = asks ? await this.shared.app.source.prompt(this.shared.ref, call.seq) : known;
      if (drawn !== this.drawn) return;
      fill(place, prompt ? promptBlock(prompt, this.shared.load) : h("p", { class: "note" }, problem || "The prompt is unknown."));
    } catch (error) {
      if (drawn === this.drawn) fill(place, h("p", { class: "bad" }, reasonOf(error)));
    }
  }

  drawTools(/** @type {Row} */ row) {
    if (!row.tools.length) return fill(this.body, h("p", { class: "empty" }, "It called no tool and ran no effect."));
    fill(this.body, row.tools.slice(0, 500).map((tool) => h("div", { class: "tool" },
      h("div", { class: "tool-name" }, sign("⚙ "), h("code", {}, tool.name), quiet(` ${tool.kind} · ${moment(tool.at)}`)),
      h("h3", {}, "Arguments"), tree(tool.arguments, { load: this.shared.load, label: "Arguments" }),
      h("h3", {}, "Result"), tree(tool.result, { load: this.shared.load, label: "Result" }))));
  }

  // The journal entries about a failure or a question, in full.
  async drawOwnEvents(/** @type {Row} */ row) {
    const place = h("div", {});
    this.body.append(place);
    const { entries } = await this.entriesOf(row).catch(() => ({ entries: [] }));
    const own = entries.filter((one) => one.data["task"] === row.task && /failed|interrupt-raised/.test(one.event));
    fill(place, own.map((one) => {
      const asked = one.event === "interrupt-raised";
      return [h("h3", {}, asked ? "Question" : one.event),
        tree(asked ? one.data["payload"] : one.data, { load: this.shared.load, label: "Event" })];
    }).flat());
  }

  // The entries since the previous row.
  entriesOf(/** @type {Row} */ row) {
    const { app, ref, recording } = this.shared;
    const before = recording.rows.findLast((one) => one.n < row.n && one.seq < row.seq && (!row.path || one.path === row.path));
    const after = Math.max(before?.seq ?? 0, row.seq - EVENTS);
    return app.source.entries(ref, after, row.seq - after);
  }

  async drawEvents(/** @type {Row} */ row) {
    const drawn = this.drawn;
    fill(this.body, remark("Loading…"));
    try {
      const { entries } = await this.entriesOf(row);
      if (drawn !== this.drawn) return;
      const own = entries.filter((one) => one.seq <= row.seq && (!row.path || one.path.startsWith(row.path)));
      fill(this.body, remark(`${plural(own.length, "event")} up to entry ${row.seq}`), own.map((entry) => this.event(entry, row)));
    } catch (error) {
      if (drawn === this.drawn) fill(this.body, h("p", { class: "bad" }, reasonOf(error)));
    }
  }

  event(/** @type {EntryDoc} */ entry, /** @type {Row} */ row) {
    const link = h("a", { href: address({ view: "thread", ref: this.shared.ref, tab: "journal",
      item: String(entry.seq) }) }, "Show in the journal");
    const mine = row.task !== null && entry.data["task"] === row.task;
    const summary = [h("span", { class: "quiet num" }, entry.seq, " "), mine
      ? h("strong", {}, entry.event) : entry.event, " ", quiet(entry.path)];
    return fold(summary, () => [link, tree(entry.data, { load: this.shared.load })]);
  }
}

export function valueAt(/** @type {unknown} */ value, /** @type {(string | number)[]} */ path) {
  for (const key of path) {
    if (!isTree(value) || !Object.hasOwn(value, key)) return undefined;
    value = /** @type {any} */ (value)[key];
  }
  return value;
}
