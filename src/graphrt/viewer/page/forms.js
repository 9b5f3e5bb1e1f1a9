// A form for an answer, from the JSON schema of the question. A part of the schema without a matching field is asked as
// JSON text.

import { add, fill, h, small } from "./dom.js";
import { isTree } from "./json.js";

let made = 0;

// A field for a value of a schema.
/** @param {unknown} schema @param {string} label @param {unknown} [initial] @returns {Field} */
export function field(schema, label, initial) {
  const root = isTree(schema) && !Array.isArray(schema) ? /** @type {Schema} */ (schema) : {};
  return make({ label, schema: root, root, initial: initial === undefined ? root["default"] : initial, required: true, depth: 0 });
}

/** @param {Ask} given @returns {Field} */
function make(given) {
  const { root, depth } = given;
  const schema = resolved(given.schema, root);
  const label = typeof schema["title"] === "string" && depth > 0 ? schema["title"] : given.label;
  const ask = { ...given, schema, label };
  if (depth > 5) return text(ask, true);
  if ("const" in schema) return choice({ ...ask, initial: schema["const"] }, [schema["const"]]);
  if (Array.isArray(schema["enum"]) && schema["enum"].length <= 200) return choice(ask, schema["enum"]);
  if (schema["type"] === "boolean") return choice(ask, [true, false]);
  if (schema["type"] === "integer" || schema["type"] === "number") return number(ask);
  if (schema["type"] === "string") return text(ask, false);
  const { properties, items } = schema;
  if (schema["type"] === "object" && isTree(properties) && !Array.isArray(properties)) return group(ask);
  if (schema["type"] === "array" && isTree(items)) return list(ask);
  return text(ask, true);
}

