// A conversation with `Chat`, which is `useChat` without rendering. Each line of the input is a
// message of the user, or the decision on an approval. Prints the messages and errors as JSON.
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { readFileSync } from "node:fs";

const [api] = process.argv.slice(2);
const errors = [];
const chat = new Chat({
  transport: new DefaultChatTransport({ api }),
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  onError: (error) => errors.push(error.message),
});
for (const step of JSON.parse(readFileSync(0, "utf8"))) {
  if (typeof step === "string") {
    await chat.sendMessage({ text: step });
  } else {
    const part = chat.lastMessage.parts.find((each) => each.state === "approval-requested");
    await chat.addToolApprovalResponse({ id: part.approval.id, ...step });
    while (chat.status !== "ready" && chat.status !== "error")
      await new Promise((done) => setTimeout(done, 10));
  }
}
console.log(JSON.stringify({ messages: chat.messages, errors }));
