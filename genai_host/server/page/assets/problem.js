// What went wrong, and what to do about it.

import { button, h, shown } from "./dom.js";

export function problemCard(error, retry = null) {
  return h(
    "div",
    { class: "card error", role: "alert" },
    h("p", { class: "card-title" }, ...shown(error.message)),
    error.hint ? h("p", {}, ...shown(error.hint)) : null,
    retry ? h("div", { class: "buttons start" }, button("Try again", retry)) : null,
  );
}
