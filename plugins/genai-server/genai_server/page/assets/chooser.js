// Which feature, which model at which provider, and with what parameters.

import { call } from "./api.js";
import { ask } from "./dialogs.js";
import { button, field, h, newId, plain, replace, shown } from "./dom.js";
import { SchemaForm } from "./forms.js";
import { preparation } from "./preparing.js";
import { attempt, problemLines } from "./problem.js";

const OTHER = "\u0000other";
const MOST_REASONS = 200;

/** `model@provider`, as conversations name their models. */
function split(name = "") {
  const at = name.lastIndexOf("@");
  return at > 0 ? [name.slice(0, at), name.slice(at + 1).split("+")[0]] : [name, ""];
}

/** `row` is a conversation; without an id, one that is still to begin. */
export class Chooser {
  constructor(row) {
    this.row = row;
    this.isNew = !row.id;
    [this.model, this.provider] = split(row.models?.main);
    this.feature = row.feature ?? "";
    this.routes = [];
    this.features = [];
    this.instances = [];
    this.listed = new Set(); // instances that were asked for their models
    this.modelSelect = this.select((value) => this.chooseModel(value));
    this.providerSelect = this.select((value) => this.chooseProvider(value));
    this.featureSelect = this.select((value) => this.chooseFeature(value), !this.isNew);
    this.other = h("input", {
      type: "text",
      hidden: true,
      "aria-label": "Name of the model",
      placeholder: "provider/model-id",
      on: { change: () => this.chooseModel(this.other.value.trim(), true) },
    });
    this.parameters = h("fieldset", {});
    this.settings = h("fieldset", {});
    this.problem = h("div", {});
    this.steps = h("div", { class: "steps" });
    this.notes = h("div", {});
    this.element = h(
      "div",
      { class: "chooser card" },
      h(
        "div",
        { class: "choices" },
        field("Feature", this.featureSelect),
        field("Model", this.modelSelect, null, this.other),
        field("Provider", this.providerSelect),
      ),
      this.problem,
      this.steps,
      this.notes,
      h(
        "details",
        {},
        h("summary", {}, "Parameters and settings"),
        this.parameters,
        this.settings,
      ),
      button("Unavailable models", () => explain(), { class: "text-button" }),
    );
  }

  select(chosen, disabled = false) {
    return h("select", { disabled, on: { change: (event) => chosen(event.target.value) } });
  }

  async load() {
    try {
      const [features, routes, instances] = await Promise.all([
        call("GET", "api/v1/features"),
        call("GET", "api/v1/routes?operation=chat&runs=true"),
        call("GET", "api/v1/providers"),
      ]);
      this.features = features.data;
      this.routes = routes.data;
      this.instances = instances.data;
      this.listed.clear();
      replace(this.notes);
      this.feature ||= this.features.find((each) => each.name === "chat")?.name ?? this.features[0]?.name ?? "";
      this.showChoices();
      this.chooseFeature(this.feature);
      this.listUndeclared();
      await this.showParameters();
    } catch (error) {
      replace(this.problem, ...problemLines(error));
    }
  }

  /** No model answers unless one is chosen, or made ready. */
  tellNone(reason) {
    const text = this.routes.length ? "No model is ready to answer by default. Choose one, or add a " : "No model can run yet. Add a ";
    replace(
      this.problem,
      h("p", {}, text, h("a", { href: "#/providers" }, "provider"), "."),
      reason ? h("p", { class: "help" }, ...shown(reason)) : null,
    );
    this.offerSteps();
  }

  /** The steps that make providers ready, where nothing can answer without them. */
  offerSteps() {
    replace(this.steps, ...this.instances.map((each) => preparation(each, () => this.load())));
  }

  /** Services whose models no plugin declares are asked for theirs. Of those that the user has
   * set up, it is said why they do not work. */
  listUndeclared() {
    const known = new Set(this.routes.map((each) => each.provider));
    for (const each of this.instances) {
      const isOwn = each.name !== each.type || Object.keys(each.settings).length > 0;
      if (each.status === "works" && !known.has(each.name)) this.listModels(each.name);
      else if (["needs", "unreachable"].includes(each.status) && isOwn) this.note(`${each.name} cannot answer: ${each.reason}`);
    }
  }

