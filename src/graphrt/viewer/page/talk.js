// The messages of a thread as a conversation.

import { age, fill, h, moment, moveFocus } from "./dom.js";
import { messageBlock } from "./messages.js";
import { commands } from "./keys.js";
import { address } from "./routes.js";
import { reasonOf } from "./source.js";

const PAGE = 100;

export class TalkPanel {
  constructor(/** @type {Shared} */ shared) {
    this.shared = shared;
    /** @type {ConversationDoc["messages"]} */ this.messages = [];
    this.from = 0;
    this.list = h("div", { class: "talk-list", role: "log", "aria-label": "Conversation", tabindex: 0 });
    this.earlier = h("button", { type: "button", hidden: true, onclick: () => this.showEarlier() }, "Show earlier messages");
    this.element = h("div", { class: "talk" }, this.earlier, this.list);
    this.load();
  }

  show() {
    commands("Conversation", [
      { key: "j", does: "Next message", run: () => moveFocus(this.list.children, 1) },
      { key: "k", does: "Previous message", run: () => moveFocus(this.list.children, -1) },
    ]);
  }

  refresh() { if (this.seq !== this.shared.recording.doc.seq) this.load(); }

  async load() {
    this.seq = this.shared.recording.doc.seq;
    try {
      const { messages } = await this.shared.app.source.conversation(this.shared.ref);
      this.messages = messages;
      this.from = Math.max(0, messages.length - PAGE);
      fill(this.list, messages.length ? messages.slice(this.from).map((one) => this.block(one)) : h("p",
        { class: "empty" }, "This thread has no messages."));
      this.earlier.hidden = this.from === 0;
    } catch (error) {
      fill(this.list, h("p", { class: "bad" }, reasonOf(error)));
    }
  }

  showEarlier() {
    const from = Math.max(0, this.from - PAGE);
    this.list.prepend(...this.messages.slice(from, this.from).map((one) => this.block(one)));
    this.from = from;
    this.earlier.hidden = from === 0;
  }

  block(/** @type {ConversationDoc["messages"][number]} */ message) {
    const { recording, ref, load } = this.shared;
    const row = recording.rows.find((one) => one.seq >= message.seq && one.path === "");
    const link = row ? h("a", { href: address({ view: "thread", ref, tab: "steps", item: String(row.n) }) }, `step ${row.n}`) : null;
    const block = messageBlock(message, load, [" ", h("time", { class: "quiet", title: moment(message.at) }, age(message.at)), " ", link]);
    block.tabIndex = -1;
    return block;
  }
}
