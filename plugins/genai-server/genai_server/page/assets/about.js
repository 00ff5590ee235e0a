// What an assistant is: its model, what it is told, its tools and their files.

import { call } from "./api.js";
import { h, replace, shown } from "./dom.js";

const MOST_FILES = 100;
const TOOLS = { file_search: "search in files", code_interpreter: "code" };

export const nameOf = (assistant) => assistant.name || "Without a name";

export const toolsOf = (assistant) =>
  assistant.tools.map((each) => TOOLS[each.type] ?? `function ${each.function?.name ?? ""}`);

/** To be opened; its files are asked for then. */
export function about(assistant, isOpen = false) {
  const files = h("dd", {}, "…");
  const stores = assistant.tool_resources?.file_search?.vector_store_ids ?? [];
  const own = assistant.tool_resources?.code_interpreter?.file_ids ?? [];
  const hasFiles = stores.length + own.length > 0;
  const load = (event) => event.target.open && hasFiles && loadFiles(files, stores, own);
  const row = (name, value) => [h("dt", {}, name), value];
  return h(
    "details",
    { class: "about", open: isOpen, on: { toggle: load } },
    h("summary", {}, "About ", ...shown(nameOf(assistant))),
    h(
      "dl",
      { class: "pairs" },
      row("Model", h("dd", {}, ...shown(assistant.model))),
      assistant.description ? row("Description", h("dd", { class: "plain" }, ...shown(assistant.description))) : [],
      row("Instructions", h("dd", { class: "plain" }, ...shown(assistant.instructions || "none"))),
      row("Tools", h("dd", {}, ...shown(toolsOf(assistant).join(", ") || "none"))),
      hasFiles ? row("Files", files) : [],
    ),
  );
}

async function loadFiles(element, stores, own) {
  try {
    const searched = (await Promise.all(stores.map(filesOf))).flat();
    const code = own.map((id) => ({ id }));
    const all = [...new Map([...code, ...searched].map((each) => [each.id, each])).values()];
    const items = await Promise.all(all.slice(0, MOST_FILES).map(item));
    replace(element, items.length ? h("ul", {}, ...items) : "none");
  } catch (error) {
    replace(element, ...shown(error.message));
  }
}

/** `{id, status, last_error}` of the files of a vector store. */
export async function filesOf(store) {
  return (await call("GET", `v1/vector_stores/${encodeURIComponent(store)}/files?limit=${MOST_FILES}`)).data;
}

async function item({ id, status, last_error: error }) {
  const file = await call("GET", `v1/files/${encodeURIComponent(id)}`).catch(() => null);
  const told = { in_progress: "is being read", failed: "cannot be searched", cancelled: "is not read" }[status];
  const why = [told, error?.message].filter(Boolean).join(": ");
  return h("li", {}, ...shown(file?.filename ?? `${id} (it is gone)`), why ? h("span", { class: "help" }, ...shown(` ${why}`)) : null);
}
