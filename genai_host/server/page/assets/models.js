// Model configurations: names for models, with parameters and preferred providers.

import { announce } from "./announce.js";
import { call } from "./api.js";
import { confirm } from "./dialogs.js";
import { button, h, newId, plain, replace, shown } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { status, view } from "./plugins.js";
import { problemCard } from "./problem.js";

const HELP = "Names of your own for models, with parameters. One that has the name of a model redirects that name.";

export function modelsView(app) {
  const add = h("div", {});
  const list = h("div", { class: "cards" }, h("p", { class: "loading" }, "Loading …"));
  new Configurations(list, add).load();
  return view(app, "Models", HELP, add, list);
}

class Configurations {
  constructor(list, add) {
    Object.assign(this, { list, add });
  }

  async load(opened = "") {
    try {
      const { data } = await call("GET", "api/v1/models");
      const found = data.filter((each) => each.configuration);
      replace(this.add, this.adding());
      replace(this.list, ...found.map((each) => this.card(each, each.name === opened)));
      if (!found.length) replace(this.list, h("p", { class: "help" }, "There are no model configurations."));
    } catch (error) {
      replace(this.list, problemCard(error, () => this.load()));
    }
  }

  card(row, isOpen) {
    const name = plain(row.name);
    const path = `api/v1/models/${encodeURIComponent(row.name)}`;
    const form = new SchemaForm(schema(row.parameters), row.configuration);
    const problem = h("div", { role: "alert" });
    const save = (event) => {
      event.preventDefault();
      return attempt(problem, async () => {
        await call("PATCH", path, changes(form, row.configuration));
        await this.load(row.name);
        announce(`${name} is saved.`, true);
      });
    };
    const remove = async () => {
      const text = ["“", ...shown(row.name), "” is removed from the configuration."];
      if (!(await confirm("Remove the model configuration?", text, "Remove", { class: "button danger" }))) return;
      await attempt(problem, async () => {
        await call("DELETE", path);
        await this.load();
        announce("Removed.", true);
      });
    };
    return h(
      "article",
      { class: "card" },
      h("div", { class: "card-head" }, h("h2", {}, ...shown(row.name)), status(row.runs ? "runs" : "failed")),
      h("p", { class: "help" }, ...shown(`${row.configuration.of}${row.providers.length ? `, at ${row.providers.join(", ")}` : ""}`)),
      row.configuration.reason ? h("p", {}, ...shown(row.configuration.reason)) : null,
      h(
        "details",
        { open: isOpen },
        h("summary", {}, "Settings", h("span", { class: "hidden" }, ` of ${name}`)),
        h(
          "form",
          { on: { submit: save } },
          form.element,
          h(
            "div",
            { class: "buttons start" },
            h("button", { type: "submit", class: "button primary" }, "Save"),
            button("Remove", remove, { class: "button danger" }),
          ),
        ),
      ),
      problem,
    );
  }

  adding() {
    const problem = h("div", { role: "alert" });
    const id = newId("name");
    const name = h("input", { id, type: "text", required: true, pattern: "[A-Za-z0-9][A-Za-z0-9._:\\-]*", autocomplete: "off" });
    const form = new SchemaForm({ ...schema(), required: ["of"] });
    const create = (event) => {
      event.preventDefault();
      return attempt(problem, async () => {
        await call("POST", "api/v1/models", { name: name.value, ...form.values().set });
        announce(`${plain(name.value)} is added.`, true);
        await this.load(name.value);
      });
    };
    return h(
      "details",
      { class: "card adding" },
      h("summary", {}, "Add a model configuration"),
      h(
        "form",
        { on: { submit: create } },
        h("div", { class: "field" }, h("label", { for: id }, "Name"), name),
        form.element,
        h("div", { class: "buttons start" }, h("button", { type: "submit", class: "button primary" }, "Add")),
        problem,
      ),
    );
  }
}

const schema = (taken = []) => ({
  properties: {
    of: { type: "string", description: "a model, as name or name@provider" },
    provider_order: { type: "array", items: { type: "string" }, description: "providers that are preferred, best first" },
    parameters: {
      type: "object",
      description: `JSON, as {"temperature": 0}${taken.length ? `; it takes ${taken.join(", ")}` : ""}`,
    },
  },
});

/** What is cleared is taken out, and so is each parameter that is there no more. */
function changes(form, before) {
  const { set, cleared } = form.values();
  if (cleared.includes("provider_order")) set.provider_order = [];
  if (cleared.includes("parameters")) set.parameters = {};
  if (set.parameters) {
    const gone = Object.keys(before.parameters).filter((each) => !(each in set.parameters));
    set.parameters = { ...set.parameters, ...Object.fromEntries(gone.map((each) => [each, null])) };
  }
  return set;
}

async function attempt(problem, what) {
  replace(problem);
  try {
    await what();
  } catch (error) {
    replace(problem, h("p", { class: "bad" }, ...shown(error.message)), error.hint ? h("p", {}, ...shown(error.hint)) : null);
  }
}
