// What went wrong, and what to do about it.

import { button, h, replace, shown } from "./dom.js";

export function problemCard(error, retry = null) {
  return h(
    "div",
    { class: "card error", role: "alert" },
    h("p", { class: "card-title" }, ...shown(error.message)),
    error.hint ? h("p", {}, ...shown(error.hint)) : null,
    retry ? h("div", { class: "buttons start" }, button("Try again", retry)) : null,
  );
}

export const problemLines = (error) => [
  h("p", { class: "bad" }, ...shown(error.message)),
  error.hint ? h("p", {}, ...shown(error.hint)) : null,
];

/** Run `what`; if it fails, say so in the place of `problem`. */
export async function attempt(problem, what) {
  replace(problem);
  try {
    await what();
  } catch (error) {
    replace(problem, ...problemLines(error));
  }
}
