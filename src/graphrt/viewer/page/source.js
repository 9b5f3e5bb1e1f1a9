// The source of the documents: a server, or the data in this file. The page does not know which.

import { escaped, h, kept } from "./dom.js";

const TOKEN = "graphrt-viewer-token";

/** A `Problem` as an error. */
export class Refused extends Error {
  constructor(/** @type {Partial<Problem>} */ problem) {
    super([problem.title, problem.detail].filter(Boolean).join(": ") || "The request failed");
    this.problem = problem;
  }
}

/** @returns {Promise<Source>} */
export async function openSource() {
  const data = document.getElementById("data");
  if (!data) return new ServerSource();
  return new FileSource(await inflated(data.textContent ?? ""));
}

/** @param {string} text @returns {Promise<FileData>} */
async function inflated(text) {
  const characters = atob(text.trim());
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Take the token out of the address, so that it is neither copied nor kept in the history. */
function takeToken() {
  const match = /^#token=([^&]+)&?(.*)$/.exec(location.hash);
  if (!match) return;
  remember(decodeURIComponent(match[1] ?? ""));
  history.replaceState(null, "", `#${match[2] ?? ""}`);
}

let token = "";

function remember(/** @type {string} */ value) {
  token = kept("session", TOKEN, value);
}

/** @implements {Source} */
class ServerSource {
  constructor() {
    takeToken();
    token ||= kept("session", TOKEN);
  }

  get(/** @type {string} */ name, /** @type {Record<string, string | number | undefined>} */ query = {}) {
    const url = new URL(`api/${name}`, document.baseURI);
    for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") url.searchParams.set(key, String(value));
    return this.ask(url, {});
  }

  /** @param {URL} url @param {RequestInit} options @returns {Promise<any>} */
  async ask(url, options) {
    const response = await this.send(url, options);
    return response.json();
  }

  /** @param {URL} url @param {RequestInit} options @returns {Promise<Response>} */
  async send(url, options) {
    for (let refused = false; ; refused = true) {
      // No form, and no page of another origin, can send this header.
      const headers = { ...options.headers, "x-graphrt-viewer": "1", ...(token ? { authorization: `Bearer ${token}` } : {}) };
      const response = await fetch(url, { ...options, headers, credentials: "same-origin", cache: "no-store" });
      if (response.ok) return response;
      if (response.status === 401 && (await askToken(refused))) continue;
      throw new Refused(await response.json().catch(() => ({ status: response.status, title: `The server answered ${response.status}` })));
    }
  }

  head() { return this.get("head"); }
  graph(/** @type {string} */ graph) { return this.get("graph", { graph }); }
  /** @type {Source["threads"]} */ threads(query) { return this.get("threads", query); }
  /** @type {Source["inbox"]} */ inbox(query) { return this.get("inbox", query); }
  /** @type {Source["thread"]} */ thread(ref) { return this.get("thread", { ...ref }); }
  /** @type {Source["rows"]} */ rows(ref, from, limit) { return this.get("rows", { ...ref, from, limit }); }
  /** @type {Source["entries"]} */ entries(ref, after, limit) { return this.get("entries", { ...ref, after, limit }); }
  /** @type {Source["state"]} */ state(ref, at) { return this.get("state", { ...ref, at }); }
  /** @type {Source["call"]} */ call(ref, seq) { return this.get("call", { ...ref, seq }); }
  /** @type {Source["prompt"]} */ prompt(ref, seq) { return this.get("prompt", { ...ref, seq }); }
  /** @type {Source["conversation"]} */ conversation(ref) { return this.get("conversation", { ...ref }); }
  /** @type {Source["value"]} */ value(ref, token) { return this.get("value", { ...ref, ref: token }); }
  /** @type {Source["compare"]} */ compare(ref, other) { return this.get("compare", { ...ref, other }); }
  /** @type {Source["audit"]} */ audit(ref) { return this.get("audit", { ...ref }); }
  /** @type {Source["coverage"]} */ coverage(graph) { return this.get("coverage", { graph }); }
  /** @type {Source["case"]} */ case(ref, at) { return this.get("case", { ...ref, at }); }

  /** @type {Source["act"]} */ act(act) {
    const headers = { "content-type": "application/json" };
    return this.ask(new URL("api/act", document.baseURI), { method: "POST", headers, body: JSON.stringify(act) });
  }

  // Events as they arrive. After a lost connection it continues after the last event.
  /** @type {Source["live"]} */ live(ref, after, on) {
    const stop = new AbortController();
    const run = async () => {
      let last = after;
      for (let failed = 0; !stop.signal.aborted; failed++) {
        try {
          const url = new URL("api/live", document.baseURI);
          for (const [key, value] of Object.entries({ ...ref, after: last })) url.searchParams.set(key, value);
          const response = await this.send(url, { signal: stop.signal, headers: { accept: "text/event-stream" } });
          for await (const { id, event, data } of messages(response)) {
            failed = 0;
            if (id) last = id;
            on(/** @type {LiveEvent} */ ({ event, data }));
            if (event === "end") return;
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          if (error instanceof Refused) return on({ event: "problem", data: /** @type {Problem} */ (error.problem) });
        }
        await new Promise((resolve) => setTimeout(resolve, Math.min(15_000, 500 * 2 ** Math.min(failed, 5))));
      }
    };
    run();
    return () => stop.abort();
  }
}

// The messages of an event stream.
async function* messages(/** @type {Response} */ response) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const message = { id: "", event: "message", data: "" };
      for (const line of part.split(/\r?\n/)) {
        const [, name, text] = /^(id|event|data): ?(.*)$/s.exec(line) ?? [];
        if (name === "data") message.data += (message.data ? "\n" : "") + text;
        else if (name) message[/** @type {"id" | "event"} */ (name)] = text ?? "";
      }
      if (message.data) yield { ...message, data: JSON.parse(message.data) };
    }
  }
}