  note(text) {
    this.notes.append(h("p", { class: "help" }, ...shown(text)));
  }

  async listModels(provider) {
    if (!provider || this.listed.has(provider)) return;
    this.listed.add(provider);
    try {
      const { data } = await call("GET", `api/v1/providers/${encodeURIComponent(provider)}/models`);
      const found = data.filter((each) => !each.for.length || each.for.includes("chat"));
      const known = new Set(this.routes.filter((each) => each.provider === provider).map((each) => each.id));
      this.routes.push(...found.filter((each) => !known.has(each.id)).map(({ name, id }) => ({ model: name, provider, id })));
      this.showChoices();
    } catch (error) {
      this.note(`The models of ${provider} cannot be listed: ${error.message}`);
    }
  }

  /** Only pairs that run: each choice narrows the other. */
  showChoices() {
    const models = unique(this.routes.filter((each) => !this.provider || each.provider === this.provider).map((each) => each.model));
    const open = this.model ? [] : this.instances.filter((each) => each.status === "works" && each.default_models?.chat).map((each) => each.name);
    const able = this.routes.filter((each) => !this.model || each.model === this.model).map((each) => each.provider);
    const providers = unique([...able, ...open]);
    const isOther = this.isOther || (this.model !== "" && !models.includes(this.model));
    options(this.modelSelect, [["", "the usual one"], ...models.map((each) => [each, each]), [OTHER, "another name …"]], isOther ? OTHER : this.model);
    this.other.hidden = !isOther;
    if (isOther) this.other.value = this.model;
    if (this.provider && !providers.includes(this.provider)) providers.push(this.provider);
    options(this.providerSelect, [["", "whichever runs it"], ...providers.map((each) => [each, each])], this.provider);
    options(
      this.featureSelect,
      this.features.map((each) => [each.name, each.runs === false ? `${each.name} (cannot run)` : each.name]),
      this.feature,
    );
  }

  chooseModel(value, isOther = value === OTHER) {
    this.isOther = isOther;
    this.model = value === OTHER ? "" : value;
    if (isOther) this.provider = "";
    this.showChoices();
    if (value === OTHER) this.other.focus();
    this.showParameters();
  }

  chooseProvider(value) {
    this.provider = value;
    this.showChoices();
    this.listModels(value);
    this.showParameters();
  }

  chooseFeature(name) {
    this.feature = name;
    const found = this.features.find((each) => each.name === name);
    const help = found?.help ? h("p", { class: "help" }, ...shown(found.help)) : null;
    this.settingsForm = new SchemaForm(found?.settings, this.row.settings);
    const some = this.settingsForm.fields.length;
    this.settings.hidden = !some;
    replace(
      this.settings,
      h("legend", {}, "Settings of ", ...shown(name)),
      help,
      some ? this.settingsForm.element : null,
    );
    replace(this.problem);
    replace(this.steps);
    if (found?.runs === false || !this.routes.length) this.tellNone(found?.reason);
  }

  /** Of the model that is taken. Which one it is where nothing is chosen, the host knows. */
  async showParameters() {
    const model = this.model || this.usual();
    const asked = (this.asked = {});
    this.parametersForm = null;
    if (!model) {
      replace(this.parameters, h("p", { class: "help" }, "Choose a model to set its parameters."));
      return;
    }
    const provider = this.provider ? `&provider=${encodeURIComponent(this.provider)}` : "";
    let found;
    try {
      const path = `api/v1/routes?runs=true&model=${encodeURIComponent(model)}${provider}`;
      found = (await call("GET", path)).data[0]?.parameters ?? {};
    } catch {
      found = {};
    }
    if (asked !== this.asked) return; // something else was chosen meanwhile
    const schema = found.properties ? found : { properties: found };
    this.parametersForm = new SchemaForm(schema, this.row.parameters);
    replace(
      this.parameters,
      h("legend", {}, "Parameters of ", ...shown(model)),
      this.parametersForm.element,
    );
  }

