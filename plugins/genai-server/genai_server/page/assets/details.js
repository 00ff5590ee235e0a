// What is behind an answer: prompts, calls of tools, what they used, cost and took.

import { h, shown } from "./dom.js";
import { codeBlock } from "./markdown.js";

const number = new Intl.NumberFormat();

/** "1.2 s · 345 tokens · $0.0021" */
export function inShort(answer) {
  const parts = [];
  if (answer.seconds >= 0.05) parts.push(secondsText(answer.seconds));
  const tokens = (answer.usage?.input_tokens ?? 0) + (answer.usage?.output_tokens ?? 0);
  if (tokens) parts.push(`${number.format(tokens)} tokens`);
  const cost = costText(answer.cost);
  if (cost) parts.push(cost);
  return parts.join(" · ");
}

export const secondsText = (seconds) =>
  seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;

export function costText(cost) {
  if (typeof cost === "number") return dollars(cost);
  if (!cost?.known) return "";
  return `${cost.unknown ? "≥ " : ""}${dollars(cost.dollars)}`;
}

const dollars = (value) => `$${value === 0 ? "0" : value < 0.01 ? value.toPrecision(2) : value.toFixed(2)}`;

/** All of it, for an answer with its `details`. */
export function detailsOf(answer) {
  return [facts(answer), ...(answer.details ?? []).map(detail)];
}

function facts(answer) {
  const usage = answer.usage ?? {};
  const rows = [
    ["Took", answer.seconds >= 0.05 ? secondsText(answer.seconds) : ""],
    ["Cost", costText(answer.cost) || (answer.cost?.unknown ? "not known" : "")],
    ["Tokens in", usage.input_tokens ? number.format(usage.input_tokens) : ""],
    ["of them cached", usage.cached_tokens ? number.format(usage.cached_tokens) : ""],
    ["Tokens out", usage.output_tokens ? number.format(usage.output_tokens) : ""],
    ["of them reasoning", usage.reasoning_tokens ? number.format(usage.reasoning_tokens) : ""],
  ].filter(([, value]) => value);
  return pairs(rows.map(([name, value]) => [name, [value]]));
}

const pairs = (rows) =>
  h(
    "dl",
    { class: "pairs" },
    ...rows.flatMap(([name, value]) => [h("dt", {}, ...shown(name)), h("dd", {}, ...value)]),
  );

function detail({ kind, title, data }) {
  const took = data?.seconds >= 0.05 ? secondsText(data.seconds) : "";
  const failed = Boolean(data?.failed || data?.error);
  return h(
    "details",
    { class: "detail" },
    h(
      "summary",
      {},
      h("span", { class: `kind${failed ? " failed" : ""}` }, ...shown(kind)),
      h("span", { class: "detail-title" }, ...shown(title)),
      took ? h("span", { class: "took" }, took) : null,
    ),
    h("div", { class: "detail-body" }, ...fields(data ?? {})),
  );
}

function fields(data) {
  const simple = [];
  const large = [];
  for (const [name, value] of Object.entries(data)) {
    if (value === null || value === false || name === "reactions") continue;
    const text = inline(value);
    if (text === "") continue;
    if (name === "added" && Array.isArray(value)) large.push(...value.map(message));
    else if (name === "answer" && value.role) large.push(message(value));
    else if (text === null) large.push(block(name, JSON.stringify(value, null, 2), "json"));
    else if (text.length > 160 || text.includes("\n")) large.push(block(name, text));
    else simple.push([name.replaceAll("_", " "), shown(text)]);
  }
  return [simple.length ? pairs(simple) : null, ...large].filter(Boolean);
}

/** A value on one line; null for what has parts that have parts. */
function inline(value) {
  if (value === null || typeof value !== "object") return String(value);
  const isPlain = Object.values(value).every((each) => each === null || typeof each !== "object");
  if (!isPlain) return null;
  if (Array.isArray(value)) return value.join(", ");
  return Object.entries(value).map(([name, each]) => `${name.replaceAll("_", " ")} ${each}`).join(", ");
}

const block = (name, text, language) =>
  h("div", { class: "block" }, h("p", { class: "label" }, ...shown(name.replaceAll("_", " "))), codeBlock(text, language));

function message({ role, content }) {
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  return h(
    "div",
    { class: "message-part" },
    h("p", { class: "label" }, ...shown(role)),
    ...parts.map(part),
  );
}

function part(each) {
  if (each.type === "text" || each.type === "reasoning") {
    const text = { class: "plain", tabindex: "0", role: "group", "aria-label": each.type };
    return h("div", text, ...shown(each.text));
  }
  if (each.type === "image" || each.type === "file") {
    const size = each.data ? `${Math.round((each.data.length * 3) / 4096)} kB` : each.url;
    return h("p", { class: "help" }, ...shown(`${each.type} ${each.media_type ?? ""} ${size}`));
  }
  if (each.type === "tool_call") {
    const asked = each.malformed || JSON.stringify(each.arguments ?? {}, null, 2);
    return block(`asks for ${each.name}`, asked, "json");
  }
  if (each.type === "tool_result") {
    const text = (each.content ?? []).map((inner) => inner.text ?? `(${inner.type})`).join("\n");
    return block(`${each.name || "tool"} ${each.error ? "failed" : "gave"}`, text, "text");
  }
  return codeBlock(JSON.stringify(each, null, 2), "json");
}
