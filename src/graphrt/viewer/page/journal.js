// The journal of a thread, entry by entry.

import { amount, facts, fill, h, moment, small } from "./dom.js";
import { brief, valueBlock } from "./json.js";
import { commands } from "./keys.js";
import { go } from "./routes.js";
import { reasonOf } from "./source.js";
import { VirtualList } from "./vlist.js";

const PAGE = 2000;
const MOST = 50_000;

export class JournalPanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    /** @type {EntryDoc[]} */ this.entries = [];
    /** @type {EntryDoc[]} */ this.visible = [];
    /** @type {Map<string, number>} */ this.kinds = new Map();
    /** @type {Record<string, string>} */ this.query = {};
    this.item = "";
    /** @type {EntryDoc | null} */ this.entry = null;
    this.list = new VirtualList({ label: "Entries", height: 30, row: (at) => this.row(at), onselect: (at) => this.choose(at) });
    this.select = h("select", { "aria-label": "Kind of event" });
    this.input = h("input", { type: "search", placeholder: "Text in the event", "aria-label": "Text in the event", autocomplete: "off" });
    this.count = h("span", { class: "quiet num", role: "status" });
    this.more = small("Load more", () => this.load(MOST), { hidden: true });
    this.detail = h("section", { class: "field-value", "aria-label": "Entry", tabindex: 0 });
    const filter = h("div", { class: "filter", role: "search" }, this.select, this.input);
    const head = h("div", { class: "list-head" }, filter, this.count, this.more);
    this.element = h("div", { class: "two journal" }, h("div", { class: "list-pane" }, head, this.list.element), this.detail);
    this.select.addEventListener("change", () => this.filter());
    this.input.addEventListener("change", () => this.filter());
    this.input.addEventListener("search", () => this.filter());
    this.most = MOST;
    this.load();
  }

  async load(more = 0) {
    this.most += more;
    if (this.loading) return;
    this.loading = true;
    try {
      for (;;) {
        const page = await this.shared.app.source.entries(this.shared.ref, this.entries.at(-1)?.seq ?? 0, PAGE);
        for (const one of page.entries) {
          this.entries.push(one);
          this.kinds.set(one.event, (this.kinds.get(one.event) ?? 0) + 1);
        }
        this.sift();
        this.more.hidden = !page.more;
        if (!page.more || !page.entries.length || this.entries.length >= this.most) break;
      }
    } catch (error) {
      fill(this.count, h("span", { class: "bad" }, reasonOf(error)));
    } finally {
      this.loading = false;
    }
  }

  refresh() { if ((this.entries.at(-1)?.seq ?? 0) < this.shared.recording.doc.seq) this.load(); }

  filter() {
    go({ view: "thread", ref: this.shared.ref, tab: "journal", item: this.item,
      query: { kind: this.select.value, text: this.input.value } }, true);
  }

  show(/** @type {Route} */ route) {
    commands("Journal", [
      { key: "j", does: "Next entry", run: () => this.list.move(1) },
      { key: "k", does: "Previous entry", run: () => this.list.move(-1) },
      { key: "/", does: "Search in the events", run: () => this.input.focus() },
    ]);
    const changed = this.query["kind"] !== route.query["kind"] || this.query["text"] !== route.query["text"];
    this.query = route.query;
    this.item = route.item;
    if (changed) {
      this.input.value = route.query["text"] ?? "";
      this.sift();
    } else this.mark();
  }

  sift() {
    const kind = this.query["kind"] ?? "";
    const text = (this.query["text"] ?? "").toLowerCase();
    const fits = (/** @type {EntryDoc} */ one) =>
      (!kind || one.event === kind) && (!text || `${one.event} ${one.path}`.toLowerCase().includes(text) || JSON.stringify(one.data).toLowerCase().includes(text));
    this.visible = kind || text ? this.entries.filter(fits) : this.entries;
    const names = [...this.kinds].sort(([a], [b]) => (a < b ? -1 : 1));
    fill(this.select, h("option", { value: "" }, "All events"),
      names.map(([name, many]) => h("option", { value: name, selected: name === kind }, `${name} (${many})`)));
    fill(this.count, this.visible.length === this.entries.length
      ? amount(this.entries.length) : `${this.visible.length} of ${this.entries.length}`);
    this.list.show(this.visible.length);
    this.mark();
  }

  mark() {
    const at = this.item === "" ? this.visible.length - 1 : this.visible.findIndex((one) => one.seq === Number(this.item));
    this.list.select(at);
    const entry = this.visible[at];
    if (!entry) return fill(this.detail, h("p", { class: "empty" }, this.entries.length ? "No entry is selected." : "Loading…"));
    if (entry === this.entry) return;
    this.entry = entry;
    const row = this.shared.recording.rows.find((one) => one.seq >= entry.seq);
    fill(this.detail, h("h2", {}, h("span", { class: "quiet num" }, entry.seq, " "), entry.event),
      facts([moment(entry.at), `run ${entry.run}`, entry.cause ? `caused by ${entry.cause}` : "", entry.path,
        row ? h("a", { href: this.shared.rowAddress(row.n) }, `step ${row.n}`) : null]),
      valueBlock(entry.data, { load: this.shared.load, label: "Event" }));
  }

  choose(/** @type {number} */ at) {
    const entry = this.visible[at];
    if (entry) go({ view: "thread", ref: this.shared.ref, tab: "journal", item: String(entry.seq), query: this.query }, true);
  }

  row(/** @type {number} */ at) {
    const entry = this.visible[at];
    if (!entry) return [];
    return [h("span", { class: "num quiet entry-seq" }, entry.seq), h("span", { class: "entry-event" }, entry.event),
      h("span", { class: "entry-brief quiet" }, brief(entry.data, 120))];
  }
}
