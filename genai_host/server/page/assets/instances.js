// Instances of providers: what they are set to. Secrets are written, and never read.

import { announce } from "./announce.js";
import { call } from "./api.js";
import { confirm } from "./dialogs.js";
import { button, h, newId, plain, replace, shown } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { status, view } from "./plugins.js";
import { preparation } from "./preparing.js";
import { problemCard } from "./problem.js";

export function instancesView(app) {
  const add = h("div", {});
  const list = h("div", { class: "cards" }, h("p", { class: "loading" }, "Loading …"));
  new Instances(list, add).load();
  return view(app, "Providers", "Services that models run at. Each has a name, and settings of its own.", add, list);
}

class Instances {
  constructor(list, add) {
    Object.assign(this, { list, add, types: [] });
  }

  async load(opened = "") {
    try {
      const [types, instances] = await Promise.all([
        call("GET", "api/v1/providers"),
        call("GET", "api/v1/instances"),
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
    const form = new SchemaForm(optional(this.typeOf(instance.type)?.settings), instance.settings);
    const problem = h("div", { role: "alert" });
    const save = async (event) => {
      event.preventDefault();
      await this.attempt(problem, async () => {
        const { set, cleared } = form.values();
        const settings = { ...set, ...Object.fromEntries(cleared.map((each) => [each, null])) };
        if (!Object.keys(settings).length) return announce("Nothing was changed.", true);
        const row = await this.patch(instance, { settings });
        announce(`${name} is saved${unless(row)}.`, true);
      });
    };
    const enable = () =>
      this.attempt(problem, async () => {
        await this.patch(instance, { enabled: !instance.enabled });
        announce(`${name} is ${instance.enabled ? "off" : "on"}.`, true);
      });
    return h(
      "article",
      { class: "card" },
      h("div", { class: "card-head" }, h("h2", {}, ...shown(instance.name)), status(instance.enabled ? instance.status : "disabled")),
      h("p", { class: "help" }, ...shown([instance.type, this.typeOf(instance.type)?.help].filter(Boolean).join(": "))),
      instance.reason ? h("p", {}, ...shown(instance.reason)) : null,
      instance.enabled ? preparation(instance, () => this.load()) : null,
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
            button(instance.enabled ? "Switch off" : "Switch on", enable),
            button("Remove", () => this.remove(instance, problem), { class: "button danger" }),
          ),
        ),
      ),
      problem,
    );
  }

  async patch(instance, changes) {
    const row = await call("PATCH", `api/v1/instances/${encodeURIComponent(instance.name)}`, changes);
    await this.load(instance.name);
    return row;
  }

  async remove(instance, problem) {
    const text = ["“", ...shown(instance.name), "” and its settings are removed from the configuration."];
    if (!(await confirm("Remove the provider?", text, "Remove", { class: "button danger" }))) return;
    await this.attempt(problem, async () => {
      await call("DELETE", `api/v1/instances/${encodeURIComponent(instance.name)}`);
      await this.load();
      announce("Removed.", true);
    });
  }

  // --- a new one

  adding(instances) {
    const problem = h("div", { role: "alert" });
    const fields = h("div", {});
    const ids = { type: newId("type"), name: newId("name") };
    const name = h("input", { id: ids.name, type: "text", required: true, pattern: "[a-z0-9\\-]+", autocomplete: "off", "aria-describedby": `${ids.name}-help` });
    let form = null;
    const type = h(
      "select",
      { id: ids.type, on: { change: () => choose() } },
      ...this.types.map((each) => h("option", { value: each.name }, plain(each.name))),
    );
    const choose = () => {
      const found = this.typeOf(type.value);
      form = new SchemaForm(found?.settings);
      name.value = freeName(type.value, instances);
      replace(fields, found?.help ? h("p", { class: "help" }, ...shown(found.help)) : null, form.element);
    };
    const create = async (event) => {
      event.preventDefault();
      await this.attempt(problem, async () => {
        const { set } = form.values();
        const row = await call("POST", "api/v1/instances", { name: name.value, type: type.value, settings: set });
        announce(`${plain(name.value)} is added${unless(row)}.`, true);
        await this.load(name.value);
      });
    };
    choose();
    return h(
      "details",
      { class: "card adding" },
      h("summary", {}, "Add a provider"),
      h(
        "form",
        { on: { submit: create } },
        h("div", { class: "field" }, h("label", { for: ids.type }, "Type"), type),
        h(
          "div",
          { class: "field" },
          h("label", { for: ids.name }, "Name"),
          name,
          h("p", { class: "help", id: `${ids.name}-help` }, "lower case letters, digits and hyphens"),
        ),
        fields,
        h("div", { class: "buttons start" }, h("button", { type: "submit", class: "button primary" }, "Add")),
        problem,
      ),
    );
  }

  async attempt(problem, what) {
    replace(problem);
    try {
      await what();
    } catch (error) {
      replace(problem, h("p", { class: "bad" }, ...shown(error.message)), error.hint ? h("p", {}, ...shown(error.hint)) : null);
    }
  }
}

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
