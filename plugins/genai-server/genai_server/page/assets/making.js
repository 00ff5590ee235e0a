// A new assistant: its name, model, instructions, tools and files.

import { filesOf } from "./about.js";
import { call } from "./api.js";
import { field, h, newId, plain, replace, shown } from "./dom.js";
import { attempt, problemLines } from "./problem.js";

const PAUSE = 500; // ms between questions whether files have been read
const LONGEST = 60_000; // ms that they are waited for: runs wait for the rest

/** What is filled in; `made(assistant)` is called with what comes of it. */
export function making(made) {
  const name = h("input", { type: "text", required: true, maxlength: "256", autocomplete: "off" });
  const model = h("select", { required: true });
  const instructions = h("textarea", { rows: "4", maxlength: "256000" });
  const search = h("input", { type: "checkbox" });
  const code = h("input", { type: "checkbox" });
  const files = h("input", { type: "file", multiple: true });
  const filesField = field("Files for the tools", files, "File search requires at least one.");
  const problem = h("div", { role: "alert" });
  const progress = h("p", { class: "help", role: "status" });
  const submit = h("button", { type: "submit", class: "button primary" }, "Make");
  const changed = () => {
    filesField.hidden = !search.checked && !code.checked;
    files.required = search.checked;
  };
  search.addEventListener("change", changed);
  code.addEventListener("change", changed);
  changed();
  const make = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    replace(problem);
    try {
      const given = { name: name.value.trim(), model: model.value, instructions: instructions.value };
      const sent = filesField.hidden ? [] : [...files.files];
      const tell = (text) => (progress.textContent = text);
      const assistant = await create(given, search.checked, code.checked, sent, tell);
      const unread = await unreadIn(assistant, tell);
      event.target.reset();
      changed();
      element.open = unread.length > 0;
      replace(problem, ...unread.map((text) => h("p", { class: "bad" }, ...shown(text))));
      await made(assistant);
    } catch (error) {
      replace(problem, ...problemLines(error));
    } finally {
      progress.textContent = "";
      submit.disabled = false;
    }
  };
  const element = h(
    "details",
    { class: "card adding" },
    h("summary", {}, "Make an assistant"),
    h(
      "form",
      { on: { submit: make } },
      field("Name", name),
      field("Model", model),
      field("Instructions", instructions),
      h(
        "fieldset",
        {},
        h("legend", {}, "Tools"),
        check("Search in files", search),
        check("Run code", code),
        h("p", { class: "help" }, "This page cannot call functions; programs can."),
      ),
      filesField,
      h("div", { class: "buttons start" }, submit),
      progress,
      problem,
    ),
  );
  offer(model, problem);
  return element;
}

/** The models that run. */
const offer = (select, problem) =>
  attempt(problem, async () => {
    const { data } = await call("GET", "api/v1/routes?operation=chat&runs=true");
    const names = [...new Set(data.map((each) => each.model))];
    replace(select, ...names.map((each) => h("option", { value: each }, plain(each))));
    if (!names.length) replace(problem, h("p", {}, "No model can run yet. ", h("a", { href: "#/providers" }, "Providers")));
  });

function check(text, control) {
  control.id = newId("tool");
  return h("div", { class: "check" }, control, h("label", { for: control.id }, text));
}

/** Send the files, have them made searchable, and make the assistant. What was sent is taken
 * back if that fails. */
async function create(given, searches, codes, files, tell) {
  const ids = [];
  let store = null;
  try {
    for (const file of files) {
      tell(`Sending ${plain(file.name)} …`);
      const form = new FormData();
      form.append("purpose", "assistants");
      form.append("file", file, file.name);
      ids.push((await call("POST", "v1/files", form)).id);
    }
    const resources = {};
    if (searches) {
      store = (await call("POST", "v1/vector_stores", { name: given.name, file_ids: ids })).id;
      resources.file_search = { vector_store_ids: [store] };
    }
    if (codes && ids.length) resources.code_interpreter = { file_ids: ids };
    return await call("POST", "v1/assistants", {
      ...given,
      tools: [searches && "file_search", codes && "code_interpreter"].filter(Boolean).map((type) => ({ type })),
      tool_resources: resources,
    });
  } catch (error) {
    const undone = [store && `v1/vector_stores/${encodeURIComponent(store)}`, ...ids.map((id) => `v1/files/${encodeURIComponent(id)}`)];
    await Promise.allSettled(undone.filter(Boolean).map((path) => call("DELETE", path)));
    throw error;
  }
}

/** What is said of files that cannot be searched, once all have been looked at. */
async function unreadIn(assistant, tell) {
  const [store] = assistant.tool_resources?.file_search?.vector_store_ids ?? [];
  if (!store) return [];
  tell("The files are being read …");
  const end = performance.now() + LONGEST;
  let files = await filesOf(store);
  while (files.some((each) => each.status === "in_progress") && performance.now() < end) {
    await new Promise((done) => setTimeout(done, PAUSE));
    files = await filesOf(store);
  }
  const bad = files.filter((each) => each.status === "failed");
  return Promise.all(
    bad.map(async ({ id, last_error: error }) => {
      const { filename } = await call("GET", `v1/files/${encodeURIComponent(id)}`);
      return `${filename} cannot be searched: ${error?.message ?? "it failed"}`;
    }),
  );
}
