// Elements, safe texts and the formats of amounts. Every text from a thread is untrusted: it becomes a text node,
// and invisible characters and marks of direction become visible escapes.

const SVG = "http://www.w3.org/2000/svg";
const OWN_LINK = /^#/;
// Image types that cannot contain scripts.
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*$/;
// The same set as in Python's `graphrt._display`: controls, soft hyphen, marks of direction, zero-width and tag characters,
// and lone surrogates.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Cs}/gu;

// Make an HTML element. Texts among the children become text nodes with their escapes shown.
/** @type {MakeElement} */
export function h(tag, props = {}, ...children) {
  return made(document.createElement(tag), props, children);
}

// Make an SVG element.
/** @type {MakeSvg} */
export function s(tag, props = {}, ...children) {
  return made(document.createElementNS(SVG, tag), props, children);
}

/** @template {Element} T @param {T} element @param {Record<string, any>} props @param {(Child | Child[])[]} children */
function made(element, props, children) {
  set(element, props);
  add(element, ...children);
  return element;
}

function set(/** @type {Element} */ element, /** @type {Record<string, any>} */ props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href" && !OWN_LINK.test(value)) throw new Error("A link leads out of the page");
    else if (name === "src" && !PICTURE.test(value)) throw new Error("This is not the data of a picture");
    else element.setAttribute(name, value === true ? "" : escaped(String(value)));
  }
}

// Append children.
/** @param {Element} element @param {...(Child | Child[])} children */
export function add(element, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : shown(String(child)));
  }
}

// Replace all children of an element.
/** @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, ...children);
}

// Return a text with visible escapes, in one line.
export function escaped(/** @type {string} */ text) {
  return text.replace(HIDDEN, escapeOf);
}

function escapeOf(/** @type {string} */ character) {
  const code = character.codePointAt(0) ?? 0;
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\r") return "\\r";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

// Return nodes for a text; escapes are marked as such.
/** @param {string} text @param {boolean} [lines] Whether line breaks and tabs are kept. */
export function shown(text, lines = false) {
  const fragment = document.createDocumentFragment();
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (lines && (match[0] === "\n" || match[0] === "\t")) continue;
    if (match.index > from) fragment.append(text.slice(from, match.index));
    const mark = document.createElement("span");
    mark.className = "escape";
    mark.textContent = escapeOf(match[0]);
    fragment.append(mark);
    from = match.index + match[0].length;
  }
  if (from < text.length) fragment.append(text.slice(from));
  return fragment;
}

// Return the first characters of a text, without splitting a surrogate pair.
export function cut(/** @type {string} */ text, /** @type {number} */ most) {
  if (text.length <= most) return text;
  const end = /[\ud800-\udbff]/.test(text[most - 1] ?? "") ? most - 1 : most;
  return `${text.slice(0, end)}…`;
}

// A paragraph or block of text of any length: the first part, and a button for the rest.
/** @param {string} text @param {number} [most] */
export function prose(text, most = 4000) {
  const block = h("div", { class: "prose", dir: "auto" });
  let at = 0;
  const more = () => {
    const size = at === 0 ? most : 50_000;
    const end = /[\ud800-\udbff]/.test(text[at + size - 1] ?? "") ? at + size - 1 : at + size;
    button.remove();
    block.append(shown(text.slice(at, end), true));
    at = end;
    if (at < text.length) {
      button.textContent = `Show more (${amount(text.length - at)} characters left)`;
      block.append(button);
    }
  };
  const button = h("button", { type: "button", class: "link", onclick: more });
  more();
  return block;
}

