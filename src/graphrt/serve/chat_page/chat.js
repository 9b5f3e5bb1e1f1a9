// @ts-check
/**
 * A chat with a graph: it speaks the UI message stream of the AI SDK, as `useChat` does.
 *
 * What is shown is a fold of the stream's chunks (`fold`), as it is in the SDK. After a reload the page asks for the
 * messages of the thread, and joins the stream of the one that is being made. Every text is put into text nodes.
 */

/** @typedef {Record<string, any>} Json */
/** @typedef {{id: string, role: string, parts: Json[]}} Message */

const meta = (/** @type {string} */ name) =>
  /** @type {HTMLMetaElement} */ (document.querySelector(`meta[name="${name}"]`)).content;
const CHAT = meta("chat");
const THREADS = meta("threads");
const find = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

/** @type {Message[]} */
let messages = [];
/** What asks for the messages before these; null if there are none. @type {number | null} */
let before = null;
/** How often a message was changed since it came. @type {WeakMap<Message, number>} */
const changes = new WeakMap();
let thread = "";
let running = false;
/** The message that the stream makes. @type {Message | undefined} */
let current;
/** Ids of the questions that are open, as the server has said last. @type {Set<string>} */
let questions = new Set();
/** Number of the last entry of the thread, as the server has said last. */
let position = 0;
/** How many chats were opened: what a request of an earlier one still brings is dropped. */
let opened = 0;

// ---------------------------------------------------------------------------------------------------- requests

const TOKEN = "graphrt-token";

/**
 * @param {string} path
 * @param {Json} [options]
 * @returns {Promise<Response>}
 */
async function ask(path, { method = "GET", body, key } = {}) {
  for (;;) {
    /** @type {Record<string, string>} */
    const headers = {};
    const token = sessionStorage.getItem(TOKEN);
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    if (key) headers["idempotency-key"] = key;
    const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    if (answer.status === 401) {
      find("refused").hidden = !token;
      await signIn();
      continue;
    }
    if (answer.ok) return answer;
    const problem = await answer.json().catch(() => ({}));
    throw new Error([problem.detail || `The server answered with ${answer.status}.`, problem.fix].filter(Boolean).join(" "));
  }
}

/** Ask for the token of the server. */
function signIn() {
  const dialog = find("sign-in");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, find("token").value.trim());
      resolve(undefined);
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

/**
 * The chunks of a response.
 * @param {Response} response
 */
async function* chunksOf(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      if (event === "data: [DONE]") return;
      if (event.startsWith("data: ")) yield JSON.parse(event.slice(6));
    }
  }
}

// ---------------------------------------------------------------------------------------- messages, as a fold

/**
 * Take a chunk into the messages.
 * @param {Json} chunk
 * @param {boolean} anew Whether the stream gives its message from the beginning.
 */
function fold(chunk, anew) {
  if (chunk.type === "start") {
    current = messages.find((one) => one.id === chunk.messageId);
    if (!current) messages.push((current = { id: chunk.messageId, role: "assistant", parts: [] }));
    else if (anew) current.parts = [];
    changes.set(current, (changes.get(current) ?? 0) + 1);
    return;
  }
  if (!current) return;
  changes.set(current, (changes.get(current) ?? 0) + 1);
  const parts = current.parts;
  const part = (/** @type {(one: Json) => boolean} */ is) => parts.findLast(is);
  const tool = (/** @type {Json} */ values) =>
    Object.assign(part((one) => one.toolCallId === chunk.toolCallId) ?? {}, values);
  switch (chunk.type) {
    case "text-start":
    case "reasoning-start": {
      const text = part((one) => one.id === chunk.id);
      if (text) text.text = "";
      else parts.push({ type: chunk.type.replace("-start", ""), text: "", id: chunk.id });
      break;
    }
    case "text-delta":
    case "reasoning-delta": {
      const text = part((one) => one.id === chunk.id);
      if (text) text.text += chunk.delta;
      break;
    }
    case "tool-input-available":
      parts.push({ type: "dynamic-tool", state: "input-available", ...pick(chunk, "toolCallId", "toolName", "input") });
      break;
    case "tool-approval-request":
      tool({ state: "approval-requested", approval: { id: chunk.approvalId } });
      break;
    case "tool-approval-response": {
      const asked = part((one) => one.approval?.id === chunk.approvalId);
      if (asked) Object.assign(asked, { state: "approval-responded" }, { approval: { ...asked.approval, approved: chunk.approved } });
      break;
    }
    case "tool-output-available":
      tool({ state: "output-available", output: chunk.output });
      break;
    case "tool-output-error":
      tool({ state: "output-error", errorText: chunk.errorText });
      break;
    case "tool-output-denied":
      tool({ state: "output-denied" });
      break;
    case "file":
      parts.push({ type: "file", ...pick(chunk, "mediaType", "url", "filename") });
      break;
    case "error":
      parts.push({ type: "data-error", data: chunk.errorText });
      break;
    default: // steps, questions and progress are shown by other means
  }
}

