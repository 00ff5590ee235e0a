// Questions to the user.

import { button, h, newId } from "./dom.js";

/** Show a dialog until it is closed; what it was closed with. `build(close)` gives what is
 * in it. The focus goes back to where it was. */
export function ask(title, build, attributes = {}) {
  const before = document.activeElement;
  const id = newId("title");
  const dialog = h("dialog", { "aria-labelledby": id, ...attributes });
  return new Promise((done) => {
    let given = null;
    const close = (value) => {
      given = value;
      dialog.close();
    };
    dialog.append(h("h2", { id }, title), ...[build(close)].flat());
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      done(given);
    });
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close(); // beside it
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const confirm = (title, text, yes, attributes = {}) =>
  ask(title, (close) => [
    h("p", {}, ...[text].flat()),
    h(
      "div",
      { class: "buttons" },
      button("Cancel", () => close(false), { autofocus: true }),
      button(yes, () => close(true), { class: "button primary", ...attributes }),
    ),
  ]);

/** One line of text; null if it is not given. */
export const prompt = (title, label, { value = "", type = "text", text = null, yes = "Save" } = {}) =>
  ask(title, (close) => {
    const id = newId("field");
    const field = h("input", {
      id,
      type,
      value,
      required: true,
      autofocus: true,
      autocomplete: "off",
      maxlength: "4000",
      on: { focus: () => field.select() },
    });
    const form = h(
      "form",
      {
        on: {
          submit: (event) => {
            event.preventDefault();
            close(field.value);
          },
        },
      },
      text ? h("p", {}, text) : null,
      h("label", { for: id }, label),
      field,
      h(
        "div",
        { class: "buttons" },
        button("Cancel", () => close(null)),
        h("button", { type: "submit", class: "button primary" }, yes),
      ),
    );
    return form;
  });
