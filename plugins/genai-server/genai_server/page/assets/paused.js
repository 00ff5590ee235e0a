// What a turn waits for: whether calls of tools may run, or any other value.

import { announce } from "./announce.js";
import { button, h, newId, plain, shown } from "./dom.js";
import { codeBlock } from "./markdown.js";

const ALWAYS = "genai-host-always";

/** Tools that may run in a conversation without being asked for, until the tab is closed. */
function always(conversation) {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(ALWAYS))?.[conversation] ?? []);
  } catch {
    return new Set();
  }
}

function allowAlways(conversation, tool) {
  let all = {};
  try {
    all = JSON.parse(sessionStorage.getItem(ALWAYS)) ?? {};
  } catch {
    // what stood there is none of ours
  }
  all[conversation] = [...new Set([...(all[conversation] ?? []), tool])];
  sessionStorage.setItem(ALWAYS, JSON.stringify(all));
}

/** The calls, as `cli/approvals.py` reads them; null if something else is waited for. */
function callsOf({ kind, payload }) {
  const calls = kind === "approval" ? payload?.calls : null;
  const named = (each) => typeof each?.id === "string" && typeof each?.tool === "string";
  return Array.isArray(calls) && calls.length && calls.every(named) ? calls : null;
}

/** What to answer without asking; null if the user is to be asked. */
export function decidedBefore(conversation, pause) {
  const calls = callsOf(pause);
  const allowed = always(conversation);
  if (!calls?.every((each) => allowed.has(each.tool))) return null;
  return Object.fromEntries(calls.map((each) => [each.id, true]));
}

/** The question; `answer(result)` is called once, `drop()` if the turn is given up. */
export function question(conversation, pause, answer, drop) {
  const calls = callsOf(pause);
  const inner = calls ? approvals(conversation, calls, answer) : value(pause, answer, drop);
  const what = calls ? "A tool wants to run" : "The turn waits";
  announce(calls ? `A tool wants to run: ${calls.map((each) => plain(each.tool)).join(", ")}` : what);
  const id = newId("paused");
  return h(
    "section",
    { class: "card paused", "aria-labelledby": id },
    h("p", { class: "card-title", id }, calls?.length > 1 ? "Tools want to run" : what),
    inner,
  );
}

function approvals(conversation, calls, answer) {
  const decided = {};
  const decide = (call, may, row) => {
    decided[call.id] = may;
    row.querySelector(".buttons").replaceWith(h("p", { class: "help" }, may ? "allowed" : "denied"));
    if (Object.keys(decided).length === calls.length) answer(decided);
    else row.parentElement.querySelector("button")?.focus();
  };
  const rows = calls.map((call) => {
    const row = h(
      "li",
      {},
      h("p", {}, h("strong", {}, ...shown(call.tool))),
      codeBlock(JSON.stringify(call.arguments ?? {}, null, 2), "json"),
      h(
        "div",
        { class: "buttons start" },
        button("Allow once", () => decide(call, true, row), { class: "button primary" }),
        button("Deny", () => decide(call, false, row)),
        button("Always allow here", () => {
          allowAlways(conversation, call.tool);
          decide(call, true, row);
        }, { title: "In this conversation, until this tab is closed" }),
      ),
    );
    return row;
  });
  return h("ul", { class: "calls" }, ...rows);
}

function value(pause, answer, drop) {
  const id = newId("value");
  const field = h("textarea", { id, rows: "3", spellcheck: "false" });
  const send = (event) => {
    event.preventDefault();
    let given = field.value;
    try {
      given = JSON.parse(field.value);
    } catch {
      // then it is a text
    }
    answer(given);
  };
  return h(
    "form",
    { on: { submit: send } },
    h("p", {}, "It waits for: ", ...shown(pause.kind)),
    codeBlock(JSON.stringify(pause.payload ?? null, null, 2), "json"),
    h("label", { for: id }, "Answer (JSON, or text)"),
    field,
    h(
      "div",
      { class: "buttons start" },
      h("button", { type: "submit", class: "button primary" }, "Go on"),
      button("Give up", drop),
    ),
  );
}
