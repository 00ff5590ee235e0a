// Cards of what the configuration names: providers and models, each with a form of its settings.

import { announce } from "./announce.js";
import { confirm } from "./dialogs.js";
import { button, field, h, shown } from "./dom.js";
import { status } from "./plugins.js";
import { attempt } from "./problem.js";

export const problemPlace = () => h("div", { role: "alert" });

/** One that there is. `state` is shown beside its name, `about` below it, `further` buttons
 * beside that which saves. */
export function settingsCard(name, { state, about, form, save, further, problem, isOpen }) {
  return h(
    "article",
    { class: "card" },
    h("div", { class: "card-head" }, h("h2", {}, ...shown(name)), status(state)),
    ...about,
    h(
      "details",
      { open: isOpen },
      h("summary", {}, "Settings", h("span", { class: "hidden" }, " of ", ...shown(name))),
      h(
        "form",
        { on: { submit: submitted(problem, save) } },
        form.element,
        h("div", { class: "buttons start" }, h("button", { type: "submit", class: "button primary" }, "Save"), ...further),
      ),
    ),
    problem,
  );
}

/** A new one, of which `create` is asked with its name. */
export function addingCard(title, { pattern, help = "", before = [], fields, create, problem }) {
  const name = h("input", { type: "text", required: true, pattern, autocomplete: "off" });
  const element = h(
    "details",
    { class: "card adding" },
    h("summary", {}, title),
    h(
      "form",
      { on: { submit: submitted(problem, () => create(name.value)) } },
      ...before,
      field("Name", name, help),
      fields,
      h("div", { class: "buttons start" }, h("button", { type: "submit", class: "button primary" }, "Add")),
      problem,
    ),
  );
  return { element, name };
}

/** A button that removes one once the user has confirmed it. */
export function removal(title, text, problem, remove) {
  const ask = async () => {
    if (!(await confirm(title, text, "Remove", { class: "button danger" }))) return;
    await attempt(problem, async () => {
      await remove();
      announce("Removed.", true);
    });
  };
  return button("Remove", ask, { class: "button danger" });
}

const submitted = (problem, what) => (event) => {
  event.preventDefault();
  return attempt(problem, what);
};
