// The keyboard: commands of the page and of the open view, and their help.

import { fill, h } from "./dom.js";

/** @type {Map<string, Command[]>} */ const groups = new Map();

// Declare the commands of a group, and replace earlier ones.
/** @param {string} group The heading in the help. @param {Command[]} commands */
export function commands(group, commands) {
  groups.delete(group);
  if (commands.length) groups.set(group, commands);
}

/** Remove the commands of all views except the page's own. */
export function forgetViews() {
  for (const group of [...groups.keys()]) if (group !== "Everywhere") groups.delete(group);
}

export function onKey(/** @type {KeyboardEvent} */ event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (document.querySelector("dialog[open]")) return;
  const writes = target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]");
  if (writes) {
    if (event.key === "Escape") target.blur();
    return;
  }
  if ((event.key === "Enter" || event.key === " ") && target instanceof Element && target.matches("button, a, summary")) return;
  for (const commands of [...groups.values()].reverse()) {
    const command = commands.find((one) => one.key === event.key);
    if (!command) continue;
    event.preventDefault();
    command.run(event);
    return;
  }
}

const FIXED = {
  "In a list": [
    ["↓ ↑ PgDn PgUp Home End", "Move"], ["→ ←", "Open or close nested rows"], ["Enter", "Open"],
  ],
  "In the graph": [
    ["↓ ↑ ← →", "Move to the next node in that direction"], ["Enter", "Go to the last step of the node"],
    ["Space", "Open or close a nested graph"], ["+ − 0", "Zoom in, zoom out, show all"], ["Shift and arrows", "Pan"],
  ],
};

/** Show or hide the help. */
export function help() {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("help"));
  if (dialog.open) return dialog.close();
  const sections = [...groups].map(([name, commands]) => section(name, commands.map((one) => [one.key, one.does])));
  const fixed = Object.entries(FIXED).map(([name, rows]) => section(name, rows));
  fill(
    dialog, h("h2", { id: "help-title" }, "Keyboard"), h("div", { class: "help-columns" }, sections, fixed),
    h("form", { method: "dialog" }, h("button", {}, "Close")),
  );
  dialog.showModal();
}

function section(/** @type {string} */ name, /** @type {string[][]} */ rows) {
  const list = rows.map(([keys, does]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, does)));
  return h("section", {}, h("h3", {}, name), h("dl", {}, list));
}
