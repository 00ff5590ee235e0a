// What the AI SDK reads of lines: for each part its kind and its value, as JSON.
import { Readable } from "node:stream";
import { processDataStream } from "@ai-sdk/ui-utils";

const parts = [];
const hear = (kind) => (value) => void parts.push([kind, value]);
await processDataStream({
  stream: Readable.toWeb(process.stdin),
  onStartStepPart: hear("start"),
  onTextPart: hear("text"),
  onToolCallPart: hear("tool-call"),
  onToolResultPart: hear("tool-result"),
  onDataPart: hear("data"),
  onErrorPart: hear("error"),
  onFinishMessagePart: hear("finish"),
});
console.log(JSON.stringify(parts));
