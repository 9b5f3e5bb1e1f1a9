// The drawing of a graph, and the path of a thread through it.

import { add, amount, fill, h, markOf, s, statusClass } from "./dom.js";
import { INSET, TITLE, layOut } from "./layout.js";

const LEAST = 0.12;
const MOST = 3;

export class GraphView {
  /** @param {object} options @param {(key: string, path: string[]) => void} options.onselect A node was selected. */
  constructor(options) {
    this.options = options;
    /** @type {Topology | null} */ this.topology = null;
    /** @type {Overlay} */ this.overlay = { nodes: new Map(), edges: new Map(), selected: null };
    /** @type {Set<string>} */ this.open = new Set();
    /** @type {Plan | null} */ this.plan = null;
    /** @type {Map<string, { box: Box, element: SVGGElement, x: number, y: number }>} */ this.boxes = new Map();
    /** @type {Map<string, { line: Line, element: SVGGElement }[]>} */ this.lines = new Map();
    /** @type {WeakMap<Element, string>} What each element shows. */
    this.looks = new WeakMap();
    this.pane = { width: 0, height: 0 };
    this.view = { x: 0, y: 0, scale: 1 };
    this.focused = "";
    /** @type {Record<"focused" | "selected", Element | undefined>} */
    this.marked = { focused: undefined, selected: undefined };
    this.touched = false;
    this.id = `graph${GraphView.made++}`;
    this.canvas = s("svg", {
      class: "graph", role: "listbox", tabindex: 0, "aria-label": "Graph: nodes",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onwheel: (/** @type {WheelEvent} */ event) => this.wheel(event),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.drag(event),
      onclick: (/** @type {MouseEvent} */ event) => this.click(event),
      onfocus: () => this.mark(),
    });
    const tool = (/** @type {string} */ label, /** @type {string} */ text, /** @type {() => void} */ run) =>
      h("button", { type: "button", class: "small", "aria-label": label, title: label, onclick: run }, text);
    this.element = h("div", { class: "graph-pane" }, this.canvas, h("div", { class: "graph-tools", role: "group", "aria-label": "Zoom" },
      tool("Zoom in", "+", () => this.zoom(1.25)), tool("Zoom out", "−", () => this.zoom(0.8)), tool("Show all", "⤢", () => this.fit())));
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  // Draw a graph.
  show(/** @type {Topology} */ topology) {
    this.topology = topology;
    // After the lists: the layout of hundreds of nodes takes a while.
    setTimeout(() => {
      this.draw();
      this.fit(true);
    });
  }

  draw() {
    if (!this.topology) return;
    this.plan = layOut(this.topology, this.open);
    this.boxes.clear();
    this.lines.clear();
    const edges = s("g", { "aria-hidden": "true" });
    const nodes = s("g", { role: "presentation" });
    this.drawPlan(this.plan, 0, 0, edges, nodes);
    fill(this.canvas, edges, nodes);
    this.update(this.overlay);
    this.place();
  }

  /** @param {Plan} plan @param {number} x @param {number} y @param {SVGGElement} edges @param {SVGGElement} nodes */
  drawPlan(plan, x, y, edges, nodes) {
    for (const box of plan.boxes) {
      const element = drawBox(box, x, y, `${this.id}-${this.boxes.size}`);
      this.boxes.set(box.key, { box, element, x: x + box.x, y: y + box.y });
      nodes.append(element);
      if (box.inner) {
        const inset = (box.width - box.inner.width) / 2;
        this.drawPlan(box.inner, x + box.x + inset, y + box.y + TITLE - INSET, nodes, nodes);
      }
    }
    for (const line of plan.lines) {
      const element = drawLine(line, x, y);
      element.setAttribute("aria-hidden", "true");
      const same = this.lines.get(line.key) ?? [];
      same.push({ line, element });
      this.lines.set(line.key, same);
      edges.append(element);
    }
  }

  // Overlay the path of a thread on the drawing.
  update(/** @type {Overlay} */ overlay) {
    this.overlay = overlay;
    if (!this.plan) return;
    for (const [key, { box, element }] of this.boxes) {
      const known = overlay.nodes.get(key);
      const status = known?.status ?? "new";
      const virtual = box.kind === "virtual";
      const looks = `${status} ${known?.count} ${known?.about} ${overlay.selected === key}`;
      if (this.looks.get(element) === looks) continue;
      this.looks.set(element, looks);
      element.setAttribute("class", `box is-${statusClass(status)} ${box.kind} ${known?.count ? "taken" : ""} ${overlay.selected === key ? "selected" : ""} ${this.focused === key ? "focused" : ""}`);
      if (virtual) continue;
      const [mark, count] = [element.querySelector(".mark"), element.querySelector(".count")];
      if (mark) fill(mark, known ? markOf(status) : "");
      if (count) fill(count, known?.count ? `×${amount(known.count)}` : "");
      const about = `${box.text}: ${known ? status : "not reached"}${known?.count ? `, ${known.count} times` : ""}${known?.about ? `, ${known.about}` : ""}`;
      const title = element.querySelector("title");
      if (title) fill(title, about + (box.kind === "graph" ? ", nested graph" : ""));
    }
    for (const [key, same] of this.lines) {
      const count = overlay.edges.get(key) ?? 0;
      const covered = overlay.coverage?.get(key);
      const looks = `${count} ${covered}`;
      for (const { line, element } of same) {
        if (this.looks.get(element) === looks) continue;
        this.looks.set(element, looks);
        const kind = line.kind === "static" || line.kind === "seen" ? "" : "dashed";
        element.setAttribute("class", `line ${kind} ${count ? "taken" : ""} ${covered ? `covered ${covered.replace(/[^a-z]/g, "-")}` : ""}`);
        const counter = element.querySelector(".edge-count");
        if (counter) fill(counter, covered ? covered : count > 1 ? `×${amount(count)}` : "");
      }
    }
    this.mark();
  }

  mark() {
    if (!this.boxes.has(this.focused)) this.focused = [...this.boxes.values()].find((one) => one.box.kind !== "virtual")?.box.key ?? "";
    for (const [name, key] of /** @type {const} */ ([["focused", this.focused], ["selected", this.overlay.selected ?? ""]])) {
      const element = this.boxes.get(key)?.element;
      if (this.marked[name] === element) continue;
      this.marked[name]?.classList.remove(name);
      element?.classList.add(name);
      if (name === "focused" && element) this.canvas.setAttribute("aria-activedescendant", element.id);
      if (name === "selected") {
        this.marked[name]?.setAttribute("aria-selected", "false");
        element?.setAttribute("aria-selected", "true");
      }
      this.marked[name] = element;
    }
  }

  // Bring a node into view.
  reveal(/** @type {string} */ key) {
    const one = this.boxes.get(key);
    if (!one) return;
    const { width, height } = this.pane;
    const { x, y, scale } = this.view;
    const [left, top] = [(one.x - x) * scale, (one.y - y) * scale];
    const inside = left >= 0 && top >= 0 && left + one.box.width * scale <= width && top + Math.min(one.box.height, 60) * scale <= height;
    if (inside || !width) return;
    this.view.x = one.x + one.box.width / 2 - width / scale / 2;
    this.view.y = one.y + Math.min(one.box.height, 60) / 2 - height / scale / 2;
    this.place();
  }

  place() {
    const { width, height } = this.pane;
    const { x, y, scale } = this.view;
    if (width && height) this.canvas.setAttribute("viewBox", `${x} ${y} ${width / scale} ${height / scale}`);
  }

  resized() {
    this.pane = { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
    if (this.touched) this.place();
    else this.fit(true);
  }

  // Show the whole graph, or its legible part.
  /** @param {boolean} [legible] At least at a legible size, from the beginning. */
  fit(legible = false) {
    const { width, height } = this.pane;
    if (!this.plan || !width || !height) return;
    const whole = Math.min(1.15, width / this.plan.width, height / this.plan.height);
    const scale = Math.max(legible ? 0.55 : LEAST / 4, whole);
    const top = this.plan.height * scale > height ? 0 : (this.plan.height - height / scale) / 2;
    const start = [...this.boxes.values()].find((one) => one.box.name === "START" && one.box.path.length === 1);
    const middle = this.plan.width * scale > width && start ? start.x + start.box.width / 2 : this.plan.width / 2;
    this.view = { x: middle - width / scale / 2, y: top, scale };
    this.touched = false;
    this.place();
    if (legible && this.overlay.selected) this.reveal(this.overlay.selected);
  }

  /** @param {number} by @param {number} [atX] The fixed point, in pixels of the pane. @param {number} [atY] */
  zoom(by, atX = this.pane.width / 2, atY = this.pane.height / 2) {
    const { x, y, scale } = this.view;
    const next = Math.max(LEAST / 4, Math.min(MOST, scale * by));
    this.view = { x: x + atX / scale - atX / next, y: y + atY / scale - atY / next, scale: next };
    this.touched = true;
    this.place();
  }

  /** @param {number} x In pixels of the pane. @param {number} y */
  pan(x, y) {
    this.view.x += x / this.view.scale;
    this.view.y += y / this.view.scale;
    this.touched = true;
    this.place();
  }

  toggle(/** @type {string} */ key) {
    const one = this.boxes.get(key);
    if (one?.box.kind !== "graph") return;
    if (!this.open.delete(key)) this.open.add(key);
    this.draw();
    if (!this.touched) this.fit(true);
    this.reveal(key);
  }

  key(/** @type {KeyboardEvent} */ event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows = /** @type {Record<string, [number, number]>} */ ({ ArrowDown: [0, 1], ArrowUp: [0, -1],
      ArrowLeft: [-1, 0], ArrowRight: [1, 0] });
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) this.pan(arrow[0] * 60, arrow[1] * 60);
    else if (arrow) this.step(arrow);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (event.key === " ") this.toggle(this.focused);
    else if (event.key === "Enter") this.choose(this.focused);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Focus the nearest node in a direction.
  /** @param {[number, number]} direction */
  step([dx, dy]) {
    const here = this.boxes.get(this.focused);
    if (!here) return;
    const middle = (/** @type {{ box: Box, x: number, y: number }} */ one) => [one.x + one.box.width / 2,
      one.y + Math.min(one.box.height, TITLE) / 2];
    const [x0, y0] = /** @type {[number, number]} */ (middle(here));
    let best = "";
    let least = Infinity;
    for (const [key, one] of this.boxes) {
      if (key === this.focused || one.box.kind === "virtual") continue;
      const [x, y] = /** @type {[number, number]} */ (middle(one));
      const ahead = (x - x0) * dx + (y - y0) * dy;
      const aside = Math.abs((x - x0) * dy) + Math.abs((y - y0) * dx);
      if (ahead <= 1) continue;
      const far = ahead + 2 * aside;
      if (far < least) [least, best] = [far, key];
    }
    if (!best) return;
    this.focused = best;
    this.mark();
    this.reveal(best);
  }

  choose(/** @type {string} */ key) {
    const one = this.boxes.get(key);
    if (!one || one.box.kind === "virtual") return;
    this.focused = key;
    this.options.onselect(key, one.box.path);
  }

  wheel(/** @type {WheelEvent} */ event) {
    event.preventDefault();
    if (!event.ctrlKey && !event.metaKey) return this.pan(event.deltaX, event.deltaY);
    const at = this.canvas.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top);
  }

  drag(/** @type {PointerEvent} */ event) {
    if (event.button !== 0) return;
    let [x, y] = [event.clientX, event.clientY];
    let far = 0;
    const move = (/** @type {PointerEvent} */ next) => {
      far += Math.abs(next.clientX - x) + Math.abs(next.clientY - y);
      this.pan(x - next.clientX, y - next.clientY);
      [x, y] = [next.clientX, next.clientY];
    };
    const end = () => {
      removeEventListener("pointermove", move);
      this.dragged = far > 5;
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end, { once: true });
    addEventListener("pointercancel", end, { once: true });
  }

  click(/** @type {MouseEvent} */ event) {
    if (this.dragged) {
      this.dragged = false;
      return;
    }
    const group = event.target instanceof Element ? event.target.closest("g.box") : null;
    const found = [...this.boxes.values()].find((one) => one.element === group);
    if (!found) return;
    if (event.target instanceof Element && event.target.closest(".fold")) return this.toggle(found.box.key);
    this.choose(found.box.key);
  }
}

GraphView.made = 0;

function drawBox(/** @type {Box} */ box, /** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ id) {
  const virtual = box.kind === "virtual";
  const group = s("g", { class: "box", id, role: virtual ? "presentation" : "option", "aria-selected": virtual
    ? null : "false", transform: `translate(${x + box.x} ${y + box.y})` });
  const round = virtual ? box.height / 2 : 7;
  if (virtual) {
    group.setAttribute("aria-hidden", "true");
    add(group, s("rect", { width: box.width, height: box.height, rx: round }),
      s("text", { class: "name", x: box.width / 2, y: box.height / 2, "text-anchor": "middle" }, box.text));
    return group;
  }
  add(group, s("title"));
  if (box.kind === "graph" && !box.inner) add(group, s("rect",
    { class: "behind", x: 4, y: 4, width: box.width, height: box.height, rx: round }));
  add(group, s("rect", { width: box.width, height: box.height, rx: round }));
  const line = TITLE / 2;
  add(group, s("text", { class: "mark", "aria-hidden": "true", x: 15, y: line, "text-anchor": "middle" }),
    s("text", { class: "name", x: 27, y: line }, box.text));
  const right = box.kind === "graph" ? box.width - 26 : box.width - 8;
  add(group, s("text", { class: "count", "aria-hidden": "true", x: right, y: line, "text-anchor": "end" }));
  if (box.kind === "graph") {
    const fold = s("g", { class: "fold", "aria-hidden": "true" },
      s("rect", { x: box.width - 24, y: line - 12, width: 22, height: 24 }),
      s("text", { x: box.width - 13, y: line, "text-anchor": "middle" }, box.inner ? "▾" : "▸"));
    add(group, fold);
  }
  return group;
}

function drawLine(/** @type {Line} */ line, /** @type {number} */ x, /** @type {number} */ y) {
  const points = line.points.map((point) => ({ x: point.x + x, y: point.y + y }));
  const last = points.at(-1) ?? { x, y };
  const before = points.at(-2) ?? last;
  const angle = (Math.atan2(last.y - before.y, last.x - before.x) * 180) / Math.PI;
  const group = s("g", { class: "line" }, s("path", { d: curve(points) }),
    s("polygon", { points: "0,0 -8,-4 -8,4", transform: `translate(${last.x} ${last.y}) rotate(${angle})` }));
  if (line.labelAt) add(group, s("text", { class: "edge-label", x: line.labelAt.x + x, y: line.labelAt.y + y,
    "text-anchor": "middle" }, line.label));
  const middle = line.labelAt ? { x: line.labelAt.x + x, y: line.labelAt.y + y + 13 } : points[Math.floor(points.length / 2)] ?? last;
  add(group, s("text", { class: "edge-count", x: middle.x + (line.labelAt ? 0 : 6), y: middle.y,
    "text-anchor": line.labelAt ? "middle" : "start" }));
  return group;
}

// A smooth path through points: straight at both ends, curves around those between.
function curve(/** @type {{ x: number, y: number }[]} */ points) {
  const [first, ...rest] = points;
  if (!first) return "";
  const parts = [`M${first.x},${first.y}`];
  for (let at = 0; at < rest.length - 1; at++) {
    const [here, next] = /** @type {{ x: number, y: number }[]} */ ([rest[at], rest[at + 1]]);
    if (here && next) parts.push(`Q${here.x},${here.y} ${at === rest.length - 2 ? next.x : (here.x + next.x) / 2},${at === rest.length - 2 ? next.y : (here.y + next.y) / 2}`);
  }
  if (rest.length === 1 && rest[0]) parts.push(`L${rest[0].x},${rest[0].y}`);
  return parts.join(" ");
}
