// Where an answer says that it found something: marks in its text, and what they stand for.
//
// A text comes with annotations: places in it, counted in characters, each with the file that
// is cited there. The run's steps have the passages themselves.

import { announce } from "./announce.js";
import { bytes, call } from "./api.js";
import { button, h, plain, shown } from "./dom.js";

const MARK = /^【(\d{1,6}):(\d{1,6})†/; // the round of tools, and the place in it
const PLACED = /【†(\d+)†】/g;

/** The passages that were found, by round: `{file_id, file_name, text}` of each. */
export function passagesOf(steps) {
  const rounds = steps.filter((step) => step.type === "tool_calls");
  return rounds.map((step) =>
    step.step_details.tool_calls
      .flatMap((each) => each.file_search?.results ?? [])
      .map(({ file_id, file_name, content }) => {
        const text = (content ?? []).map((each) => each.text ?? "").join("\n");
        return { file_id, file_name, text };
      }),
  );
}

/** What a text cites: `text` has a mark of ours at each place, `plain` a number in brackets;
 * `notes` is what they stand for, the first for 1, `files` the ids and names of files to be had. */
export function cited({ value, annotations = [] }, passages) {
  const letters = [...value];
  const notes = [];
  const files = new Map();
  const places = [];
  for (const each of annotations) {
    if (each.type === "file_path") files.set(each.file_path?.file_id, nameIn(each.text));
    if (each.type !== "file_citation") continue;
    const note = noteOf(each, passages);
    let number = notes.findIndex((other) => other.key === note.key) + 1;
    if (!number) number = notes.push(note);
    places.push({ start: each.start_index, end: each.end_index, text: each.text, number });
  }
  let until = letters.length;
  for (const { start, end, text, number } of places.sort((one, other) => other.start - one.start)) {
    if (end > until || letters.slice(start, end).join("") !== text) continue;
    letters.splice(start, end - start, `【†${number}†】`);
    until = start;
  }
  const text = letters.join("");
  return { text, plain: text.replace(PLACED, " [$1]"), notes, files: [...files] };
}

const nameIn = (path) => String(path).split("/").pop();

function noteOf({ text, file_citation: { file_id: id } }, passages) {
  const [mark, round, number] = MARK.exec(text) ?? [];
  const meant = passages[Number(round)]?.[Number(number)];
  const found = meant?.file_id === id ? meant : passages.flat().find((each) => each.file_id === id);
  return { key: mark ? `${round}:${number}` : id, id, name: found?.file_name, text: found?.text };
}

/** The list of what is cited; its marks in `rendered` become buttons that lead there. */
export function footnotes(rendered, notes) {
  const marks = notes.map(() => []);
  const items = notes.map((note, index) => item(note, () => marks[index][0]?.focus()));
  const texts = document.createTreeWalker(rendered, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) if (texts.currentNode.data.includes("【†")) found.push(texts.currentNode);
  for (const node of found) {
    const pieces = node.data.split(PLACED); // every second is the number of a note
    node.replaceWith(
      ...pieces.map((piece, place) => {
        if (place % 2 === 0) return piece;
        const note = notes[piece - 1];
        if (!note) return `【†${piece}†】`; // it was written so
        const mark = markOf(piece, note, items[piece - 1]);
        marks[piece - 1].push(mark.firstChild);
        return mark;
      }),
    );
  }
  return h("ol", { class: "sources footnotes", "aria-label": "sources" }, ...items);
}

function markOf(number, note, to) {
  const open = () => {
    const inner = to.querySelector("details");
    if (inner) inner.open = true;
    (to.querySelector("summary") ?? to).focus();
    to.scrollIntoView({ block: "nearest" });
  };
  return h("sup", {}, button(number, open, { class: "footnote", "aria-label": `Source ${number}: ${plain(note.name ?? note.id)}` }));
}

function item(note, back) {
  const name = h("span", {}, ...shown(note.name || note.id));
  if (!note.name) nameOf(note.id, name);
  if (!note.text) return h("li", { tabindex: "-1" }, name);
  return h(
    "li",
    { tabindex: "-1" },
    h(
      "details",
      {},
      h("summary", {}, name),
      h("blockquote", { class: "plain" }, ...shown(note.text)),
      button("Back to the text", back, { class: "text-button" }),
    ),
  );
}

async function nameOf(id, element) {
  try {
    const file = await call("GET", `v1/files/${encodeURIComponent(id)}`);
    element.replaceChildren(...shown(file.filename));
  } catch {
    element.append(" (it is gone)");
  }
}

/** A button that saves a file that code has made. */
export function saving([id, name]) {
  const save = async () => {
    try {
      const address = URL.createObjectURL(await bytes(`v1/files/${encodeURIComponent(id)}/content`));
      h("a", { href: address, download: plain(name) }).click();
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    } catch (error) {
      announce(error.message, true);
    }
  };
  return button(h("span", {}, "Save ", ...shown(name)), save);
}
