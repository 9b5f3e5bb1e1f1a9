// A page with `useChat` of the AI SDK, as the guide has it: streams, stops, approves, and goes on after a reload or a lost stream.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { createElement as h } from "react";
import { createRoot } from "react-dom/client";

const id = new URLSearchParams(location.search).get("chat");
const load = async () => (await (await fetch(`/chat/${id}/messages`)).json()).messages;
const loaded = await load();
const transport = new DefaultChatTransport({
  api: "/chat",
  prepareSendMessagesRequest: ({ id, messages, trigger }) => ({ body: { id, messages: messages.slice(-1), trigger } }),
  fetch: async (...request) => {
    const response = await fetch(...request);
    if (response.status === 204) chat.setMessages(await load());
    return response;
  },
});
let chat;

function Part({ part, decide }) {
  if (part.type === "text") return h("p", { className: "text" }, part.text);
  if (part.type !== "dynamic-tool") return null;
  const ask = part.state === "approval-requested" && h("button", { onClick: () => decide(part.approval.id) }, "Approve");
  return h("p", { className: "tool" }, `${part.toolName}: ${part.output ?? part.state}`, ask);
}

function Chat() {
  chat = useChat({
    id,
    messages: loaded,
    resume: true,
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onFinish: ({ finishReason, isAbort, isDisconnect, isError }) => {
      const isCut = isDisconnect || !(finishReason || isAbort || isError);
      if (isCut) chat.resumeStream();
    },
  });
  const decide = (asked) => chat.addToolApprovalResponse({ id: asked, approved: true });
  const stop = async () => {
    chat.stop(); // only stops reading
    await fetch(`/graphs/chat/threads/${id}/cancel`, { method: "POST" });
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
