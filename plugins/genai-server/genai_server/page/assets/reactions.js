// What tools gave for people to see or to do. Nothing is done without them.

import { KINDS, chart, writerOf } from "./chart.js";
import { confirm } from "./dialogs.js";
import { button, h, newId, plain, shown } from "./dom.js";
import { link, scrolling } from "./markdown.js";

const MOST_ROWS = 200;
const MOST = 100;

/**
 * Reactions of one turn, in order.
 *
 * turn.text      what was said: a message that says the same is left out
 * turn.say(text) says it as the user
 */
export function reactions(given, turn) {
  const figures = [];
  const views = given.slice(0, MOST).map((each) => {
    const view = VIEWS[each.type];
    try {
      return view ? view(each, turn, figures) : other(each);
    } catch {
      return other(each); // a type of another plugin, under the same name
    }
  });
  const left = given.length - MOST;
  return [...views.filter(Boolean), left > 0 ? h("p", { class: "help" }, `and ${left} more`) : null];
}

const VIEWS = {
  table: (reaction, turn, figures) => new Figure(reaction, "table", figures).element,
  chart: (reaction, turn, figures) =>
    new Figure(reaction, reaction["display-type"], figures).element,
  redirect: (reaction) => toConfirm("This leads to", reaction.url, "Open the address"),
  "goto-question": (reaction) => line("Question to go to:", String(reaction.question_id)),
  message: (reaction, turn) =>
    same(reaction.message, turn.text) ? null : h("p", { class: "said-by-tool" }, ...shown(reaction.message)),
  writeback: (reaction) => line("To be written back:", reaction.message),
  confirmation: confirmation,
  "api-call": apiCall,
  sources,
  warnings: (reaction) =>
    h("ul", { class: "reaction", "aria-label": "warnings" }, ...reaction.warnings.slice(0, MOST).map((each) => h("li", {}, ...shown(each)))),
  "change-display-type": (reaction, turn, figures) => {
    figures.at(-1)?.show(reaction["display-type"]);
    return figures.length ? null : line("To be shown as:", reaction["display-type"]);
  },
  "change-table-visualization-settings": (reaction, turn, figures) => {
    figures.at(-1)?.keep(reaction["visible-columns"]);
    return figures.length ? null : line("Columns to show:", reaction["visible-columns"].join(", "));
  },
};

const same = (one, other) => one.split(/\s+/).join(" ").trim() === (other ?? "").split(/\s+/).join(" ").trim();

/** Data that is shown as a table or as a chart, as the user likes. */
class Figure {
  constructor(reaction, kind, figures) {
    const { columns, rows } = reaction;
    if (!Array.isArray(columns) || !rows.every(Array.isArray)) throw new TypeError("no data");
    this.data = { label: columns[0], values: columns.slice(1), ...reaction };
    this.columns = columns;
    this.body = h("div", { class: "figure-body" });
    this.kinds = reaction.type === "chart" ? [...KINDS, "table"] : ["table"];
    this.choice = this.kinds.length > 1 ? this.chooser() : null;
    const title = reaction.title ? h("figcaption", {}, ...shown(reaction.title)) : h("span");
    this.element = h(
      "figure",
      {},
      this.choice || reaction.title ? h("div", { class: "figure-head" }, title, this.choice) : null,
      this.body,
    );
    this.show(kind);
    figures.push(this);
  }

  chooser() {
    const options = this.kinds.map((each) => h("option", { value: each }, each));
    return h(
      "select",
      { "aria-label": "Shown as", on: { change: (event) => this.show(event.target.value) } },
      ...options,
    );
  }

  show(kind) {
    this.kind = this.kinds.includes(kind) ? kind : "table";
    if (this.choice) this.choice.value = this.kind;
    const isTable = this.kind === "table";
    const drawn = isTable
      ? table(this.columns, this.data.columns, this.data.rows, this.data.title)
      : chart(this.data, this.kind, this.data.title);
    const more = this.data.more ? h("p", { class: "help" }, "The tool omitted rows.") : null;
    this.body.replaceChildren(...[drawn, more].filter(Boolean));
  }

