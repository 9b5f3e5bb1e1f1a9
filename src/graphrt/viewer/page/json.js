// Values as expandable trees, and the differences of two values. A branch is built when it is opened: the cost of a
// value of any size and depth is that of its open part.

import { add, amount, copier, cut, fill, fold, h, prose, quiet, remark, shown, size } from "./dom.js";

const FIRST = 100;
const OPEN_LINES = 40;
const INLINE = 72;

// Whether a value is a plain object or a list.
/** @param {unknown} value @returns {value is Record<string, unknown> | unknown[]} */
export function isTree(value) {
  return typeof value === "object" && value !== null;
}

// A value as a tree.
/** @param {unknown} value @param {TreeOptions} [options] */
export function tree(value, options = {}) {
  const budget = { lines: OPEN_LINES };
  return h("div", { class: "json", role: "group", "aria-label": options.label ?? "Value" },
    item(null, value, { options, budget, depth: 0 }));
}

/** @param {string | number | null} key @param {unknown} value @param {Tree} tree @returns {HTMLElement} */
function item(key, value, tree) {
  const { options, budget, depth } = tree;
  budget.lines--;
  const name = key === null ? null : keyOf(key);
  const special = specialOf(value, options);
  if (special) return h("div", { class: "json-leaf" }, name, special);
  if (!isTree(value)) return h("div", { class: "json-leaf" }, name, leaf(value));
  const size = partsOf(value).length;
  const short = size === 0 || isFlat(value) ? inline(value, INLINE) : null;
  if (short !== null) return h("div", { class: "json-leaf" }, name, h("code", { class: "json-inline" }, short));
  const open = depth < 12 && budget.lines > 0 && size <= Math.max(budget.lines, depth === 0 ? FIRST : 0);
  return fold([name, quiet(count(value))], () => grown(value, 0, FIRST, open ? tree : { ...tree, budget: { lines: OPEN_LINES } }), open);
}

// The parts of a value from an index on, and a button for the rest.
/** @param {Record<string, unknown> | unknown[]} value @param {number} from @param {number} many @param {Tree} tree */
function grown(value, from, many, { options, budget, depth }) {
  const parts = partsOf(value);
  const until = Math.min(parts.length, from + many);
  /** @type {HTMLElement[]} */ const nodes = [];
  for (let at = from; at < until; at++) nodes.push(item(parts.key(at), parts.value(at), { options, budget, depth: depth + 1 }));
  const left = parts.length - until;
  if (!left) return nodes;
  const next = () => grown(value, until, 1000, { options, budget: { lines: 0 }, depth });
  const more = h("button", { type: "button", class: "link", onclick: () => more.replaceWith(...next()) },
    `Show ${Math.min(1000, left)} of ${left} more`);
  return [...nodes, more];
}

function keyOf(/** @type {string | number} */ key) {
  return h("span", { class: typeof key === "number" ? "json-key quiet" : "json-key" }, cut(String(key), 200), ": ");
}

// The parts of a list or an object in any form.
function partsOf(/** @type {Record<string, unknown> | unknown[]} */ value) {
  if (Array.isArray(value)) return { list: true, length: value.length, key: (/** @type {number} */ at) => at,
    value: (/** @type {number} */ at) => value[at] };
  const pairs = "$pairs" in value && Array.isArray(value["$pairs"]) ? value["$pairs"] : Object.entries(value);
  return { list: false, length: pairs.length, key: (/** @type {number} */ at) => String(pairs[at]?.[0]),
    value: (/** @type {number} */ at) => pairs[at]?.[1] };
}

function count(/** @type {Record<string, unknown> | unknown[]} */ value) {
  const { list, length } = partsOf(value);
  return list ? `list of ${length}` : `${length} ${length === 1 ? "field" : "fields"}`;
}

function leaf(/** @type {unknown} */ value) {
  if (typeof value === "string") {
    if (value.length <= 120 && !value.includes("\n")) return h("span", { class: "json-string" }, '"', value, '"');
    return h("div", { class: "json-text" }, prose(value, 2000));
  }
  return h("span", { class: `json-${value === null ? "null" : typeof value}` }, String(value));
}

function isFlat(/** @type {Record<string, unknown> | unknown[]} */ value) {
  const all = Object.values(value);
  return all.length <= 8 && all.every((one) => !isTree(one) && !(typeof one === "string" && one.length > INLINE));
}

