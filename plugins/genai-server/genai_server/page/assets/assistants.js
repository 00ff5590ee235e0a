// The assistants that there are, with the threads that were begun with them in this browser.

import { about, filesOf, nameOf, toolsOf } from "./about.js";
import { announce } from "./announce.js";
import { call } from "./api.js";
import { ask } from "./dialogs.js";
import { button, h, newId, plain, replace, shown } from "./dom.js";
import { making } from "./making.js";
import { view } from "./plugins.js";
import { attempt, problemCard } from "./problem.js";
import { forget, threadsOf } from "./remembered.js";

const PAGE = 50;

export function assistantsView(app) {
  const list = h("div", { class: "cards" }, h("p", { class: "loading" }, "Loading …"));
  const assistants = new Assistants(list);
  assistants.load();
  const made = (assistant) => {
    announce(`${plain(nameOf(assistant))} is made.`, true);
    return assistants.load();
  };
  return view(app, "Assistants", "A model with instructions, tools and files of its own.", making(made), list);
}

class Assistants {
  constructor(list) {
    this.list = list;
  }

  async load() {
    try {
      replace(this.list, ...(await this.page("")));
    } catch (error) {
      replace(this.list, problemCard(error, () => this.load()));
    }
  }

  async page(after) {
    const { data, has_more: more, last_id: last } = await call("GET", `v1/assistants?limit=${PAGE}${after}`);
    if (!data.length) return [h("p", { class: "help" }, "No assistants yet.")];
    const next = button("Show more", async () => {
      try {
        next.replaceWith(...(await this.page(`&after=${encodeURIComponent(last)}`)));
      } catch (error) {
        announce(error.message, true);
      }
    }, { class: "text-button" });
    return [...data.map((each) => this.card(each)), more ? next : null].filter(Boolean);
  }

  card(assistant) {
    const name = plain(nameOf(assistant));
    const problem = h("div", { role: "alert" });
    const address = `#/assistants/${encodeURIComponent(assistant.id)}`;
    return h(
      "article",
      { class: "card" },
      h("div", { class: "card-head" }, h("h2", {}, ...shown(nameOf(assistant)))),
      h("p", { class: "help" }, ...shown([assistant.model, ...toolsOf(assistant)].join(" · "))),
      about(assistant),
      threadList(address, assistant),
      h(
        "div",
        { class: "buttons start" },
        h("a", { class: "button primary", href: address }, "Talk", h("span", { class: "hidden" }, ` to ${name}`)),
        button(["Delete", h("span", { class: "hidden" }, ` ${name}`)], () => this.remove(assistant, problem), { class: "button danger" }),
      ),
      problem,
    );
  }

  async remove(assistant, problem) {
    const withFiles = await askRemoval(assistant);
    if (withFiles === null) return;
    await attempt(problem, async () => {
      await call("DELETE", `v1/assistants/${encodeURIComponent(assistant.id)}`);
      await removeThreads(assistant.id);
      if (withFiles) await removeFiles(assistant);
      await this.load();
      announce("Deleted.", true);
    });
  }
}

/** Whether its files are to go as well; null if it is to stay. */
function askRemoval(assistant) {
  const stores = assistant.tool_resources?.file_search?.vector_store_ids ?? [];
  const id = newId("files");
  const files = h("input", { type: "checkbox", id });
  return ask("Delete the assistant?", (close) => [
    h("p", {}, "“", ...shown(nameOf(assistant)), "” is removed for good, and with it the threads of this browser."),
    stores.length ? h("div", { class: "check" }, files, h("label", { for: id }, "Also delete its files, which others may use")) : null,
    h(
      "div",
      { class: "buttons" },
      button("Cancel", () => close(null), { autofocus: true }),
      button("Delete", () => close(files.checked), { class: "button danger" }),
    ),
  ].filter(Boolean));
}

async function removeThreads(assistant) {
  const ids = threadsOf(assistant).map((each) => each.id);
  await Promise.allSettled(ids.map((id) => call("DELETE", `v1/threads/${encodeURIComponent(id)}`)));
  forget(...ids);
}

async function removeFiles(assistant) {
  for (const store of assistant.tool_resources.file_search.vector_store_ids) {
    const files = await filesOf(store);
    await call("DELETE", `v1/vector_stores/${encodeURIComponent(store)}`);
    await Promise.allSettled(files.map(({ id }) => call("DELETE", `v1/files/${encodeURIComponent(id)}`)));
  }
}

/** The threads that are still there; the others are forgotten. */
function threadList(address, assistant) {
  const list = h("ul", { class: "threads", "aria-label": `Threads with ${plain(nameOf(assistant))}` });
  for (const { id, title } of threadsOf(assistant.id)) {
    const item = h("li", {}, h("a", { href: `${address}/${encodeURIComponent(id)}` }, ...shown(title || "Without a name")));
    list.append(item);
    call("GET", `v1/threads/${encodeURIComponent(id)}`).catch((error) => {
      if (error.status !== 404) return;
      forget(id);
      item.remove();
    });
  }
  return list;
}