  keep(columns) {
    const known = columns.filter((each) => this.data.columns.includes(each));
    if (known.length) this.columns = known;
    this.show(this.kind);
  }
}

export function table(visible, columns, rows, title = "") {
  const indices = visible.map((each) => columns.indexOf(each));
  const known = indices.map((index) => rows.map((row) => row[index]).filter((each) => each !== null));
  const isNumber = known.map((all) => all.length && all.every((each) => typeof each === "number"));
  const write = visible.map((each, number) => writerOf(each, known[number]));
  const cell = (tag, value, number, more = {}) =>
    h(tag, { class: isNumber[number] ? "align-right" : null, ...more }, ...value);
  const line = (row) =>
    h(
      "tr",
      {},
      ...indices.map((index, number) => {
        const value = row[index];
        return cell("td", typeof value === "number" ? [write[number](value)] : shown(value ?? "–"), number);
      }),
    );
  const left = rows.length - MOST_ROWS;
  const drawn = h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...visible.map((each, number) => cell("th", shown(each), number, { scope: "col" })))),
    h("tbody", {}, ...rows.slice(0, MOST_ROWS).map(line)),
  );
  return h(
    "div",
    {},
    scrolling(drawn, title ? `table: ${plain(title)}` : "table"),
    left > 0 ? h("p", { class: "help" }, `${left} more rows`) : null,
  );
}

const line = (what, value) =>
  h("p", { class: "reaction" }, h("span", { class: "label" }, what), " ", ...shown(value));

function toConfirm(what, address, yes) {
  let full;
  try {
    full = new URL(address, location.href).href;
  } catch {
    return line(what, address);
  }
  if (!/^https?:/i.test(full)) return line(what, address);
  const open = async () => {
    const text = [h("span", {}, "This leaves the conversation and opens, in a new tab:"), h("br"), h("code", {}, ...shown(full))];
    if (await confirm("Open this address?", text, "Open")) {
      window.open(full, "_blank", "noopener,noreferrer");
    }
  };
  return h(
    "div",
    { class: "reaction card" },
    h("p", {}, h("span", { class: "label" }, what), " ", h("code", {}, ...shown(full))),
    h("div", { class: "buttons start" }, button(`${yes} …`, open)),
  );
}

/** The user answers by saying one of the options. */
function confirmation(reaction, turn) {
  const options = Array.isArray(reaction.options)
    ? reaction.options.map((each) => [textOf(each), each])
    : Object.entries(reaction.options);
  const id = newId("confirmation");
  const choose = (text) => button(plain(text), () => turn.say(text));
  return h(
    "div",
    { class: "reaction card", role: "group", "aria-labelledby": id },
    h("p", { id }, ...shown(reaction.description)),
    h(
      "div",
      { class: "buttons start" },
      ...options.slice(0, 20).map(([name, value]) => choose(typeof value === "string" ? value : name)),
    ),
  );
}

/** Where an answer is from: what its numbers in brackets stand for. */
function sources(reaction) {
  const of = ({ number, title, link: address }) =>
    h("li", { value: number }, link(address, shown(title || address)));
  return h("ol", { class: "reaction", "aria-label": "sources" }, ...reaction.sources.slice(0, MOST).map(of));
}

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** It is not made: whoever the page is open for has more rights than the tool. */
function apiCall(reaction) {
  const body = reaction.body === undefined ? "" : ` ${JSON.stringify(reaction.body)}`;
  return line("A call that the tool asks for:", `${reaction.method} ${reaction.url}${body}`);
}

function other(reaction) {
  const { type, ...rest } = reaction;
  return h(
    "details",
    { class: "reaction" },
    h("summary", {}, "Reaction: ", ...shown(type)),
    h("pre", { class: "json", tabindex: "0" }, ...shown(JSON.stringify(rest, null, 2))),
  );
}