// A value in one line of at most *most* characters, or null if it is longer.
function inline(/** @type {unknown} */ value, /** @type {number} */ most) {
  const text = JSON.stringify(value, null, 1)?.replace(/\n\s*/g, " ") ?? "";
  return text.length <= most ? text : null;
}

// A value in one line, truncated if it is long.
/** @param {unknown} value @param {number} [most] */
export function brief(value, most = 80) {
  return cut(briefOf(value, most, 0), most);
}

/** @param {unknown} value @param {number} most @param {number} depth @returns {string} */
function briefOf(value, most, depth) {
  if (typeof value === "string") return JSON.stringify(cut(value, most));
  if (!isTree(value)) return String(value);
  const marked = /** @type {any} */ (value);
  if (marked.$cut) return marked.$cut.shown ? `${JSON.stringify(cut(marked.$cut.shown, most))} (cut)` : `${marked.$cut.kind} of ${marked.$cut.size}`;
  if (marked.$media) return String(marked.$media.media_type ?? "media");
  if (marked.$bytes) return `${marked.$bytes.size} bytes`;
  if ("$erased" in marked) return "erased";
  if ("$number" in marked || "$repr" in marked) return cut(String(marked.$number ?? marked.$repr), most);
  if (depth > 4) return Array.isArray(value) ? "[…]" : "{…}";
  let left = most;
  const parts = [];
  const { list, length, key: keyAt, value: valueAt } = partsOf(value);
  for (let at = 0; at < length && left > 0; at++) {
    const [key, one] = [String(keyAt(at)), valueAt(at)];
    const part = list ? briefOf(one, Math.min(left, 40), depth + 1) : `${cut(key, 40)}: ${briefOf(one, Math.min(left, 40), depth + 1)}`;
    parts.push(part);
    left -= part.length + 2;
  }
  const more = left <= 0 ? ", …" : "";
  return list ? `[${parts.join(", ")}${more}]` : `{${parts.join(", ")}${more}}`;
}

// The placeholder of a value that was cut or erased, or is a picture.
function specialOf(/** @type {unknown} */ value, /** @type {TreeOptions} */ options) {
  if (!isTree(value) || Array.isArray(value)) return null;
  const marked = /** @type {any} */ (value);
  if (isTree(marked.$cut)) return cutValue(/** @type {Cut} */ (/** @type {unknown} */ (value)), options);
  if (isTree(marked.$media)) return picture(/** @type {Media} */ (/** @type {unknown} */ (value)), options.load);
  if (isTree(marked.$bytes)) return h("span", {}, h("span", { class: "tag" }, size(Number(marked.$bytes.size))), " ",
    h("code", {}, cut(String(marked.$bytes.hex), 64)));
  if ("$erased" in marked) return h("span", { class: "tag" }, "▒ erased");
  if ("$number" in marked) return h("span", { class: "json-number" }, cut(String(marked.$number), 400));
  if ("$repr" in marked) return h("span", { class: "json-repr" }, cut(String(marked.$repr), 400));
  return null;
}

/** @param {Cut} value @param {TreeOptions} options */
function cutValue({ $cut: { kind, size: whole, shown: head, ref } }, options) {
  const place = h("div", { class: "json-cut" });
  if (head) add(place, prose(`${head}…`, 2000));
  const amounts = { text: "characters", list: "items", object: "fields", depth: "levels and more" };
  add(place, h("span", { class: "tag" }, `${kind === "depth" ? "nested deeper" : `${amount(whole)} ${amounts[kind] ?? ""}`}; cut here`));
  const { load } = options;
  if (!load || ref === null) return place;
  const button = h("button", { type: "button", class: "link" }, "Load the whole value");
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { value, text } = await load(ref);
      fill(place, text === null ? tree(value, options) : prose(text, 20_000));
    } catch (error) {
      add(place, h("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
    }
  });
  add(place, " ", button);
  return place;
}

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

// A picture from its bytes if its type cannot contain scripts, otherwise its description.
/** @param {Media} value @param {TreeOptions["load"]} [load] */
export function picture({ $media: media }, load) {
  const mime = String(media.media_type);
  const about = h("span", { class: "tag" }, [media.name, mime, media.size === null ? "" : size(media.size),
    media.url].filter(Boolean).join(", "));
  if (!PICTURES.has(mime)) return about;
  const show = (/** @type {string} */ data) => {
    const image = h("img", { src: `data:${mime};base64,${data}`, alt: media.name ?? `Picture (${mime})`, class: "picture" });
    image.addEventListener("error", () => place.replaceChildren(about));
    place.replaceChildren(image);
  };
  const place = h("span", { class: "media" }, about);
  if (typeof media.data === "string") show(media.data);
  else if (load && media.ref !== null) {
    const { ref } = media;
    const button = h("button", { type: "button", class: "link" }, "Show the picture");
    button.addEventListener("click", async () => {
      const { data } = await load(ref);
      if (data !== null) show(data);
    });
    add(place, " ", button);
  }
  return place;
}