// A number, short: 950, 12.3k, 4.5M.
export function amount(/** @type {number} */ value) {
  if (Math.abs(value) < 10_000) return String(Math.round(value * 100) / 100);
  const [by, unit] = Math.abs(value) < 1e6 ? [1e3, "k"] : Math.abs(value) < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${(value / Number(by)).toFixed(1)}${unit}`;
}

// A time span: 3 ms, 1.2 s, 4 min 5 s, 2 h 3 min.
export function span(/** @type {number | null | undefined} */ seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds === 0) return "";
  if (seconds < 0.0005) return `${Math.max(0, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} days`;
}

// A sum of money, from an amount in US dollars.
export function money(/** @type {number | string | null | undefined} */ value) {
  if (value === null || value === undefined || value === "") return "";
  const dollars = Number(value);
  return `$${dollars !== 0 && Math.abs(dollars) < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(2)}`;
}

// A time as local date and time.
/** @param {number | null | undefined} at Seconds since 1970. */
export function moment(at) {
  if (at === null || at === undefined) return "";
  const date = new Date(at * 1000);
  if (Number.isNaN(date.getTime())) return String(at);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// The age of a time.
/** @param {number | null | undefined} at Seconds since 1970. */
export function age(at) {
  if (at === null || at === undefined) return "";
  const seconds = Date.now() / 1000 - at;
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86_400)} days ago`;
}

// A size in bytes.
export function size(/** @type {number} */ bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1_048_576 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;
}

// "1 step", "2 steps".
export function plural(/** @type {number} */ count, /** @type {string} */ noun) {
  const many = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count.toLocaleString("en-US")} ${count === 1 ? noun : many}`;
}

const MARKS = {
  completed: "✓", success: "✓", running: "▶", interrupted: "?", waiting: "?", failed: "✕", error: "✕", cancelled: "■",
  new: "○", due: "…", idle: "○", redacted: "▒",
};

// The symbol of a status: colour alone is not accessible.
export function markOf(/** @type {string} */ status) {
  return MARKS[/** @type {keyof typeof MARKS} */ (status)] ?? "·";
}

// A status as a chip.
export function chip(/** @type {string} */ status) {
  return h("span", { class: `chip is-${statusClass(status)}` }, h("span", { "aria-hidden": "true" }, markOf(status)), " ", status);
}

// The class of a status. Statuses come from data, classes do not.
export function statusClass(/** @type {string} */ status) {
  if (status === "success" || status === "completed") return "ok";
  if (status === "error" || status === "failed") return "bad";
  if (status === "interrupted" || status === "waiting") return "wait";
  return status === "running" || status === "due" ? "run" : "idle";
}

/** @param {...(Child | Child[])} children */
export function quiet(...children) {
  return h("span", { class: "quiet" }, ...children);
}

/** @param {...(Child | Child[])} children */
export function remark(...children) {
  return h("p", { class: "quiet" }, ...children);
}

// A symbol beside words with the same meaning.
/** @param {string} text */
export function sign(text) {
  return h("span", { "aria-hidden": "true" }, text);
}

// Facts in a line; empty ones are left out.
/** @param {Child[]} all */
export function facts(all) {
  return h("p", { class: "facts quiet" }, all.filter(Boolean).map((one) => h("span", {}, one)));
}

// A small button.
/** @param {Child} label @param {() => void} onclick @param {Record<string, any>} [props] */
export function small(label, onclick, props = {}) {
  return h("button", { type: "button", class: "small", onclick, ...props }, label);
}

// A disclosure, whose content is created when it opens.
/** @param {Child[]} summary @param {() => Child[]} build @param {boolean} [open] */
export function fold(summary, build, open = false) {
  const body = h("div", { class: "json-body" });
  const part = h("details", { class: "json-branch", open }, h("summary", {}, summary), body);
  const grow = () => part.open && !body.hasChildNodes() && add(body, build());
  part.addEventListener("toggle", grow);
  if (open) grow();
  return part;
}

// Focus the next or the previous of some elements.
export function moveFocus(/** @type {Iterable<Element>} */ elements, /** @type {number} */ by) {
  const all = [...elements].filter((one) => one instanceof HTMLElement);
  const at = all.findIndex((one) => one.contains(document.activeElement));
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
}

// A button that copies a text, and confirms it.
export function copier(/** @type {string} */ label, /** @type {string | (() => string)} */ text) {
  return small(label, async () => copy(typeof text === "string" ? text : text()));
}

export async function copy(/** @type {string} */ text, done = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
    notify(done);
  } catch {
    notify("The browser does not allow copying here");
  }
}

/** @type {number | undefined} */ let hiding;

// Show a notification at the foot of the page, and announce it to screen readers.
export function notify(/** @type {string} */ message) {
  const notice = /** @type {HTMLElement} */ (document.getElementById("notice"));
  fill(notice, message);
  notice.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (notice.hidden = true), Math.max(2500, message.length * 60));
}

// A text in the browser's storage. A file opened from disk may have no storage: then nothing is stored.
/** @param {"local" | "session"} where @param {string} name @param {string} [value] The new text. */
export function kept(where, name, value) {
  try {
    const storage = where === "local" ? localStorage : sessionStorage;
    if (value !== undefined) storage.setItem(name, value);
    return storage.getItem(name) ?? "";
  } catch {
    return value ?? "";
  }
}
