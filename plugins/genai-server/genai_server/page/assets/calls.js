// What an assistant's tools were asked, and what they gave.

import { bytes } from "./api.js";
import { h, newId, replace, shown, button } from "./dom.js";
import { codeBlock } from "./markdown.js";

/** A call as a step of a run has it. */
export function callView(call) {
  if (call.type === "code_interpreter") return codeView(call.code_interpreter ?? {});
  if (call.type === "file_search") return searchView(call.file_search ?? {});
  const { name, arguments: given, output } = call.function ?? {};
  return detail(
    "function",
    shown(name ?? call.type),
    block("asked", indented(given ?? ""), "json"),
    typeof output === "string" ? block("gave", output) : null,
  );
}

/** A call with what a stream tells of it: a whole, or the next piece of its texts. */
export function merged(call, told) {
  if (!call) return told;
  const code = call.code_interpreter;
  const added = told.code_interpreter;
  if (!code || !added) return { ...call, ...told };
  const piece = added.input ?? "";
  const input = piece.startsWith(code.input ?? "") ? piece : (code.input ?? "") + piece;
  const outputs = added.outputs?.length ? added.outputs : code.outputs;
  return { ...call, ...told, code_interpreter: { input, outputs } };
}

function codeView({ input, outputs }) {
  const logs = (outputs ?? []).filter((each) => each.type === "logs").map((each) => each.logs);
  const pictures = (outputs ?? []).filter((each) => each.type === "image");
  return h(
    "div",
    { class: "call" },
    detail(
      "code",
      ["Python"],
      block("code", input ?? "", "python"),
      logs.length ? block("logs", logs.join("\n")) : null,
    ),
    pictures.length
      ? h("div", { class: "pictures" }, ...pictures.map((each, number) => fileImage(each.image?.file_id, `Picture ${number + 1} that the code made`)))
      : null,
  );
}

function searchView({ results }) {
  const found = results ?? [];
  const passages = found.map((each) => {
    const text = (each.content ?? []).map((part) => part.text ?? "").join("\n");
    return block(each.file_name || each.file_id, text || "…");
  });
  const told = found.length === 1 ? "1 passage found" : `${found.length} passages found`;
  return detail("search in files", [told], ...passages);
}

const detail = (kind, title, ...inner) =>
  h(
    "details",
    { class: "detail call" },
    h("summary", {}, h("span", { class: "kind" }, kind), h("span", { class: "detail-title" }, ...title)),
    h("div", { class: "detail-body" }, ...inner),
  );

const block = (name, text, language) =>
  h("div", { class: "block" }, h("p", { class: "label" }, ...shown(name)), codeBlock(text, language));

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A picture that is a file of the server. Whatever is in it, it is shown as a picture only. */
export function fileImage(id, name) {
  const picture = h("img", { alt: name });
  const place = h("div", { class: "picture" }, h("p", { class: "help" }, "Loading …"));
  const failed = () => replace(place, h("p", { class: "help" }, `${name} cannot be shown.`));
  picture.addEventListener("load", () => URL.revokeObjectURL(picture.src));
  picture.addEventListener("error", failed);
  bytes(`v1/files/${encodeURIComponent(id)}/content`)
    .then((blob) => {
      picture.src = URL.createObjectURL(new Blob([blob], { type: "image/png" }));
      replace(place, picture);
    })
    .catch(failed);
  return place;
}

/** The functions that a run waits for: `send(outputs)` once, or `cancel()`. */
export function functionsForm(calls, send, cancel) {
  const id = newId("functions");
  const fields = calls.map((call) => ({ call, id: newId("output"), name: call.function?.name ?? "" }));
  const output = (field) => h("textarea", { id: field.id, rows: "2", spellcheck: "false" });
  const inputs = fields.map(output);
  const submit = (event) => {
    event.preventDefault();
    send(fields.map(({ call }, number) => ({ tool_call_id: call.id, output: inputs[number].value })));
  };
  return h(
    "section",
    { class: "card paused", "aria-labelledby": id },
    h("p", { class: "card-title", id }, "Function calls are waiting"),
    h("p", {}, "This page cannot call functions: call them elsewhere, and enter their results here."),
    h(
      "form",
      { on: { submit } },
      h(
        "ul",
        { class: "calls" },
        ...fields.map((field, number) =>
          h(
            "li",
            {},
            h("p", {}, h("strong", {}, ...shown(field.name))),
            codeBlock(indented(field.call.function?.arguments ?? ""), "json"),
            h("label", { for: field.id }, "Output of ", ...shown(field.name)),
            inputs[number],
          ),
        ),
      ),
      h(
        "div",
        { class: "buttons start" },
        h("button", { type: "submit", class: "button primary" }, "Send"),
        button("Cancel the run", cancel),
      ),
    ),
  );
}