/** @param {Json} from @param {string[]} names */
function pick(from, ...names) {
  return Object.fromEntries(names.filter((name) => name in from).map((name) => [name, from[name]]));
}

// ---------------------------------------------------------------------------------------------------- the page

/**
 * Make an element; strings among its children become text nodes.
 * @param {string} name
 * @param {Json} [properties]
 * @param {(Node | string)[]} children
 * @returns {any}
 */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** @param {unknown} value */
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

const STATES = /** @type {Record<string, string>} */ ({
  "input-available": "is running",
  "approval-requested": "waits for approval",
  "approval-responded": "was decided",
  "output-available": "is done",
  "output-error": "has failed",
  "output-denied": "was refused",
});

/** @param {Json} part @param {boolean} isPast Whether it is of a turn that is over. @returns {Node | null} */
function partElement(part, isPast) {
  switch (part.type) {
    case "text":
      return make("div", { className: "text" }, part.text);
    case "reasoning":
      return make("details", {}, make("summary", { className: "quiet" }, "Reasoning"),
        make("div", { className: "reasoning" }, part.text));
    case "dynamic-tool": {
      const undecided = isPast && part.state === "approval-requested";
      const state = undecided ? "was not decided" : STATES[part.state] ?? "";
      const card = make("div", { className: "card" }, make("strong", {}, part.toolName), ` ${state}`,
        make("pre", { tabIndex: 0 }, shown(part.input)));
      if (part.state === "output-available") card.append(make("pre", { tabIndex: 0 }, shown(part.output)));
      if (part.state === "output-error") card.append(make("pre", { className: "bad", tabIndex: 0 }, part.errorText));
      if (part.state === "approval-requested" && questions.has(part.approval.id)) {
        const decide = (/** @type {boolean} */ approved) => () => answerApproval(part, approved);
        card.append(make("div", { className: "row" },
          make("button", { type: "button", onclick: decide(true) }, "Approve"),
          make("button", { type: "button", onclick: decide(false) }, "Refuse")));
      }
      return card;
    }
    case "file":
      if (/^image\/(png|jpeg|gif|webp)$/.test(part.mediaType) && part.url.startsWith("data:"))
        return make("img", { src: part.url, alt: part.filename ?? "An image" });
      return make("p", { className: "quiet" }, `File: ${part.filename ?? part.mediaType}`);
    case "data-input":
      return make("pre", { tabIndex: 0 }, shown(part.data));
    case "data-error":
      return make("p", { className: "bad" }, part.data);
    default:
      return null;
  }
}

/** Show the messages. Those that have not changed keep their elements, and with them focus and selection. */
function render() {
  const log = find("messages");
  const scroller = log.parentElement;
  const atEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
  messages.forEach((message, number) => {
    const isPast = number < messages.length - 1;
    const open = message.parts.filter((one) => questions.has(one.approval?.id)).length;
    const version = [changes.get(message), isPast, open].join();
    const old = log.children[number];
    if (old?.message === message && old.version === version) return;
    const made = make("article", { className: `message ${message.role}`, message, version },
      make("span", { className: "hidden" }, message.role === "user" ? "You:" : "Answer:"),
      ...message.parts.map((one) => partElement(one, isPast)).filter((one) => one !== null));
    const unfolded = old ? [...old.querySelectorAll("details")].map((one) => one.open) : [];
    made.querySelectorAll("details").forEach((/** @type {any} */ one, /** @type {number} */ at) => (one.open = unfolded[at]));
    if (old) old.replaceWith(made);
    else log.append(made);
  });
  while (log.children.length > messages.length) log.lastChild.remove();
  find("earlier").hidden = before === null;
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
}

