// A conversation as a file.

import { announce } from "./announce.js";
import { bytes } from "./api.js";
import { ask } from "./dialogs.js";
import { button, h } from "./dom.js";

export async function saveExport(talk) {
  const format = await ask("Export the conversation", (close) => [
    h("p", {}, "Markdown is for reading; JSON is complete."),
    h(
      "div",
      { class: "buttons" },
      button("Cancel", () => close(null)),
      button("JSON", () => close("json")),
      button("Markdown", () => close("markdown"), { class: "button primary", autofocus: true }),
    ),
  ]);
  if (!format) return;
  const query = format === "markdown" ? "?format=markdown" : "";
  try {
    const blob = await bytes(`api/v1/conversations/${encodeURIComponent(talk.id)}/export${query}`);
    const address = URL.createObjectURL(blob);
    const suffix = format === "markdown" ? "md" : "json";
    h("a", { href: address, download: `conversation-${talk.id}.${suffix}` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  } catch (error) {
    announce(error.message, true);
  }
}
