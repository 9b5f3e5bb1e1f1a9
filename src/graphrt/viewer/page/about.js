// About a thread: its runs and their cost, its origin, the integrity of its journal, and its commands.

import { amount, chip, copier, cut, fill, h, moment, money, plural, remark, span } from "./dom.js";
import { quoted } from "./compare.js";
import { commands } from "./keys.js";
import { address } from "./routes.js";
import { reasonOf } from "./source.js";

export class AboutPanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    this.runs = h("section", { "aria-labelledby": "about-runs" });
    this.audit = h("section", { "aria-labelledby": "about-audit" },
      h("h2", { id: "about-audit" }, "Journal and audit"), remark("Checking…"));
    this.element = h("div", { class: "about", tabindex: 0, role: "region", "aria-label": "About the thread" },
      this.runs, this.origins(), this.audit, this.commandList());
    this.refresh();
    this.loadAudit();
  }

  show() { commands("About", []); }

  refresh() {
    const { doc, rows } = this.shared.recording;
    const names = ["Run", "Status", "Started", "Duration", "Supersteps", "Model calls", "Tokens", "Cost", "By", "Build"];
    const lines = doc.runs.map((run, at) => h("tr", {}, h("th", { scope: "row" },
      h("a", { href: this.shared.rowAddress(Math.min(run.row, rows.length - 1)) }, at + 1)),
      h("td", {}, chip(run.status), run.error ? h("div", { class: "bad" }, run.error) : null),
      h("td", {}, moment(run.at)), h("td", {}, run.ended_at === null ? "" : span(run.ended_at - run.at)),
        h("td", {}, run.supersteps), h("td", {}, run.usage.calls),
      h("td", {}, amount(run.usage.total_tokens)), h("td", {}, money(run.usage.cost_usd)), h("td", {}, run.user),
        h("td", {}, h("code", { title: run.build }, cut(run.build, 13)))));
    fill(this.runs, h("h2", { id: "about-runs" }, "Runs"), h("div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of runs" },
      h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, lines))));
  }

  origins() {
    const { doc } = this.shared.recording;
    if (!doc.origin && !doc.children.length) return null;
    const link = (/** @type {string} */ graph, /** @type {string} */ thread) => h("a",
      { href: address({ view: "thread", ref: { graph, thread } }) }, thread);
    return h("section", {}, h("h2", {}, "Other threads"),
      doc.origin ? h("p", {}, `A ${doc.origin.kind} of `, link(doc.origin.graph, doc.origin.thread),
        doc.origin.at === null ? "" : ` at entry ${doc.origin.at}`) : null,
      doc.children.length ? h("ul", {}, doc.children.map((one) => h("li", {}, link(one.graph, one.thread),
        ` started by ${one.task}`))) : null);
  }

  async loadAudit() {
    const { app, ref, recording } = this.shared;
    const heading = h("h2", { id: "about-audit" }, "Journal and audit");
    const { doc } = recording;
    const facts = [h("p", {}, doc.redaction ? `Redaction: ${doc.redaction}` : "Nothing was redacted."),
      h("p", {}, doc.erased ? `▒ ${plural(doc.erased, "value")} erased, and marked as such` : "Nothing was erased.")];
    try {
      const found = await app.source.audit(ref);
      const mark = { intact: "✓", damaged: "✕", unchecked: "?" }[found.verdict] ?? "?";
      const look = found.verdict === "intact" ? "is-ok" : found.verdict === "damaged" ? "is-bad" : "is-wait";
      fill(this.audit, heading, h("p", { class: `verdict ${look}` }, `${mark} ${found.verdict}: `, found.sentence),
        found.problems.map((one) => h("p", { class: "bad" }, one)), facts,
        found.erasures.map((one) => h("p", {}, `Erased at entry ${one.seq}, ${moment(one.at)}${one.by ? ` by ${one.by}` : ""}: ${one.reason} (${plural(one.lines, "line")})`)),
        found.redactions.map((one) => h("p", {}, `Redacted from entry ${one.seq} on: ${one.rules}`)),
        found.heads.length ? h("details", {}, h("summary", {}, plural(found.heads.length, "head")),
          h("ul", {}, found.heads.slice(-100).map((one) => h("li", {}, `${one.seq} `, h("code", {}, one.digest),
          ` ${moment(one.at)}`)))) : null);
    } catch (error) {
      fill(this.audit, heading, remark(reasonOf(error)), facts);
    }
  }

  commandList() {
    const { app, ref, recording } = this.shared;
    const { target } = app.head;
    if (!target) return null;
    const thread = quoted(ref.thread);
    const { status, seq } = recording.doc;
    const field = quoted(Object.keys(recording.doc.topology.state)[0] ?? "FIELD");
    const verbs = [
      ["Show it in a terminal", `graphrt show ${target} ${thread}`],
        ["Show its journal", `graphrt log ${target} ${thread}`], ["Why a field has its value", `graphrt why ${target} ${thread} ${field}`],
      ["Fork the thread here", `graphrt fork ${target} ${thread} --at ${seq}`],
        ["This page as a file", `graphrt show ${target} ${thread} --html run.html`],
      ...(status === "failed" || status === "cancelled" ? [["Continue where it stopped", `graphrt retry ${target} ${thread}`]] : []),
      ...(status === "interrupted" ? [["Answer its questions", `graphrt resume ${target} ${thread}`]] : []),
      ...(status === "running" || status === "interrupted" ? [["Cancel it", `graphrt cancel ${target} ${thread}`]] : []),
    ];
    return h("section", {}, h("h2", {}, "Commands"), h("dl", { class: "commands" },
      verbs.map(([what = "", command = ""]) => h("div", {}, h("dt", {}, what),
      h("dd", {}, h("code", {}, command), " ", copier("Copy", command))))));
  }
}