/** @param {string} text @param {boolean} [bad] */
function notice(text, bad = false) {
  find("notice").textContent = text;
  find("notice").className = bad ? "bad" : "quiet";
}

/** @param {boolean} now */
function setRunning(now) {
  running = now;
  find("send").disabled = now;
  find("stop").hidden = !now;
  if (now) {
    find("retry").hidden = true;
    questions = new Set();
  }
  find("messages").setAttribute("aria-busy", String(now));
}

// ------------------------------------------------------------------------------------------- questions, forms

/** What waits by itself, and takes no answer of a person. */
const UNASKED = ["signal", "timer", "thread", "task"];

/**
 * Ask what the thread waits for, with a form for each question that is no approval of a tool call.
 * @returns {Promise<string>} The status of the thread; "running" too if it goes on by itself.
 */
async function showQuestions() {
  const asked = opened;
  const found = await (await ask(`${THREADS}/${encodeURIComponent(thread)}`)).json();
  if (asked !== opened) return "";
  position = found.seq;
  questions = new Set(found.interrupts.map((/** @type {Json} */ one) => one.id));
  render();
  const answered = found.interrupts.filter((/** @type {Json} */ one) => !UNASKED.includes(one.kind));
  const open = answered.filter((/** @type {Json} */ one) => !decidedInMessages(one.id));
  find("questions").replaceChildren(...open.map(questionElement));
  find("questions").firstElementChild?.scrollIntoView({ block: "nearest" });
  find("retry").hidden = found.status !== "failed" && found.status !== "cancelled";
  find("send").disabled = found.status === "interrupted";
  if (found.status === "failed") notice("The run failed. Retry it, or write something else.", true);
  if (found.status === "cancelled") notice("Stopped.");
  if (found.status === "interrupted" && !find("notice").textContent)
    notice(answered.length ? "The run waits for your answer." : `The run waits for a ${found.interrupts[0]?.kind}.`);
  return found.goes_on ? "running" : found.status;
}

/** @param {string} id */
const decidedInMessages = (id) => messages.some((one) => one.parts.some((part) => part.approval?.id === id));

/** @param {Json} question */
function questionElement(question) {
  const schema = question.answer_schema ?? {};
  const isPause = question.kind === "before" || question.kind === "after"; // any answer continues the run
  const input = isPause ? { element: "", read: () => true } : field("Answer", schema, schema.$defs ?? {}, true);
  const problem = make("p", { className: "bad", role: "alert" });
  const form = make("form", {}, input.element, make("div", { className: "row" }, make("button", {}, isPause ? "Continue" : "Answer")), problem);
  form.onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const body = { answers: { [question.id]: input.read() } };
      await ask(`${THREADS}/${encodeURIComponent(thread)}/answers`, { method: "POST", body });
    } catch (error) {
      problem.textContent = /** @type {Error} */ (error).message;
      await catchUp(problem.textContent); // it may have been answered elsewhere, or have expired
      return;
    }
    form.closest(".card").remove();
    await join();
  };
  const what = question.payload === null ? "" : shown(question.payload);
  return make("section", { className: "card", ariaLabel: `Question of ${question.node}` },
    make("strong", {}, question.node), " asks", make("pre", { tabIndex: 0 }, what), form);
}

/**
 * A field for values of a JSON schema.
 * @param {string} label
 * @param {Json} schema
 * @param {Json} defs
 * @param {boolean} required
 * @param {number} [depth] Of the references around it: a schema may refer to itself.
 * @returns {{element: HTMLElement, read: () => any}}
 */
