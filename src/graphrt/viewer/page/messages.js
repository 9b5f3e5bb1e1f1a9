// Messages of a prompt or a conversation, and the request and reply of a model.

import { add, amount, facts, fold, h, moment, money, prose, quiet, sign } from "./dom.js";
import { isTree, picture, tree } from "./json.js";

const ROLES = /** @type {Record<string, string>} */ ({ system: "System", user: "User", assistant: "Model", tool: "Tool", error: "Error" });

// A message with all its parts.
/** @param {Message} message @param {Load} load @param {(Node | string | null)[]} [about] */
export function messageBlock(message, load, about = []) {
  const role = Object.hasOwn(ROLES, message.role) ? message.role : "other";
  return h("article", { class: `message by-${role}` }, h("header", {}, h("strong", {}, ROLES[message.role] ?? message.role), about),
    message.parts.map((part) => partBlock(part, load)));
}

function partBlock(/** @type {Part} */ part, /** @type {Load} */ load) {
  switch (part.kind) {
    case "text":
      return textOf(part.text, load);
    case "thinking":
      return h("details", { class: "thinking" }, h("summary", {}, "Thinking"), textOf(part.text, load));
    case "call":
      return h("div", { class: "tool" }, h("div", { class: "tool-name" }, sign("⚙ "), "calls ", h("code", {}, part.name)),
        tree(part.arguments, { load, label: "Arguments" }));
    case "result":
      return h("div", { class: `tool ${part.error ? "is-bad" : ""}` },
        h("div", { class: "tool-name" }, sign(part.error ? "✕ " : "↩ "), h("code", {}, part.name || "tool"),
          part.error ? " failed" : " returned"),
        valueOf(part.value, load));
    case "media":
      return picture(part.media, load);
    case "question":
      return h("div", { class: "tool is-wait" }, h("div", { class: "tool-name" }, sign("? "), "asked"), valueOf(part.payload, load),
        h("div", { class: "tool-name" }, part.answered ? `answered${part.by ? ` by ${part.by}` : ""}` : "not answered yet"), part.answered ? valueOf(part.answer, load) : null);
    case "error":
      return h("div", { class: "bad" }, prose(part.text));
    default:
      return tree(part.value, { load });
  }
}

function textOf(/** @type {string | Cut} */ text, /** @type {Load} */ load) {
  return typeof text === "string" ? prose(text) : tree(text, { load });
}

function valueOf(/** @type {Value} */ value, /** @type {Load} */ load) {
  return typeof value === "string" ? prose(value) : tree(value, { load });
}

// The request to a model.
export function promptBlock(/** @type {Prompt} */ prompt, /** @type {Load} */ load) {
  const { messages, tools, output, settings } = prompt;
  const block = h("div", { class: "prompt" }, messages.map((message) => messageBlock(message, load)));
  if (tools.length) {
    const list = tools.map((tool) => fold([h("code", {}, tool.name), " ", quiet(tool.description.split("\n", 1)[0] ?? "")],
      () => [prose(tool.description), tree(tool.parameters, { load })]));
    add(block, h("h3", {}, `Offered tools (${tools.length})`), ...list);
  }
  if (output !== null) add(block, h("h3", {}, "Output schema"), tree(output, { load }));
  if (Object.keys(settings).length) add(block, h("h3", {}, "Settings"), tree(settings, { load }));
  return block;
}

// The reply of a model.
export function replyBlock(/** @type {CallDoc} */ call, /** @type {Load} */ load) {
  const { text, thinking, tool_calls: calls, finish, rest } = call.reply;
  /** @type {Part[]} */ const parts = [];
  if (thinking) parts.push({ kind: "thinking", text: thinking });
  if (text) parts.push({ kind: "text", text });
  for (const one of calls) parts.push({ kind: "call", ...one });
  const block = h("div", {}, messageBlock({ role: "assistant", parts, id: null }, load, finish
    ? [h("span", { class: "tag" }, finish)] : []));
  if (rest !== null && !(isTree(rest) && Object.keys(rest).length === 0)) add(block,
    h("h3", {}, "The rest of the reply"), tree(rest, { load }));
  return block;
}

// A model call in one line: model, agent, tokens, cost, when.
export function callLine(/** @type {CallRef} */ call) {
  const parts = [call.model ?? "model unknown", `${amount(call.input_tokens)} → ${amount(call.output_tokens)} tokens`,
    money(call.cost_usd), moment(call.at)];
  return facts(parts);
}
