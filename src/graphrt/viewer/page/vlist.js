// A list of any length, with only the visible rows in the document. All rows have the same height.

import { fill, h } from "./dom.js";

const BEYOND = 8;

export class VirtualList {
  constructor(/** @type {ListOptions} */ options) {
    this.options = options;
    this.count = 0;
    this.selected = -1;
    /** @type {Map<number, HTMLElement>} */ this.rows = new Map();
    this.space = h("div", { class: "vlist-space", role: "presentation" });
    this.element = h("div", {
      class: "vlist", role: "listbox", tabindex: 0, "aria-label": options.label,
      onscroll: () => this.draw(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onclick: (/** @type {MouseEvent} */ event) => this.click(event, false),
      ondblclick: (/** @type {MouseEvent} */ event) => this.click(event, true),
    }, this.space);
    this.id = `list${VirtualList.made++}`;
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // Show *count* rows, all redrawn.
  show(/** @type {number} */ count) {
    this.count = count;
    this.selected = Math.min(this.selected, count - 1);
    this.space.style.height = `${count * this.options.height}px`;
    this.rows.clear();
    this.space.replaceChildren();
    this.draw();
  }

  /** Draw visible rows that are missing; remove the others. */
  draw() {
    const { height } = this.options;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - BEYOND);
    const visible = Math.ceil((this.element.clientHeight || 600) / height);
    const last = Math.min(this.count, first + visible + 2 * BEYOND);
    for (const [index, row] of this.rows) {
      if ((index < first || index >= last) && index !== this.selected) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index++) this.drawRow(index);
    if (this.selected >= 0 && this.selected < this.count) this.drawRow(this.selected);
    this.mark();
  }

  drawRow(/** @type {number} */ index) {
    if (this.rows.has(index)) return;
    const { height, row, rowClass } = this.options;
    const element = h("div", {
      role: "option", class: `vlist-row ${rowClass?.(index) ?? ""}`, id: `${this.id}-${index}`, "aria-selected": "false",
      "aria-setsize": this.count, "aria-posinset": index + 1, "data-index": index,
    });
    element.style.top = `${index * height}px`;
    element.style.height = `${height}px`;
    fill(element, row(index));
    this.rows.set(index, element);
    this.space.append(element);
  }

  mark() {
    for (const [index, row] of this.rows) row.setAttribute("aria-selected", String(index === this.selected));
    if (this.selected < 0) this.element.removeAttribute("aria-activedescendant");
    else this.element.setAttribute("aria-activedescendant", `${this.id}-${this.selected}`);
  }

  // Select a row and scroll it into view, without calling `onselect`.
  select(/** @type {number} */ index) {
    this.selected = Math.max(-1, Math.min(index, this.count - 1));
    if (this.selected >= 0) {
      const { height } = this.options;
      const top = this.selected * height;
      const view = this.element.clientHeight;
      if (top < this.element.scrollTop) this.element.scrollTop = Math.max(0, top - height);
      else if (top + height > this.element.scrollTop + view) this.element.scrollTop = top - view + 2 * height;
    }
    this.draw();
  }

  // Select the row *by* rows further, and call `onselect`.
  move(/** @type {number} */ by) {
    if (this.count === 0) return;
    const index = Math.max(0, Math.min(this.count - 1, this.selected < 0 ? 0 : this.selected + by));
    this.select(index);
    this.options.onselect(index, "key");
  }

  key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.height) - 1);
    const moves = /** @type {Record<string, number>} */ ({
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
    });
    const { onfold, onopen } = this.options;
    if (event.key in moves) this.move(/** @type {number} */ (moves[event.key]));
    else if (event.key === "Enter" && this.selected >= 0 && onopen) onopen(this.selected);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      if (!onfold?.(this.selected, event.key === "ArrowRight")) return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  click(/** @type {MouseEvent} */ event, /** @type {boolean} */ twice) {
    const row = event.target instanceof Element ? event.target.closest("[data-index]") : null;
    if (!(row instanceof HTMLElement)) return;
    const index = Number(row.dataset["index"]);
    this.select(index);
    if (twice) this.options.onopen?.(index);
    else this.options.onselect(index, "click");
  }
}

VirtualList.made = 0;