function field(label, schema, defs, required, depth = 0) {
  if (schema.$ref) {
    const named = depth < 4 ? defs[schema.$ref.split("/").pop()] : { type: "any" };
    return field(label, named ?? {}, defs, required, depth + 1);
  }
  const some = (schema.anyOf ?? []).filter((/** @type {Json} */ one) => one.type !== "null");
  if (schema.anyOf && some.length === 1) return field(label, { ...schema, anyOf: undefined, ...some[0] }, defs, false, depth);
  const title = schema.title ?? label;
  const wrap = (/** @type {HTMLElement} */ inner) =>
    make("label", {}, `${title} `, inner, ...(schema.description ? [make("div", { className: "quiet" }, schema.description)] : []));
  if (schema.enum ?? schema.const !== undefined) {
    const values = schema.enum ?? [schema.const];
    const select = make("select", {}, ...values.map((/** @type {any} */ one, /** @type {number} */ at) =>
      make("option", { value: String(at), selected: one === schema.default }, shown(one))));
    return { element: wrap(select), read: () => values[Number(select.value)] };
  }
  if (schema.type === "boolean") {
    const select = make("select", {}, make("option", { value: "yes" }, "Yes"),
      make("option", { value: "no", selected: schema.default === false }, "No"));
    return { element: wrap(select), read: () => select.value === "yes" };
  }
  if (schema.type === "integer" || schema.type === "number") {
    const input = make("input", { type: "number", required, value: schema.default ?? "",
      step: schema.type === "integer" ? "1" : "any" });
    return { element: wrap(input), read: () => (input.value === "" ? null : Number(input.value)) };
  }
  if (schema.type === "object" && schema.properties) {
    const needed = new Set(schema.required ?? []);
    const inner = Object.entries(schema.properties).map(([name, one]) =>
      /** @type {[string, any]} */ ([name, field(name, /** @type {Json} */ (one), defs, needed.has(name), depth)]));
    const element = make("fieldset", {}, make("legend", {}, title), ...inner.map(([, one]) => one.element));
    const read = () => Object.fromEntries(inner.map(([name, one]) => [name, one.read()])
      .filter(([name, value]) => needed.has(name) || (value !== null && value !== "")));
    return { element, read };
  }
  const area = make("textarea", { rows: 3, required, value: schema.default == null ? "" : shown(schema.default) });
  if (schema.type === "string") return { element: wrap(area), read: () => area.value };
  const any = !schema.type && !schema.anyOf;
  if (!any) area.placeholder = "JSON";
  const read = () => {
    try {
      return JSON.parse(area.value);
    } catch {
      if (any) return area.value;
      throw new Error("This is not JSON.");
    }
  };
  return { element: wrap(area), read };
}

// ------------------------------------------------------------------------------------------------- the verbs

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Read a stream to its end, and join the stream again where it broke or was withdrawn.
 * @param {() => Promise<Response>} begin
 * @param {boolean} anew
 * @param {string} [problem] Stays in sight.
 */
async function read(begin, anew, problem = "") {
  const mine = opened;
  let whole = false;
  let refused = false; // whether there is no stream to join
  setRunning(true);
  for (let wait = 250; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const response = await begin();
      notice(problem, true);
      refused = response.status === 204; // nothing is being made: what there is stands in the messages
      if (refused) break;
      for await (const chunk of chunksOf(response)) {
        if (mine !== opened) return;
        fold(chunk, anew);
        if (chunk.type === "start") anew = false; // a turn has one for each of its runs
        wait = 250;
        whole = chunk.type === "finish" || (chunk.type === "abort" && chunk.reason !== "withdrawn");
        draw();
      }
      if (whole) break;
    } catch (error) {
      if (mine !== opened) return;
      if (!(error instanceof TypeError)) { // the server refused; anything else is the network
        problem = /** @type {Error} */ (error).message;
        notice(problem, true);
        refused = begin === stream;
        break;
      }
      notice("The connection broke. Trying again.");
    }
    await pause(wait);
    if (mine !== opened) return;
    begin = stream;
    anew = true;
  }
  if (mine !== opened) return;
  setRunning(false);
  try {
    // A whole message is that of the journal, and has also what a task said that waits for an answer.
    const status = whole ? await showQuestions() : await load(mine);
    if (mine === opened && status === "running" && !refused) read(stream, true, problem); // that of another page
  } catch (error) {
    if (mine === opened) notice(/** @type {Error} */ (error).message, true);
  }
}

