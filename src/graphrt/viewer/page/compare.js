// Compares two positions of a thread, or two threads.

import { add, copier, fill, h, quiet, remark } from "./dom.js";
import { differences, messageLine, tree } from "./json.js";
import { commands } from "./keys.js";
import { address, go } from "./routes.js";
import { reasonOf } from "./source.js";
import { Recording } from "./recording.js";

export class ComparePanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    const { doc } = shared.recording;
    const number = (/** @type {string} */ label) => h("input", { type: "number", min: -1, "aria-label": label });
    this.drawn = "";
    this.known = h("datalist", { id: "other-threads" });
    this.left = number("Left step");
    this.right = number("Right step");
    this.other = h("input", { "aria-label": "Other thread", list: "other-threads", placeholder: "Id of a thread", autocomplete: "off" });
    const steps = h("form", { class: "compare-form" }, h("strong", {}, "Two steps"),
      h("label", { class: "inline" }, "after ", this.left), h("label", { class: "inline" }, "and after ", this.right),
      h("button", {}, "Compare"));
    steps.addEventListener("submit", (event) => {
      event.preventDefault();
      this.goSteps(Number(this.left.value), Number(this.right.value));
    });
    const threads = h("form", { class: "compare-form" }, h("strong", {}, "Another thread"), this.other, this.known,
      h("button", {}, "Find the first difference"),
      doc.origin ? h("button", { type: "button", onclick: () => this.goOther(doc.origin?.thread ?? "") },
        `With its origin (${doc.origin.kind})`) : null);
    threads.addEventListener("submit", (event) => {
      event.preventDefault();
      this.goOther(this.other.value);
    });
    const served = shared.app.head.mode === "served";
    if (served) this.offer().catch(() => {});
    this.result = h("div", { class: "compare-result", tabindex: 0, role: "region", "aria-label": "Differences" });
    this.element = h("div", { class: "compare" }, h("div", { class: "compare-forms" }, steps, served ? threads : null), this.result);
  }

  refresh() {}

  // Suggest the threads of the same graph.
  async offer() {
    const { app, ref } = this.shared;
    const { threads } = await app.source.threads({ graph: ref.graph, limit: 100 });
    const others = threads.filter((one) => one.thread !== ref.thread);
    fill(this.known, others.map((one) => h("option", { value: one.thread }, one.title ?? "")));
  }

  goSteps(/** @type {number} */ left, /** @type {number} */ right) {
    go({ view: "thread", ref: this.shared.ref, tab: "compare", query: { left: String(left), right: String(right) } }, true);
  }

  goOther(/** @type {string} */ other) {
    if (other) go({ view: "thread", ref: this.shared.ref, tab: "compare", query: { other } });
  }

  show(/** @type {Route} */ route) {
    const last = this.shared.recording.rows.length - 1;
    const { other } = route.query;
    const at = (/** @type {string} */ name, /** @type {number} */ otherwise) => Math.max(-1,
      Math.min(last, Number(route.query[name] ?? otherwise) || 0));
    const [left, right] = [at("left", 0), at("right", last)];
    this.left.value = String(left);
    this.right.value = String(right);
    commands("Compare", [
      { key: "j", does: "Move the right side one step forward", run: () => this.goSteps(left, Math.min(last, right + 1)) },
      { key: "k", does: "Move the right side one step back", run: () => this.goSteps(left, right - 1) },
      { key: "J", does: "Move the left side one step forward", run: () => this.goSteps(Math.min(last, left + 1), right) },
      { key: "K", does: "Move the left side one step back", run: () => this.goSteps(left - 1, right) },
      { key: "/", does: "Another thread", run: () => this.other.focus() },
    ]);
    const drawn = JSON.stringify([left, right, other, last]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    if (other === undefined) this.compareSteps(left, right);
    else {
      this.other.value = other;
      this.compareThreads(other);
    }
  }

  compareSteps(/** @type {number} */ left, /** @type {number} */ right) {
    const { recording, rowAddress } = this.shared;
    const name = (/** @type {number} */ n) => (n < 0 ? "before the first step" : h("a", { href: rowAddress(n) },
      `step ${n} (${recording.rows[n]?.node ?? recording.rows[n]?.kind ?? ""})`));
    fill(this.result, this.table(recording.stateAfter(left), recording.stateAfter(right), name(left), name(right)));
  }

  async compareThreads(/** @type {string} */ other) {
    const { app, ref, load } = this.shared;
    fill(this.result, remark("Comparing…"));
    const { drawn } = this;
    try {
      const found = await app.source.compare(ref, other);
      if (drawn !== this.drawn) return;
      const that = { graph: ref.graph, thread: other };
      const side = (/** @type {ThreadRef} */ to, /** @type {EntryDoc | null} */ entry,
        /** @type {number | null} */ row) => h("div", { class: "compare-side" },
        h("h2", {}, h("a", { href: address({ view: "thread", ref: to,
          ...(row === null ? {} : { tab: "steps", item: String(row) }) }) }, to.thread, row === null ? "" : `, step ${row}`)),
        entry ? [h("p", {}, h("span", { class: "quiet num" }, entry.seq, " "), entry.event),
          tree(entry.data, { load })] : remark("The thread ends here."));
      fill(this.result, h("p", { class: found.same ? "verdict is-ok" : "verdict" }, found.same ? "✓ " : "≠ ", found.sentence),
        found.same ? null : h("div", { class: "compare-sides" }, side(ref, found.left, found.left_row),
          side(that, found.right, found.right_row)),
        copier("Copy the command", () => `graphrt diff ${app.head.target} ${quoted(ref.thread)} ${quoted(other)}`));
      if (!found.same) await this.compareStates(that, drawn, found);
    } catch (error) {
      if (drawn === this.drawn) fill(this.result, h("p", { class: "bad", role: "alert" }, reasonOf(error)));
    }
  }

  async compareStates(/** @type {ThreadRef} */ that, /** @type {string} */ drawn, /** @type {CompareDoc} */ found) {
    const { app, recording } = this.shared;
    const other = new Recording(app.source, that, await app.source.thread(that));
    await other.load(() => {});
    if (drawn !== this.drawn) return;
    const [left, right] = [found.left_row ?? recording.rows.length - 1, found.right_row ?? other.rows.length - 1];
    add(this.result, h("h2", {}, "States at the first difference"),
      this.table(recording.stateAfter(left), other.stateAfter(right), `${recording.ref.thread}, step ${left}`,
      `${that.thread}, step ${right}`),
      h("h2", {}, "Final states"), this.table(recording.stateAfter(recording.rows.length - 1),
        other.stateAfter(other.rows.length - 1), recording.ref.thread, that.thread));
  }

  /** @param {unknown} left @param {unknown} right @param {Node | string} leftName @param {Node | string} rightName */
  table(left, right, leftName, rightName) {
    const { load } = this.shared;
    const found = differences(left, right, 300);
    const value = (/** @type {unknown} */ one) => (one === undefined ? quiet("—") : messageLine(one, { load }) ?? tree(one, { load }));
    const rows = found.map((one) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, one.path || "state")),
      h("td", { class: "removed" }, value(one.left)), h("td", { class: "added" }, value(one.right))));
    return h("table", { class: "differences" }, h("caption", { class: "quiet" }, found.length
      ? (found.length === 300 ? "The first 300 differences" : `${found.length} ${found.length === 1 ? "difference" : "differences"}`) : "The states are equal."),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Field"), h("th", { scope: "col" }, leftName),
        h("th", { scope: "col" }, rightName))), h("tbody", {}, rows));
  }
}

// A text as one word of a shell; one that a terminal would obey is left to the person.
export function quoted(/** @type {string} */ text) {
  if (/^[\w@%+=:,./][\w@%+=:,./-]*$/.test(text)) return text;
  return /^[\x20-\x7e]*$/.test(text) ? `'${text.replace(/'/g, "'\\''")}'` : "NAME";
}
