// What a model wrote, from the tree that the server makes of it.

import { call } from "./api.js";
import { h, iconButton, shown, plain } from "./dom.js";
import { announce } from "./announce.js";

const TAGS = new Set(
  ("p h3 h4 h5 h6 ul ol li blockquote hr br em strong s code " +
    "table thead tbody tr th td").split(" "),
);
const MOST_TEXTS = 50;
const MOST_LETTERS = 100_000;
const SAFE = /^(https?|mailto):/i;

/** Trees of several texts, asked for at once by all who ask in one turn of the loop. */
let waiting = [];

export function trees(text) {
  return new Promise((done, failed) => {
    waiting.push({ text, done, failed });
    if (waiting.length === 1) setTimeout(ask, 0);
  });
}

async function ask() {
  const asked = waiting;
  waiting = [];
  for (const some of inRequests(asked)) {
    try {
      const texts = some.map((each) => each.text);
      const reply = await call("POST", "page/markdown", { texts });
      some.forEach((each, number) => each.done(reply.trees[number]));
    } catch (error) {
      some.forEach((each) => each.failed(error));
    }
  }
}

/** As many in each request as the server makes trees of. */
function inRequests(asked) {
  const requests = [[]];
  let left = MOST_LETTERS;
  for (const each of asked) {
    if (each.text.length > left || requests.at(-1).length === MOST_TEXTS) {
      requests.push([]);
      left = MOST_LETTERS;
    }
    requests.at(-1).push(each);
    left -= each.text.length;
  }
  return requests.filter((some) => some.length);
}

/** Show a text in an element: as it is written at first, and then as it is meant. */
export async function show(element, text) {
  element.classList.add("plain");
  element.replaceChildren(...shown(text));
  await showWhole(element, text);
}

/** Show it when the tree is there, and leave what is shown until then. */
export async function showWhole(element, text, isWanted = () => true) {
  try {
    const nodes = built(await trees(text));
    if (!isWanted()) return;
    element.classList.remove("plain");
    element.replaceChildren(...nodes);
  } catch {
    if (!isWanted()) return;
    element.classList.add("plain"); // the text itself is all that is needed
    element.replaceChildren(...shown(text));
  }
}

function built(nodes) {
  return nodes.flatMap((node) => (typeof node === "string" ? shown(node) : [element(node)]));
}

function element([tag, attributes, nodes]) {
  if (tag === "pre") return codeBlock(nodes.join(""), attributes.language);
  if (tag === "a") return link(attributes.href, built(nodes));
  if (tag === "table") return scrolling(h("table", {}, ...built(nodes)));
  if (!TAGS.has(tag)) return h("span", {}, ...built(nodes));
  const kept = {};
  if (tag === "ol" && Number.isInteger(attributes.start)) kept.start = attributes.start;
  if (attributes.align === "center" || attributes.align === "right") {
    kept.class = `align-${attributes.align}`;
  }
  if (tag === "th") kept.scope = "col";
  return h(tag, kept, ...built(nodes));
}

/** A link to a place on the web; for any other address, what it would say. */
export function link(address, nodes) {
  if (!SAFE.test(address)) return h("span", {}, ...nodes);
  return h(
    "a",
    {
      href: address,
      target: "_blank",
      rel: "noopener noreferrer nofollow",
      title: plain(address),
    },
    ...nodes,
  );
}

/** What may be wider than there is room scrolls by itself, by the keyboard as well. */
export function scrolling(inner, label = "table") {
  return h("div", { class: "scrolling", tabindex: "0", role: "group", "aria-label": label }, inner);
}

export function codeBlock(code, language = "") {
  const copy = iconButton("copy", "Copy the code", async () => copied(code));
  return h(
    "div",
    { class: "code-block" },
    h("div", { class: "code-head" }, h("span", {}, language || "text"), copy),
    h(
      "pre",
      { tabindex: "0", role: "group", "aria-label": `code${language ? `, ${language}` : ""}` },
      h("code", {}, ...shown(code.replace(/\n$/, ""))),
    ),
  );
}

export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied.", true);
  } catch {
    announce("The browser does not let this page copy.", true);
  }
}
