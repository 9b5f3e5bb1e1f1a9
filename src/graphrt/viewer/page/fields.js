// The fields of the state, and the provenance of their values: their writers and the reads of those, back to the input.

import { add, fill, fold, h, moment, quiet, remark, small } from "./dom.js";
import { brief, change, tree, valueBlock } from "./json.js";
import { commands } from "./keys.js";
import { address, go } from "./routes.js";
import { valueAt } from "./detail.js";
import { VirtualList } from "./vlist.js";

const CONTRIBUTORS = 50;

export class FieldsPanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    /** @type {string[]} */ this.fields = [];
    this.at = -1;
    this.drawn = "";
    /** @type {Record<string, any>} */ this.state = {};
    this.list = new VirtualList({ label: "Fields", height: 46, row: (at) => this.row(at), onselect: (at) => this.choose(at) });
    this.value = h("section", { class: "field-value", "aria-label": "Value and why", tabindex: 0 });
    this.where = h("div", { class: "list-head" });
    this.element = h("div", { class: "two fields" }, h("div", { class: "list-pane" }, this.where, this.list.element), this.value);
  }

  refresh() { this.drawn = ""; }

  show(/** @type {Route} */ route) {
    const { recording } = this.shared;
    const last = recording.rows.length - 1;
    this.at = route.query["at"] === undefined ? last : Math.max(-1, Math.min(last, Number(route.query["at"]) || 0));
    this.state = recording.stateAfter(this.at);
    const known = Object.keys(recording.doc.topology.state);
    this.fields = [...new Set([...known, ...Object.keys(this.state)])];
    const field = route.item && this.fields.includes(route.item) ? route.item : this.fields[0];
    const drawn = `${recording.rows.length} ${this.at} ${field}`;
    this.declare();
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.list.show(this.fields.length);
    this.list.select(field === undefined ? -1 : this.fields.indexOf(field));
    this.drawWhere(last);
    if (field === undefined) fill(this.value, h("p", { class: "empty" }, "The state has no fields."));
    else this.drawField(field);
  }

  declare() {
    commands("Fields", [
      { key: "j", does: "Next field", run: () => this.list.move(1) },
      { key: "k", does: "Previous field", run: () => this.list.move(-1) },
      { key: "[", does: "One step back", run: () => this.goTo(this.list.selected, this.at - 1) },
      { key: "]", does: "One step forward", run: () => this.goTo(this.list.selected, this.at + 1) },
    ]);
  }

  drawWhere(/** @type {number} */ last) {
    const input = h("input", { type: "number", min: -1, max: last, value: this.at, "aria-label": "After step" });
    input.addEventListener("change", () => this.goTo(this.list.selected, Number(input.value)));
    const now = this.at < last ? small("Now", () => this.goTo(this.list.selected, last)) : null;
    fill(this.where, h("label", { class: "inline" }, "As it was after step ", input), now);
  }

  choose(/** @type {number} */ at) { this.goTo(at, this.at); }

  goTo(/** @type {number} */ field, /** @type {number} */ at) {
    const last = this.shared.recording.rows.length - 1;
    const place = Math.max(-1, Math.min(last, at));
    go({ view: "thread", ref: this.shared.ref, tab: "fields", item: this.fields[field] ?? "", query: place === last
      ? {} : { at: String(place) } }, true);
  }

  row(/** @type {number} */ at) {
    const name = this.fields[at] ?? "";
    const doc = this.shared.recording.doc.topology.state[name];
    const known = Object.hasOwn(this.state, name);
    const about = [doc?.type ?? "", doc && doc.reducer !== "overwrite" ? doc.reducer : ""].filter(Boolean);
    return [h("span", { class: "field-name" }, h("code", {}, name), " ", quiet(about.join(" · "))),
      h("span", { class: "field-brief quiet" }, known ? brief(this.state[name], 120) : doc?.untracked ? "not stored" : "—")];
  }

  drawField(/** @type {string} */ name) {
    const { load } = this.shared;
    const known = Object.hasOwn(this.state, name);
    const body = known ? valueBlock(this.state[name], { load, label: name }) : h("p", { class: "empty" }, "It has no value here.");
    this.value.scrollTop = 0;
    fill(this.value, h("h2", {}, h("code", {}, name)), body, h("h3", {}, "Why it has this value"), this.why(name, this.at, 0));
  }

  // The writer of a field, with its reads as disclosures.
  /** @param {string} field @param {number} at @param {number} depth @returns {HTMLElement} */
  why(field, at, depth) {
    const { recording } = this.shared;
    const makers = recording.madeBy(field, at);
    if (!makers.length) return remark("No step wrote it: it is the default or an initial value.");
    const parts = makers.slice(0, CONTRIBUTORS).map((n, index) => this.writer(field, n, depth,
      makers.length === 1 || (depth === 0 && index === 0)));
    const more = makers.length > CONTRIBUTORS ? remark(`and ${makers.length - CONTRIBUTORS} earlier steps`) : null;
    return h("div", { class: "why" }, makers.length > 1 ? remark(`${makers.length} steps contributed to it, newest first:`) : null, parts, more);
  }

  /** @param {string} field @param {number} n @param {number} depth @param {boolean} open */
  writer(field, n, depth, open) {
    const { recording, ref, rowAddress } = this.shared;
    const row = /** @type {Row} */ (recording.rows[n]);
    const name = row.node ?? (row.kind === "input" ? "the input" : row.kind);
    const by = row.user ? ` by ${row.user}` : "";
    const build = () => {
      const before = recording.stateAfter(n - 1);
      const own = row.ops.filter((op) => op[1][0] === field);
      /** @type {Node[]} */ const parts = [h("p", {}, h("a", { href: rowAddress(n) }, `Go to step ${n}`))];
      parts.push(...own.map((op) => change(op, valueAt(before, op[1]), { load: this.shared.load })));
      for (const answer of row.answers) {
        const who = answer.user || answer.by;
        parts.push(h("p", {}, `↩ Answered${who ? ` by ${who}` : ""}: `, brief(answer.answer, 200)));
      }
      row.calls.slice(0, 10).forEach((call, index) => {
        const to = (/** @type {string} */ tab) =>
          h("a", { href: address({ view: "thread", ref, tab: "steps", item: String(n), query: { tab, call: String(index) } }) }, tab);
        parts.push(h("p", {}, `✦ Model call${call.model ? ` of ${call.model}` : ""}: `, to("prompt"), " ",
          to("reply"), " ", quiet(call.text)));
      });
      return row.kind === "task" ? [...parts, this.reads(row, depth)] : parts;
    };
    return fold([h("strong", {}, name), by, ` in step ${n} `, quiet(moment(row.at))], build, open);
  }

  reads(/** @type {Row} */ row, /** @type {number} */ depth) {
    const { recording } = this.shared;
    const inputs = recording.inputsOf(row);
    if (!inputs.length) return remark("It read no value that a step had written.");
    const declared = inputs.some((one) => one.declared);
    const before = recording.began(row);
    const parts = inputs.map(({ field, writer }) => {
      const from = writer === null ? null : recording.rows[writer];
      const summary = [h("code", {}, field), " ", quiet(from ? `← ${from.node ?? from.kind}, step ${writer}` : "← its default")];
      const value = () => tree(recording.stateAfter(before - 1)[field] ?? null, { load: this.shared.load });
      return fold(summary, () => [value(), this.why(field, before - 1, depth + 1)]);
    });
    return h("div", { class: "reads" }, remark(declared ? "It reads:" : "It could read:"), parts);
  }
}