// A value with a button that copies it as JSON.
/** @param {unknown} value @param {TreeOptions} [options] */
export function valueBlock(value, options = {}) {
  return h("div", { class: "value" }, copier("Copy JSON", () => JSON.stringify(value, null, 2)), tree(value, options));
}

// The effect of an operation on the state, as removed and added values.
/** @param {Op} op @param {unknown} before The previous value at its path. @param {TreeOptions} [options] */
export function change(op, before, options = {}) {
  const [kind, path] = op;
  const name = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`)).join("").replace(/^\./, "") || "state";
  const block = h("div", { class: "change" });
  const removed = kind === "~" && Array.isArray(before) ? before.slice(op[2], op[2] + op[3]) : [];
  add(block, h("div", { class: "change-name" }, h("code", {}, cut(name, 200)), " ", quiet(VERBS[kind])));
  if (kind === "~") for (const one of removed) add(block, side("removed", one, options));
  else if (kind !== "+" && before !== undefined) add(block, side("removed", before, options));
  if (kind === "=") add(block, side("added", op[2], options));
  const added = kind === "+" ? op[2] : kind === "~" ? op[4] : [];
  for (const one of added.slice(0, 200)) add(block, side("added", one, options));
  if (added.length > 200) add(block, remark(`and ${added.length - 200} more`));
  return block;
}

const VERBS = { "=": "set", "+": "appended", "-": "removed", "~": "changed" };

/** @param {"added" | "removed"} kind @param {unknown} value @param {TreeOptions} options */
function side(kind, value, options) {
  const sign = kind === "added" ? "+" : "−";
  const mark = h("span", { class: "sign", role: "img", "aria-label": kind }, sign);
  return h("div", { class: `side ${kind}` }, mark, messageLine(value, options) ?? tree(value, { ...options, label: kind }));
}

// A value that looks like a message: its role and text, with its fields on demand.
export function messageLine(/** @type {unknown} */ value, /** @type {TreeOptions} */ options) {
  if (!isTree(value) || Array.isArray(value) || typeof value["role"] !== "string" || typeof value["text"] !== "string") return null;
  const calls = Array.isArray(value["tool_calls"]) ? value["tool_calls"] : [];
  const all = fold([quiet("all fields")], () => [tree(value, options)]);
  return h("div", {}, h("strong", {}, value["role"]), value["text"] ? prose(value["text"]) : null,
    calls.map((call) => h("div", {}, "⚙ ", h("code", {}, brief(call?.name, 60), " ", brief(call?.arguments, 160)))), all);
}

// The paths at which two values differ, in order; it recurses into objects and lists.
/** @param {unknown} left @param {unknown} right @param {number} [most] */
export function differences(left, right, most = 500) {
  /** @type {{ path: string, left: unknown, right: unknown }[]} */ const found = [];
  /** @type {{ path: string, left: unknown, right: unknown }[]} */ const open = [{ path: "", left, right }];
  while (open.length && found.length < most) {
    const one = /** @type {{ path: string, left: unknown, right: unknown }} */ (open.pop());
    if (one.left === one.right) continue;
    const both = isTree(one.left) && isTree(one.right) && Array.isArray(one.left) === Array.isArray(one.right);
    if (!both) {
      found.push(one);
      continue;
    }
    const [a, b] = /** @type {Record<string, unknown>[]} */ ([one.left, one.right]);
    const keys = [...new Set([...Object.keys(a ?? {}), ...Object.keys(b ?? {})])].reverse();
    for (const key of keys) open.push({ path: one.path ? `${one.path}.${key}` : key, left: a?.[key], right: b?.[key] });
  }
  return found;
}

// Text of several lines in a block of code.
export function codeBlock(/** @type {string} */ text) {
  const most = 20_000;
  const block = h("pre", { class: "code", tabindex: 0 });
  block.append(shown(cut(text, most), true));
  return block;
}