/** Show what has become of the thread elsewhere, if anything has. @param {string} [problem] Stays in sight. */
async function catchUp(problem) {
  const mine = opened;
  const found = await (await ask(`${THREADS}/${encodeURIComponent(thread)}`)).json();
  if (mine === opened && !running && found.seq !== position) await read(stream, true, problem);
}

let drawing = false;
/** Show the messages at most once for each picture of the screen. */
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    render();
  });
}

const stream = () => ask(`${CHAT}/${encodeURIComponent(thread)}/stream`);
const join = () => read(stream, true);

/**
 * Show the messages and the questions of the thread, as they are stored.
 * @param {number} mine
 * @returns {Promise<string>} The status of the thread; empty if it is new.
 */
async function load(mine) {
  const found = await (await ask(`${CHAT}/${encodeURIComponent(thread)}/messages`)).json();
  if (mine !== opened) return "";
  const known = new Map(messages.map((one) => [one.id, one]));
  const first = messages.findIndex((one) => one.id === found.messages[0]?.id);
  if (first <= 0) before = found.before; // else earlier ones were asked for, and stay
  messages = [...messages.slice(0, Math.max(first, 0)), ...found.messages.map((/** @type {Message} */ one) => {
    const old = known.get(one.id);
    return old && JSON.stringify(old) === JSON.stringify(one) ? old : one;
  })];
  render();
  return messages.length > 0 ? showQuestions() : "";
}

/** Show the messages before those that are shown, and keep these where they are. */
async function showEarlier() {
  const mine = opened;
  const found = await (await ask(`${CHAT}/${encodeURIComponent(thread)}/messages?before=${before}`)).json();
  if (mine !== opened) return;
  const log = find("messages");
  const scroller = log.parentElement;
  const below = scroller.scrollHeight - scroller.scrollTop;
  before = found.before;
  messages = [...found.messages, ...messages];
  log.prepend(...found.messages.map(() => make("article"))); // so that the others keep their elements
  render();
  scroller.scrollTop = scroller.scrollHeight - below;
}

/** @param {Message} message @param {string} [trigger] */
const post = (message, trigger = "submit-message") => () =>
  ask(CHAT, { method: "POST", body: { id: thread, messages: [message], trigger } });

/** @param {string} text @param {Json[]} files Parts of the type "file". */
async function send(text, files) {
  const mine = opened;
  const parts = [...(text ? [{ type: "text", text }] : []), ...files];
  const message = { id: crypto.randomUUID(), role: "user", parts };
  const first = messages.length === 0;
  messages.push(message);
  render();
  find("questions").replaceChildren();
  await read(async () => {
    const response = await post(message)();
    if (first) await listChats(); // the server has named it after the message
    return response;
  }, true);
  const taken = messages.some((one) => one.id === message.id);
  if (mine !== opened || taken) return;
  find("text").value ||= text; // the server refused it
  if (attached.length === 0) attach(files);
}

// --------------------------------------------------------------------------------------------------- attached files

const MOST_FILES = Number(meta("files"));
const MOST_BYTES = Number(meta("file-bytes"));
const MOST_BODY = Number(meta("body-bytes"));
/** Files that the next message takes along. @type {Json[]} */
let attached = [];

/** @param {Json[]} files */
function attach(files) {
  attached = files;
  find("attached").replaceChildren(...files.map((file) => make("li", {}, file.filename, " ",
    make("button", { type: "button", ariaLabel: `Remove ${file.filename}`, onclick: () => attach(attached.filter((one) => one !== file)) },
      "Remove"))));
}

/** @param {File} file @returns {Promise<Json>} */
const partOf = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve({ type: "file", mediaType: file.type, filename: file.name, url: reader.result });
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

