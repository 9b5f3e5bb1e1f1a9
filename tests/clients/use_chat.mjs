// A page with `useChat` of the AI SDK, as the guide has it: streams, stops, approves, and goes on after a reload.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";

const id = new URLSearchParams(location.search).get("chat");
const loaded = await (await fetch(`/chat/${id}/messages`)).json();
const transport = new DefaultChatTransport({
  api: "/chat",
  prepareSendMessagesRequest: ({ id, messages, trigger }) => ({ body: { id, messages: messages.slice(-1), trigger } }),
});

function Part({ part, decide }) {
  if (part.type === "text") return h("p", { className: "text" }, part.text);
  if (part.type !== "dynamic-tool") return null;
  const ask = part.state === "approval-requested" && h("button", { onClick: () => decide(part.approval.id) }, "Approve");
  return h("p", { className: "tool" }, `${part.toolName}: ${part.output ?? part.state}`, ask);
}

function Chat() {
  const chat = useChat({
    id,
    messages: loaded.messages,
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const decide = (asked) => chat.addToolApprovalResponse({ id: asked, approved: true });
  const stop = async () => {
    await fetch(`/graphs/chat/threads/${id}/cancel`, { method: "POST" }); // `chat.stop()` only stops reading
  };
  const send = (event) => {
    event.preventDefault();
    chat.sendMessage({ text: event.target.elements.text.value });
    event.target.reset();
  };
  return h("main", {},
    h("div", { id: "status" }, chat.status),
    h("div", { id: "error" }, chat.error ? String(chat.error) : ""),
    ...chat.messages.map((message) => h("article", { key: message.id, className: message.role },
      ...message.parts.map((part, at) => h(Part, { key: at, part, decide })))),
    h("form", { onSubmit: send }, h("input", { name: "text", "aria-label": "Message" }), h("button", {}, "Send")),
    h("button", { onClick: stop }, "Stop"));
}

createRoot(document.getElementById("root")).render(h(Chat));