// Follow references within the schema, and take the one alternative that is not null.
/** @param {Schema} schema @param {Schema} root @returns {Schema} */
function resolved(schema, root) {
  let one = schema;
  for (let hops = 0; hops < 8; hops++) {
    if (typeof one["$ref"] === "string") {
      const name = one["$ref"].replace(/^#\/(\$defs|definitions)\//, "");
      const defs = root["$defs"] ?? root["definitions"];
      const target = isTree(defs) && Object.hasOwn(defs, name) ? /** @type {any} */ (defs)[name] : null;
      if (!isTree(target)) return {};
      one = /** @type {Schema} */ (target);
    } else if (Array.isArray(one["anyOf"]) || Array.isArray(one["allOf"])) {
      const parts = (one["anyOf"] ?? one["allOf"]).filter((/** @type {any} */ part) => isTree(part) && /** @type {any} */ (part).type !== "null");
      if (parts.length !== 1) return {};
      one = { ...one, anyOf: undefined, allOf: undefined, ...parts[0] };
    } else return one;
  }
  return {};
}

// A label, its control, and the description in the schema.
/** @param {string} label @param {HTMLElement} control @param {Schema} [schema] */
function labelled(label, control, schema = {}) {
  const id = `field${made++}`;
  control.id = id;
  const hint = typeof schema["description"] === "string" ? h("small", { id: `${id}-hint`, class: "quiet" }, schema["description"]) : null;
  if (hint) control.setAttribute("aria-describedby", hint.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, hint);
}

/** @param {Ask} ask @param {unknown[]} values @returns {Field} */
function choice({ label, initial, required }, values) {
  const words = (/** @type {unknown} */ value) => (value === true ? "Yes" : value === false
    ? "No" : typeof value === "string" ? value : JSON.stringify(value));
  const options = values.map((value, at) => h("option", { value: at, selected: value === initial }, words(value)));
  const chosen = values.includes(initial) || values.length === 1;
  const control = h("select", { required }, chosen ? null : h("option", { value: "" }, "Choose"), options);
  const read = () => {
    if (control.value !== "") return values[Number(control.value)];
    if (required) throw new Error(`${label}: choose one`);
    return undefined;
  };
  return { element: labelled(label, control), read };
}

/** @param {Ask} ask @returns {Field} */
function number({ label, schema, initial, required }) {
  const whole = schema["type"] === "integer";
  const control = h("input", {
    type: "number", step: whole ? 1 : "any", min: schema["minimum"] ?? null, max: schema["maximum"] ?? null, required,
    value: typeof initial === "number" ? initial : null,
  });
  const read = () => {
    if (control.value === "" && !required) return undefined;
    const value = Number(control.value);
    const fits = control.value !== "" && (!whole || Number.isInteger(value)) && control.checkValidity();
    if (!fits) throw new Error(`${label}: ${control.validationMessage || `enter a ${whole ? "whole number" : "number"}`}`);
    return value;
  };
  return { element: labelled(label, control, schema), read };
}

/** @param {Ask} ask @param {boolean} json Whether it is asked for as JSON. @returns {Field} */
function text({ label, schema, initial, required }, json) {
  const value = initial === undefined ? "" : json ? JSON.stringify(initial, null, 2) : String(initial);
  const control = h("textarea", { rows: json || value.length > 80 ? 4 : 2, class: json ? "mono" : null,
    maxlength: schema["maxLength"] ?? null });
  control.value = value;
  const read = () => {
    if (!json) {
      if (control.value === "" && !required) return undefined;
      const least = Number(schema["minLength"] ?? 0);
      if (control.value.length < least) throw new Error(`${label}: at least ${least} characters`);
      return control.value;
    }
    if (control.value.trim() === "") {
      if (required) throw new Error(`${label}: enter a JSON value`);
      return undefined;
    }
    try {
      return JSON.parse(control.value);
    } catch (error) {
      throw new Error(`${label}: this is not JSON: ${error instanceof Error ? error.message : error}`);
    }
  };
  return { element: labelled(json ? `${label} (JSON)` : label, control, schema), read };
}

/** @param {Ask} ask @returns {Field} */
function group({ label, schema, root, initial, depth }) {
  const needed = new Set(Array.isArray(schema["required"]) ? schema["required"] : []);
  const start = isTree(initial) ? /** @type {Record<string, unknown>} */ (initial) : {};
  const parts = Object.entries(schema["properties"]).map(([name, part]) => {
    const sub = isTree(part) ? /** @type {Schema} */ (part) : {};
    const value = Object.hasOwn(start, name) ? start[name] : sub["default"];
    return { name, field: make({ label: name, schema: sub, root, initial: value, required: needed.has(name), depth: depth + 1 }) };
  });
  const element = h("fieldset", {}, h("legend", {}, label), parts.map((part) => part.field.element));
  const read = () => {
    /** @type {[string, unknown][]} */ const values = parts.map((part) => [part.name, part.field.read()]);
    return Object.fromEntries(values.filter(([, value]) => value !== undefined));
  };
  return { element, read };
}

/** @param {Ask} ask @returns {Field} */
function list({ label, schema, root, initial, depth }) {
  /** @type {Field[]} */ const fields = [];
  const items = h("div", { class: "field-items" });
  const grow = (/** @type {unknown} */ value) => {
    const name = `${label} ${fields.length + 1}`;
    const one = make({ label: name, schema: schema["items"], root, initial: value, required: true, depth: depth + 1 });
    fields.push(one);
    const remove = h("button", { type: "button", class: "small", "aria-label": `Remove one of ${label}` }, "Remove");
    const row = h("div", { class: "field-item" }, one.element, remove);
    remove.addEventListener("click", () => {
      fields.splice(fields.indexOf(one), 1);
      row.remove();
      more.focus();
    });
    items.append(row);
  };
  const more = small("Add one", () => grow(undefined));
  if (Array.isArray(initial)) initial.forEach(grow);
  const element = h("fieldset", {}, h("legend", {}, label), items, more);
  return { element, read: () => fields.map((one) => one.read()) };
}

// A form that asks for a value and submits it.
export function answerForm(/** @type {AnswerForm} */ { schema, label, initial, send }) {
  const one = field(schema, label, initial);
  return sending([one.element], { "Send the answer": () => one.read() }, send);
}

// A form that approves or refuses a call, whose arguments may be edited.
export function approvalForm(/** @type {unknown} */ proposed, /** @type {(value: unknown) => Promise<void>} */ send) {
  const edited = field({}, "Arguments", proposed);
  const reason = make({ label: "Reason, for a refusal", schema: { type: "string" }, root: {}, initial: undefined,
    required: false, depth: 0 });
  const approve = () => {
    const value = edited.read();
    return JSON.stringify(value) === JSON.stringify(proposed) ? true : { approve: true, arguments: value };
  };
  const refuse = () => (reason.read() === undefined ? false : { approve: false, reason: reason.read() });
  return sending([edited.element, reason.element], { Approve: approve, Refuse: refuse }, send);
}

// Fields and a button for each way to answer.
/** @param {HTMLElement[]} fields @param {Record<string, () => unknown>} ways @param {(value: unknown) => Promise<void>} send */
function sending(fields, ways, send) {
  const problem = h("p", { class: "bad", role: "alert" });
  const buttons = Object.keys(ways).map((name, at) => h("button", { value: name, class: at === 0 ? "primary" : null }, name));
  const form = h("form", { class: "answer", novalidate: true }, fields, problem, h("div", { class: "actions" }, buttons));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(problem);
    const way = event.submitter instanceof HTMLButtonElement ? event.submitter.value : Object.keys(ways)[0] ?? "";
    try {
      const value = ways[way]?.();
      for (const button of buttons) button.disabled = true;
      await send(value);
    } catch (error) {
      add(problem, error instanceof Error ? error.message : String(error));
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  });
  return form;
}
