// Model configurations: names for models, with parameters and preferred providers.

import { announce } from "./announce.js";
import { call } from "./api.js";
import { addingCard, problemPlace, removal, settingsCard } from "./cards.js";
import { h, plain, replace, shown } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { view } from "./plugins.js";
import { problemCard } from "./problem.js";

const HELP = "Your own names for models, with parameters. A configuration with the name of a model redirects that name.";

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
    const path = `api/v1/models/${encodeURIComponent(row.name)}`;
    const form = new SchemaForm(schema(row.parameters), row.configuration);
    const problem = problemPlace();
    const where = row.providers.length ? `, at ${row.providers.join(", ")}` : "";
    const reason = row.configuration.reason || row.reason;
    const remove = async () => {
      await call("DELETE", path);
      await this.load();
    };
    const text = ["“", ...shown(row.name), "” is removed from the configuration."];
    return settingsCard(row.name, {
      state: row.state,
      about: [h("p", { class: "help" }, ...shown(`${row.configuration.of}${where}`)), reason ? h("p", {}, ...shown(reason)) : null],
      form,
      save: async () => {
        await call("PATCH", path, changes(form, row.configuration));
        await this.load(row.name);
        announce(`${plain(row.name)} is saved.`, true);
      },
      further: [removal("Remove the model configuration?", text, problem, remove)],
      problem,
      isOpen,
    });
  }

  adding() {
    const form = new SchemaForm({ ...schema(), required: ["of"] });
    return addingCard("Add a model configuration", {
      pattern: "[A-Za-z0-9][A-Za-z0-9._:\\-]*",
      fields: form.element,
      problem: problemPlace(),
      create: async (name) => {
        await call("POST", "api/v1/models", { name, ...form.values().set });
        announce(`${plain(name)} is added.`, true);
        await this.load(name);
      },
    }).element;
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
