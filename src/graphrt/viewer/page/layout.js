// The positions of the nodes and edges of a graph. dagre computes the layers; an open nested graph is laid out
// separately, and is one large node of its parent.

import * as dagre from "./vendor/dagre.esm.js";
import { cut, escaped } from "./dom.js";

export const START = "START";
export const END = "END";
const HEIGHT = 34;
const HEAD = 34;
const PAD = 14;
const LABEL = 26;
const LARGE = 150;
const LONG = 8;

// One text for a path of nodes. A name cannot hold the separator, or it is escaped when it is shown.
export function keyOf(/** @type {readonly string[]} */ path) {
  return path.join("\u0001");
}

// One text for an edge.
/** @param {readonly string[]} path Its outer nodes. @param {string} from @param {string} to */
export function edgeKey(path, from, to) {
  return `${keyOf([...path, from])}\u0002${to}`;
}

/** @type {CanvasRenderingContext2D | null} */ let canvas = null;
/** @type {Map<string, number>} */ const widths = new Map();

function widthOf(/** @type {string} */ text, /** @type {number} */ pixels) {
  const key = `${pixels}${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    canvas ??= document.createElement("canvas").getContext("2d");
    if (canvas) canvas.font = `${pixels}px system-ui, sans-serif`;
    width = canvas ? canvas.measureText(text).width : text.length * pixels * 0.6;
    widths.set(key, width);
  }
  return width;
}

// Lay out a graph. *open* has the keys of the nested graphs that are drawn in place, and *path* its outer nodes.
/** @param {Topology} topology @param {ReadonlySet<string>} open @param {readonly string[]} [path] @returns {Plan} */
export function layOut(topology, open, path = []) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 30, edgesep: 14, marginx: PAD, marginy: PAD });
  const boxes = boxesOf(topology, open, path);
  for (const box of boxes.values()) graph.setNode(box.name, { width: box.width, height: box.height });
  const lines = linesOf(topology, path, boxes);
  // dagre takes most of its time for long edges. In a large graph they are drawn past the nodes instead.
  const large = boxes.size > LARGE;
  const past = large ? longLines([...lines.values()], boxes) : new Set();
  for (const line of lines.values()) {
    if (past.has(line)) continue;
    const size = line.label ? { width: widthOf(line.label, 11) + 10, height: 16, labelpos: "c" } : {};
    graph.setEdge(line.from, line.to, size, line.key);
  }
  dagre.layout(graph, { disableOptimalOrderHeuristic: large });
  for (const box of boxes.values()) {
    const at = graph.node(box.name);
    box.x = at.x - at.width / 2;
    box.y = at.y - at.height / 2;
  }
  for (const line of lines.values()) {
    if (past.has(line)) {
      pass(line, /** @type {Box} */ (boxes.get(line.from)), /** @type {Box} */ (boxes.get(line.to)));
      continue;
    }
    const at = graph.edge(line.from, line.to, line.key);
    line.points = at.points ?? [];
    line.labelAt = line.label && at.x !== undefined ? { x: at.x, y: at.y } : null;
  }
  const { width = 0, height = 0 } = graph.graph();
  return { width: Math.max(width, 60), height: Math.max(height, 40), boxes: [...boxes.values()], lines: [...lines.values()] };
}

// The lines that go back, or down over many layers.
function longLines(/** @type {Line[]} */ lines, /** @type {Map<string, Box>} */ boxes) {
  /** @type {Map<string, Line[]>} */ const leaving = new Map();
  for (const line of lines) leaving.set(line.from, [...(leaving.get(line.from) ?? []), line]);
  /** @type {Set<Line>} */ const long = new Set();
  /** @type {Map<string, number>} */ const layers = new Map();
  /** @type {string[]} Nodes after their successors. */
  const done = [];
  const open = new Set();
  for (const root of [START, ...boxes.keys()]) {
    const walk = [{ name: root, next: 0 }];
    while (walk.length) {
      const top = /** @type {{ name: string, next: number }} */ (walk.at(-1));
      if (top.next === 0 && layers.has(top.name)) {
        walk.pop();
        continue;
      }
      open.add(top.name);
      const line = leaving.get(top.name)?.[top.next++];
      if (!line) {
        layers.set(top.name, 0);
        open.delete(top.name);
        done.push(top.name);
        walk.pop();
      } else if (open.has(line.to)) long.add(line);
      else walk.push({ name: line.to, next: 0 });
    }
  }
  const forward = (/** @type {string} */ name) => (leaving.get(name) ?? []).filter((line) => !long.has(line));
  for (const name of done.reverse()) {
    for (const { to } of forward(name)) layers.set(to, Math.max(layers.get(to) ?? 0, (layers.get(name) ?? 0) + 1));
  }
  for (const line of lines) if ((layers.get(line.to) ?? 0) - (layers.get(line.from) ?? 0) > LONG) long.add(line);
  return long;
}

// Draw a line at the right side of the nodes.
function pass(/** @type {Line} */ line, /** @type {Box} */ from, /** @type {Box} */ to) {
  const [a, b] = [{ x: from.x + from.width, y: from.y + from.height / 2 }, { x: to.x + to.width, y: to.y + to.height / 2 }];
  const x = Math.max(a.x, b.x) + 40;
  line.points = [a, { x, y: a.y }, { x, y: b.y }, b];
  line.labelAt = line.label ? { x, y: (a.y + b.y) / 2 } : null;
}

/** @param {Topology} topology @param {ReadonlySet<string>} open @param {readonly string[]} path */
function boxesOf(topology, open, path) {
  /** @type {Map<string, Box>} */ const boxes = new Map();
  const ends = [START, ...topology.edges.flatMap((edge) => [edge.from, edge.to])].filter((name) => name === START || name === END);
  for (const node of [...topology.nodes, ...[...new Set(ends)].map((name) => ({ name, kind: "virtual", graph: undefined }))]) {
    const own = [...path, node.name];
    const key = keyOf(own);
    const text = escaped(cut(node.name, 36));
    const inner = node.graph && open.has(key) ? layOut(node.graph, open, own) : null;
    const virtual = node.kind === "virtual";
    const plain = virtual ? widthOf(text, 11) + 26 : Math.max(84, widthOf(text, 13) + (node.graph ? 88 : 66));
    boxes.set(node.name, {
      path: own, key, name: node.name, text, inner, x: 0, y: 0, kind: virtual ? "virtual" : node.graph ? "graph" : "node",
      width: Math.max(plain, inner ? inner.width + PAD : 0),
      height: inner ? inner.height + HEAD + PAD / 2 : virtual ? 24 : HEIGHT,
    });
  }
  return boxes;
}

// Edges of one kind between the same two nodes are one line with all their labels.
/** @param {Topology} topology @param {readonly string[]} path @param {Map<string, Box>} boxes */
function linesOf(topology, path, boxes) {
  /** @type {Map<string, Line>} */ const lines = new Map();
  for (const edge of topology.edges) {
    if (!boxes.has(edge.from) || !boxes.has(edge.to)) continue;
    const label = labelOf(edge);
    const id = `${edgeKey(path, edge.from, edge.to)}\u0002${edge.kind}`;
    const line = lines.get(id);
    if (line && label && !line.label.includes(label)) line.label = escaped(cut(`${line.label}, ${label}`, LABEL));
    if (line) continue;
    const key = edgeKey(path, edge.from, edge.to);
    lines.set(id, { key, from: edge.from, to: edge.to, kind: edge.kind, label: escaped(cut(label, LABEL)), points: [], labelAt: null });
  }
  return lines;
}

function labelOf(/** @type {GraphEdge} */ edge) {
  if (edge.kind === "static" || edge.kind === "seen") return "";
  if (edge.kind !== "conditional") return edge.kind.replace("_", " ");
  if (edge.default) return "default";
  const label = typeof edge.label === "string" ? edge.label : JSON.stringify(edge.label ?? "");
  return label === "__end__" || label === edge.to ? "" : label;
}

/** The height of the title of an open nested graph. */
export const TITLE = HEAD;
/** The space beside it. */
export const INSET = PAD / 2;