  usual() {
    const able = this.routes.filter((each) => !this.provider || each.provider === this.provider);
    const models = unique(able.map((each) => each.model));
    return models.length === 1 ? models[0] : "";
  }

  /** What `POST /conversations` takes. */
  choice() {
    const { feature, model, provider } = this;
    const parameters = this.parametersForm?.values().set;
    const settings = this.settingsForm?.values().set;
    const all = Object.entries({ feature, model, provider, parameters, settings });
    return Object.fromEntries(all.filter(([, each]) => each && Object.keys(each).length));
  }

  /** What `PATCH /conversations/{id}` takes: what differs. */
  changes() {
    const [model, provider] = split(this.row.models?.main);
    const parameters = this.parametersForm?.values() ?? { set: {}, cleared: [] };
    const settings = this.settingsForm?.values() ?? { set: {}, cleared: [] };
    const cleared = (form) => Object.fromEntries(form.cleared.map((name) => [name, null]));
    const given = {};
    if (this.model !== model || this.provider !== provider) {
      if (this.model) given.model = this.model;
      if (this.provider) given.provider = this.provider;
    }
    const changed = { ...parameters.set, ...cleared(parameters) };
    const set = { ...settings.set };
    for (const name of settings.cleared) {
      set[name] = this.settingsForm.schema.properties[name].default ?? null;
    }
    if (Object.keys(changed).length) given.parameters = changed;
    if (Object.keys(set).length) given.settings = set;
    return given;
  }
}

const unique = (names) => [...new Set(names)];

function options(select, pairs, chosen) {
  const each = ([value, text]) =>
    h("option", { value, selected: value === chosen }, plain(text));
  select.replaceChildren(...pairs.map(each));
  select.value = chosen;
}

/** Change those of a conversation; it as it is then, or null. */
export function choose(talk) {
  const chooser = new Chooser(talk.row);
  chooser.load();
  return ask(
    "Model and parameters",
    (close) => {
      const problem = h("div", { role: "alert" });
      const save = () =>
        attempt(problem, async () => {
          const changes = chooser.changes();
          close(Object.keys(changes).length ? await call("PATCH", talk.path, changes) : null);
        });
      return [
        chooser.element,
        problem,
        h(
          "div",
          { class: "buttons" },
          button("Cancel", () => close(null)),
          button("Save", save, { class: "button primary" }),
        ),
      ];
    },
    { class: "wide" },
  );
}

/** Lists what cannot run, with the reasons. */
function explain() {
  return ask(
    "Unavailable models",
    (close) => {
      const list = h("div", { class: "reasons" }, h("p", {}, "Loading …"));
      const id = newId("filter");
      const filter = h("input", { type: "search", id, autofocus: true, autocomplete: "off" });
      call("GET", "api/v1/routes?operation=chat")
        .then(({ data }) => {
          const rows = data.filter((each) => !each.runs);
          const show = () => replace(list, ...reasons(rows, filter.value));
          filter.addEventListener("input", show);
          show();
        })
        .catch((error) => replace(list, ...problemLines(error)));
      return [
        h("label", { for: id }, "Model or provider"),
        filter,
        list,
        h("div", { class: "buttons" }, button("Close", () => close(null))),
      ];
    },
    { class: "wide" },
  );
}

function reasons(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => {
    const text = `${row.model} ${row.provider}`.toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
  const each = (row) =>
    h(
      "li",
      {},
      h("strong", {}, ...shown(row.model)),
      " at ",
      h("strong", {}, ...shown(row.provider)),
      h("ul", {}, ...(row.reasons ?? []).map((reason) => h("li", {}, ...shown(reason)))),
    );
  const left = found.length - MOST_REASONS;
  return [
    found.length ? h("ul", {}, ...found.slice(0, MOST_REASONS).map(each)) : h("p", {}, "Nothing found."),
    left > 0 ? h("p", { class: "help" }, `and ${left} more: say which`) : null,
  ];
}