/** Attach files, unless the server would refuse them. @param {File[]} files */
async function take(files) {
  const mine = opened;
  const large = files.find((one) => one.size > MOST_BYTES || one.size === 0);
  const all = files.reduce((sum, one) => sum + one.size * 4 / 3, attached.reduce((sum, one) => sum + one.url.length, 0));
  notice("");
  if (large) notice(large.size ? `${large.name} has more than ${MOST_BYTES} bytes.` : `${large.name} is empty.`, true);
  else if (attached.length + files.length > MOST_FILES) notice(`A message takes at most ${MOST_FILES} files.`, true);
  else if (all > MOST_BODY * 0.9) notice("These files are too large for one message.", true);
  else {
    const parts = await Promise.all(files.map(partOf));
    if (mine === opened) attach([...attached, ...parts]);
  }
}

/** @param {Json} part @param {boolean} approved */
async function answerApproval(part, approved) {
  const message = messages.find((one) => one.parts.includes(part));
  if (!message || running) return;
  const decided = { ...part, state: "approval-responded", approval: { ...part.approval, approved } };
  const parts = message.parts.map((one) => (one === part ? decided : one)); // the server sends what is not among them
  await read(post({ ...message, parts }), false);
}

async function listChats() {
  const answer = await ask(`${THREADS}?limit=50&newest_first=true`);
  const { threads } = await answer.json();
  const known = threads.map((/** @type {Json} */ one) => make("option", { value: one.thread }, one.title || one.thread));
  if (!threads.some((/** @type {Json} */ one) => one.thread === thread))
    known.unshift(make("option", { value: thread }, "New chat"));
  find("chats").replaceChildren(...known);
  find("chats").value = thread;
}

/** @param {string} id */
async function open(id) {
  opened += 1;
  const mine = opened;
  thread = id;
  messages = [];
  before = null;
  attach([]);
  find("retry").hidden = true;
  questions = new Set();
  setRunning(false);
  history.replaceState(null, "", `#chat=${encodeURIComponent(id)}`);
  find("questions").replaceChildren();
  render();
  for (let wait = 250; mine === opened; wait = Math.min(wait * 2, 8000)) {
    notice("");
    try {
      const [status] = await Promise.all([load(mine), listChats()]);
      if (mine !== opened) return;
      if (status === "running") await join();
      return;
    } catch (error) {
      if (mine !== opened) return;
      if (!(error instanceof TypeError)) return notice(/** @type {Error} */ (error).message, true); // the server refused
      notice("The connection broke. Trying again.");
    }
    await pause(wait);
  }
}

const newChat = () => open(`chat-${crypto.randomUUID()}`);

find("compose").onsubmit = (/** @type {Event} */ event) => {
  event.preventDefault();
  const text = find("text").value.trim();
  if (!(text || attached.length) || running) return;
  const files = attached;
  find("text").value = "";
  attach([]);
  send(text, files);
};
find("attach").onclick = () => find("files").click();
find("files").onchange = () => {
  const files = [...find("files").files];
  find("files").value = ""; // so that the same file can be chosen again
  take(files).catch((error) => notice(error.message, true));
};
find("text").onkeydown = (/** @type {KeyboardEvent} */ event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    find("compose").requestSubmit();
  }
};
find("stop").onclick = () =>
  ask(`${THREADS}/${encodeURIComponent(thread)}/cancel`, { method: "POST" })
    .catch((error) => notice(error.message, true));
find("retry").onclick = () => read(post({ id: "", role: "assistant", parts: [] }, "regenerate-message"), true);
find("new").onclick = newChat;
find("earlier").onclick = () => showEarlier().catch((error) => notice(error.message, true));
find("chats").onchange = () => open(find("chats").value);

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && messages.length > 0) catchUp().catch(() => {}); // the next request says it
});

/** Open the chat that the address names, with the token in it. */
function enter() {
  const given = new URLSearchParams(location.hash.slice(1));
  const token = given.get("token");
  if (token) sessionStorage.setItem(TOKEN, token);
  const chat = given.get("chat");
  return chat ? open(chat) : newChat();
}

window.addEventListener("hashchange", enter); // another address is pasted; the page itself only replaces it
await enter();
