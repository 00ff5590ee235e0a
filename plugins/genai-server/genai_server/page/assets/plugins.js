// The plugins that there are, and what is wrong with those that do not work.

import { call } from "./api.js";
import { h, iconButton, replace, shown } from "./dom.js";
import { codeBlock } from "./markdown.js";
import { problemCard } from "./problem.js";

export function pluginsView(app) {
  const list = h("div", { class: "cards" }, h("p", { class: "loading" }, "Loading …"));
  load(list);
  return view(app, "Plugins", "Installed plugins. A broken plugin does not affect the others.", list);
}

/** A part of the page that is no conversation. */
export function view(app, title, help, ...inner) {
  document.title = `${title} - genai-host`;
  const menu = iconButton("menu", "Open the list of conversations", () => app.openMenu(), { class: "icon-button menu" });
  return h(
    "div",
    { class: "view" },
    h("header", { class: "head" }, menu, h("h1", {}, title)),
    h(
      "div",
      { class: "transcript", tabindex: "0", role: "region", "aria-label": title },
      h("div", { class: "sheet" }, h("p", { class: "help" }, help), ...inner),
    ),
  );
}

async function load(list) {
  try {
    const { data } = await call("GET", "api/v1/plugins");
    replace(list, ...data.sort(byTrouble).map(card));
  } catch (error) {
    replace(list, problemCard(error, () => load(list)));
  }
}

const TROUBLE = { broken: 0, blocked: 1, disabled: 2 };
const byTrouble = (one, other) =>
  (TROUBLE[one.status] ?? 9) - (TROUBLE[other.status] ?? 9) || one.name.localeCompare(other.name);

function card(plugin) {
  const provides = Object.entries(plugin.provides ?? {}).filter(([, names]) => (names?.length ?? names) > 0);
  return h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "card-head" },
      h("h2", {}, ...shown(plugin.name)),
      status(plugin.status),
    ),
    h("p", { class: "help" }, ...shown(`${plugin.distribution} ${plugin.version}`)),
    plugin.reason ? h("p", {}, ...shown(plugin.reason)) : null,
    plugin.fix ? h("div", {}, h("p", { class: "label" }, "To fix it"), codeBlock(plugin.fix, "shell")) : null,
    provides.length
      ? h(
          "dl",
          { class: "pairs" },
          ...provides.flatMap(([what, names]) => [
            h("dt", {}, ...shown(what.replaceAll("_", " "))),
            h("dd", {}, ...shown(Array.isArray(names) ? few(names) : String(names))),
          ]),
        )
      : null,
  );
}

const few = (names) => (names.length > 20 ? `${names.slice(0, 20).join(", ")} and ${names.length - 20} more` : names.join(", "));

export const status = (name) => h("span", { class: `status ${/^[a-z]+$/.test(name) ? name : ""}` }, ...shown(name));
