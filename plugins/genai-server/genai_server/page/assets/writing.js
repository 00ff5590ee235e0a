// An answer while it is written, and when it is whole.

import { h, shown } from "./dom.js";
import { show, showWhole } from "./markdown.js";

const LEAST = 300; // ms between two renderings of what is written so far
const SHARE = 8; // of the time, rendering takes at most one part in so many

export class Writing {
  constructor() {
    this.text = "";
    this.thought = "";
    this.rendered = h("div", { class: "markdown" });
    this.rest = h("div", { class: "plain rest" });
    this.thoughtText = h("div", { class: "plain" });
    this.thinking = h(
      "details",
      { class: "thinking", hidden: true },
      h("summary", {}, "Thinking"),
      this.thoughtText,
    );
    this.element = h("div", { class: "writing" }, this.thinking, this.rendered, this.rest);
    this.timer = null;
    this.isWhole = false;
  }

  add({ text, reasoning }) {
    this.isWhole = false;
    if (reasoning) {
      this.thought += reasoning;
      this.thinking.hidden = false;
      this.thoughtText.append(...shown(reasoning));
    }
    if (!text) return;
    this.text += text;
    this.rest.append(...shown(text));
    this.timer ??= setTimeout(() => this.render(), LEAST);
  }

  async render() {
    const text = this.text;
    const began = performance.now();
    await showWhole(this.rendered, text, () => !this.isWhole && this.text.startsWith(text));
    if (this.isWhole) return;
    if (this.text.startsWith(text)) {
      this.rest.replaceChildren(...shown(this.text.slice(text.length)));
    }
    const pause = Math.max(LEAST, SHARE * (performance.now() - began));
    this.timer = null;
    if (!this.isWhole && this.text.length > text.length) {
      this.timer = setTimeout(() => this.render(), pause);
    }
  }

  clear() {
    this.text = this.thought = "";
    this.thinking.hidden = true;
    for (const each of [this.rendered, this.rest, this.thoughtText]) each.replaceChildren();
  }

  /** Nothing more comes. `text` is what was meant, where it is known. */
  end(text = this.text) {
    clearTimeout(this.timer);
    this.timer = null;
    this.isWhole = true;
    const isKnown = this.rendered.firstChild !== null;
    this.text = text;
    this.rest.replaceChildren();
    return isKnown ? showWhole(this.rendered, text) : show(this.rendered, text);
  }
}
