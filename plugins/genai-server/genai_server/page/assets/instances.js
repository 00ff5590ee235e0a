// Instances of providers: what they are set to. Secrets are written, and never read.

import { announce } from "./announce.js";
import { call } from "./api.js";
import { addingCard, problemPlace, removal, settingsCard } from "./cards.js";
import { button, field, h, plain, replace, shown } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { view } from "./plugins.js";
import { preparation } from "./preparing.js";
import { attempt, problemCard } from "./problem.js";

export function instancesView(app) {
  const add = h("div", {});
  const list = h("div", { class: "cards" }, h("p", { class: "loading" }, "Loading …"));
  new Instances(list, add).load();
  return view(app, "Providers", "Services that run models. Each has a name and settings.", add, list);
}

class Instances {
  constructor(list, add) {
    Object.assign(this, { list, add, types: [] });
  }

  async load(opened = "") {
    try {
      const [types, instances] = await Promise.all([
        call("GET", "api/v1/provider-types"),
        call("GET", "api/v1/providers"),
      ]);
      this.types = types.data;
      replace(this.add, this.adding(instances.data));
      replace(this.list, ...instances.data.map((each) => this.card(each, each.name === opened)));
    } catch (error) {
      replace(this.list, problemCard(error, () => this.load()));
    }
  }

  typeOf(name) {
    return this.types.find((each) => each.name === name);
  }

  // --- one that there is

  card(instance, isOpen) {
    const name = plain(instance.name);
    const type = this.typeOf(instance.type);
    const form = new SchemaForm(optional(type?.settings), instance.settings);
    const problem = problemPlace();
    const enable = () =>
      attempt(problem, async () => {
        await this.patch(instance, { enabled: !instance.enabled });
        announce(`${name} is ${instance.enabled ? "off" : "on"}.`, true);
      });
    const remove = async () => {
      await call("DELETE", pathOf(instance));
      await this.load();
    };
    const text = ["“", ...shown(instance.name), "” and its settings are removed from the configuration."];
    return settingsCard(instance.name, {
      state: instance.enabled ? instance.status : "disabled",
      about: [
        h("p", { class: "help" }, ...shown([instance.type, type?.help].filter(Boolean).join(": "))),
        instance.reason ? h("p", {}, ...shown(instance.reason)) : null,
        instance.enabled ? preparation(instance, () => this.load()) : null,
      ],
      form,
      save: async () => {
        const { set, cleared } = form.values();
        const settings = { ...set, ...Object.fromEntries(cleared.map((each) => [each, null])) };
        if (!Object.keys(settings).length) return announce("Nothing was changed.", true);
        const row = await this.patch(instance, { settings });
        announce(`${name} is saved${unless(row)}.`, true);
      },
      further: [
        button(instance.enabled ? "Switch off" : "Switch on", enable),
        removal("Remove the provider?", text, problem, remove),
      ],
      problem,
      isOpen,
    });
  }

  async patch(instance, changes) {
    const row = await call("PATCH", pathOf(instance), changes);
    await this.load(instance.name);
    return row;
  }

  // --- a new one

  adding(instances) {
    const fields = h("div", {});
    let form = null;
    const type = h(
      "select",
      { on: { change: () => choose() } },
      ...this.types.map((each) => h("option", { value: each.name }, plain(each.name))),
    );
    const { element, name } = addingCard("Add a provider", {
      pattern: "[a-z0-9\\-]+",
      help: "lower case letters, digits and hyphens",
      before: [field("Type", type)],
      fields,
      problem: problemPlace(),
      create: async (named) => {
        const { set } = form.values();
        const row = await call("POST", "api/v1/providers", { name: named, type: type.value, settings: set });
        announce(`${plain(named)} is added${unless(row)}.`, true);
        await this.load(named);
      },
    });
    const choose = () => {
      const found = this.typeOf(type.value);
      form = new SchemaForm(found?.settings);
      name.value = freeName(type.value, instances);
      replace(fields, found?.help ? h("p", { class: "help" }, ...shown(found.help)) : null, form.element);
    };
    choose();
    return element;
  }
}

const pathOf = (instance) => `api/v1/providers/${encodeURIComponent(instance.name)}`;

const unless = (row) => (["needs", "unreachable"].includes(row.status) ? `, but cannot run: ${plain(row.reason)}` : "");

/** What is needed may come from the environment: the server says what is missing. */
const optional = (schema) => ({ ...schema, required: [] });

function freeName(type, instances) {
  const taken = new Set(instances.map((each) => each.name));
  if (!taken.has(type)) return type;
  for (let number = 2; ; number++) {
    if (!taken.has(`${type}-${number}`)) return `${type}-${number}`;
  }
}
