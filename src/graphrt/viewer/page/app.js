// The page: its source, its views, its theme and its keyboard.

import { escaped, fill, h, kept, moment } from "./dom.js";
import { commands, forgetViews, help, onKey } from "./keys.js";
import { address, go, routeOf } from "./routes.js";
import { openSource, reasonOf } from "./source.js";
import { InboxView, ThreadsView } from "./threads.js";
import { ThreadView } from "./thread.js";

const THEME = "graphrt-viewer-theme";
const THEMES = { auto: "◐", light: "☀", dark: "☾" };

const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const crumbs = /** @type {HTMLElement} */ (document.getElementById("crumbs"));

/** @type {View | null} */ let view = null;

function run(/** @type {Source} */ source, /** @type {Head} */ head) {
  const show = () => {
    const route = routeOf(location.hash);
    if (head.mode === "file" && route.view !== "thread") return go({ view: "thread", ref: head.thread }, true);
    if (!view?.takes(route)) {
      view?.close?.();
      forgetViews();
      const app = { source, head };
      view = route.view === "inbox" ? new InboxView(app) : route.view === "thread" && route.ref
        ? new ThreadView(app, route.ref) : new ThreadsView(app);
      main.replaceChildren(view.element);
    }
    view.show(route);
    where(head, route);
  };
  addEventListener("hashchange", show);
  commands("Everywhere", [
    { key: "?", does: "Show this help", run: help },
    ...(head.mode === "file" ? [] : [
      { key: "t", does: "All threads", run: () => go({ view: "threads" }) },
      { key: "i", does: "Inbox: open questions", run: () => go({ view: "inbox" }) },
    ]),
    { key: "d", does: "Change the theme: light, dark or system", run: nextTheme },
  ]);
  show();
}

function where(/** @type {Head} */ head, /** @type {Route} */ route) {
  const link = (/** @type {string} */ text, /** @type {Partial<Route>} */ to, /** @type {boolean} */ here) =>
    h("a", { href: address(to), "aria-current": here ? "page" : null, class: "crumb" }, text);
  const parts = [h("strong", { class: "brand" }, "graphrt")];
  if (head.mode === "served") parts.push(link("Threads", { view: "threads" }, route.view === "threads"),
    link("Inbox", { view: "inbox" }, route.view === "inbox"));
  parts.push(h("span", { class: "quiet store" }, head.mode === "served" ? head.title : `file of ${moment(head.made_at)}`));
  fill(crumbs, parts);
  const title = view?.title() ?? "";
  document.title = title ? `${escaped(title)} · graphrt` : "graphrt";
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const now = document.documentElement.dataset["theme"] ?? "auto";
  setTheme(names[(names.indexOf(now) + 1) % names.length] ?? "auto");
}

function setTheme(/** @type {string} */ name) {
  document.documentElement.dataset["theme"] = name;
  const button = /** @type {HTMLElement} */ (document.getElementById("theme"));
  fill(button, THEMES[/** @type {keyof typeof THEMES} */ (name)] ?? THEMES.auto);
  button.setAttribute("aria-label", `Theme: ${name}`);
  kept("local", THEME, name);
}

setTheme(kept("local", THEME) || "auto");
document.getElementById("theme")?.addEventListener("click", nextTheme);
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault(); // the part after the "#" selects the view
  main.focus();
});
document.getElementById("help-button")?.addEventListener("click", help);
addEventListener("keydown", onKey);

async function open() {
  try {
    const source = await openSource();
    run(source, await source.head());
  } catch (error) {
    fill(main, h("div", { class: "empty bad", role: "alert" }, h("h1", {}, "This page cannot be shown"), h("p", {}, reasonOf(error))));
  }
}

open();
