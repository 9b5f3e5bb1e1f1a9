// Addresses of the views of the page, in the part of the URL after the "#": every view, row, field and entry has one.

const LONE = /\p{Cs}/gu;

// A text as a part of an address. A lone surrogate, which a URL cannot contain, is written as "~" and its code.
function written(/** @type {string} */ text) {
  const code = (/** @type {string} */ character) => `~${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return encodeURIComponent(text.replace(/~/g, code).replace(LONE, code));
}

function read(/** @type {string} */ text) {
  try {
    return decodeURIComponent(text).replace(/~([0-9a-f]{4})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)));
  } catch {
    return text;
  }
}

// The address of a view.
/** @param {Partial<Route>} route */
export function address({ view = "threads", ref = null, tab = "", item = "", query = {} }) {
  const parts = view === "thread" && ref ? ["t", ref.graph, ref.thread, tab || "steps",
    ...(item === "" ? [] : [item])] : view === "inbox" ? ["inbox"] : [];
  const asked = Object.entries(query).filter(([, value]) => value !== "");
  const tail = asked.map(([name, value]) => `${written(name)}=${written(value)}`).join("&");
  return `#/${parts.map(written).join("/")}${tail ? `?${tail}` : ""}`;
}

/** @param {string} hash @returns {Route} */
export function routeOf(hash) {
  const [place = "", tail = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = place.split("/").map(read);
  /** @type {Record<string, string>} */ const query = Object.create(null);
  for (const pair of tail.split("&").filter(Boolean)) {
    const [name = "", value = ""] = pair.split("=", 2);
    query[read(name)] = read(value);
  }
  const [first, graph, thread, tab = "", item = ""] = parts;
  if (first === "t" && graph !== undefined && thread) return { view: "thread", ref: { graph, thread }, tab: tab || "steps", item, query };
  return { view: first === "inbox" ? "inbox" : "threads", ref: null, tab: "", item: "", query };
}

// Go to a view, as a new entry of the browser's history or replacing the current one.
/** @param {Partial<Route>} route @param {boolean} [instead] */
export function go(route, instead = false) {
  const to = address(route);
  if (location.hash === to) return;
  if (!instead) location.hash = to;
  else {
    history.replaceState(null, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}