/** @type {Promise<boolean> | null} */ let asking = null;

// Ask a person for the token of the server; several requests ask once.
/** @param {boolean} refused Whether the server refused the previous one. */
function askToken(refused) {
  asking ??= new Promise((resolve) => {
    const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
    const form = h("form", { method: "dialog" },
      h("p", { role: "alert", class: "bad" }, refused || token ? "The server does not accept this token." : ""),
      h("label", { for: "token" }, "Token of the server"), input, h("button", { class: "primary" }, "Continue"));
    const dialog = h("dialog", { "aria-label": "Sign in", class: "narrow" }, form);
    dialog.addEventListener("close", () => {
      if (input.value) remember(input.value);
      dialog.remove();
      asking = null;
      resolve(input.value !== "");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

/** @implements {Source} */
class FileSource {
  constructor(/** @type {FileData} */ data) {
    this.data = data;
  }

  async head() { return this.data.head; }
  async graph() { return this.data.graph; }
  async thread() { return this.data.thread; }
  /** @type {Source["rows"]} */
  async rows() { return { rows: this.data.rows, total: this.data.rows.length, seq: this.data.thread.seq }; }
  /** @type {Source["entries"]} */
  async entries(_ref, after) { return { entries: this.data.entries.filter((one) => one.seq > after), more: false }; }
  async conversation() { return this.data.conversation; }

  /** @returns {Promise<ThreadsPage>} */
  async threads() {
    const { usage, version, ...row } = this.data.thread;
    return { threads: [{ ...row, cost_usd: usage.cost_usd, tokens: usage.total_tokens, build: version }], next: null };
  }

  /** @returns {Promise<InboxPage>} */
  async inbox() {
    const { graph, thread, title, status, questions, updated_at: asked_at } = this.data.thread;
    return { questions: questions.map((one) => ({ ...one, graph, thread, title, status, asked_at })), next: null };
  }

  /** @type {Source["call"]} */
  async call(_ref, seq) { return this.part(this.data.calls[seq], `the model call of entry ${seq}`); }
  /** @type {Source["case"]} */
  async case(_ref, at) { return this.part(this.data.cases[at], `a test case for entry ${at}`); }
  async audit() { return this.part(this.data.audit, "a verdict on the journal"); }
  async coverage() { return this.part(this.data.coverage, "route coverage"); }
  /** @type {Source["prompt"]} */
  async prompt(_ref, seq) { return { seq, prompt: null, problem: "This file does not contain the prompt of this call." }; }
  /** @returns {Promise<StateDoc>} */
  async state() { return this.part(/** @type {StateDoc | null} */ (null), "whole states"); }
  /** @returns {Promise<ValueDoc>} */
  async value() { return this.part(/** @type {ValueDoc | null} */ (null), "the whole value: it was cut when the file was written"); }
  /** @returns {Promise<CompareDoc>} */
  async compare() { return this.part(/** @type {CompareDoc | null} */ (null), "other threads"); }
  /** @returns {Promise<Acted>} */
  async act() { return this.part(/** @type {Acted | null} */ (null), "a server to act on"); }
  live() { return () => {}; }

  /** @template T @param {T | null | undefined} part @param {string} what @returns {T} */
  part(part, what) {
    if (part === null || part === undefined) throw new Refused({ title: `This file does not contain ${what}`, detail: "",
      status: 404, code: "not-in-file", fix: null });
    return part;
  }
}

// The text of an error for a person.
export function reasonOf(/** @type {unknown} */ error) {
  const fix = error instanceof Refused && error.problem.fix ? ` ${error.problem.fix}` : "";
  return escaped((error instanceof Error ? error.message : String(error)) + fix);
}
