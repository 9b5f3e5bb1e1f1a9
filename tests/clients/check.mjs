// Reads wires, as `{"ai-sdk": text, "ag-ui": text}` on standard input, by the official clients; prints what a page has.

import { HttpAgent } from "@ag-ui/client";
import { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } from "ai";

const wires = JSON.parse(await new Response(process.stdin).text());
const bytes = (text) => new Response(text).body;

const chunks = parseJsonEventStream({ stream: bytes(wires["ai-sdk"]), schema: uiMessageChunkSchema }).pipeThrough(
  new TransformStream({
    transform(part, controller) {
      if (!part.success) throw part.error;
      controller.enqueue(part.value);
    },
  }),
);
let message;
for await (const one of readUIMessageStream({ stream: chunks, terminateOnError: true })) message = one;

const agent = new HttpAgent({
  url: "http://local/agent",
  threadId: "t",
  fetch: async () => new Response(bytes(wires["ag-ui"]), { headers: { "content-type": "text/event-stream" } }),
});
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
await agent.runAgent({ runId: "r" });

console.log(JSON.stringify({ message, messages: agent.messages, state: agent.state, warnings }));
