// The list of conversations: the last that was gone on with first.

import { announce } from "./announce.js";
import { call } from "./api.js";
import { confirm, prompt } from "./dialogs.js";
import { button, h, iconButton, plain, replace, shown } from "./dom.js";

const PAGE = 30;
const PAUSE = 250; // ms after which what is typed is sought

/** `app` has `open(id, turn)`, `removed(id)` and `renamed(row)`. */
export class Sidebar {
  constructor(app) {
    this.app = app;
    this.rows = [];
    this.next = null;
    this.current = null;
    this.list = document.getElementById("conversations");
    this.search = document.getElementById("search");
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.load(), PAUSE);
    });
  }

  /** Show the list anew, or what is sought. */
  async load() {
    const words = this.search.value.trim();
    const asked = (this.asked = {});
    try {
      const query = words ? `search=${encodeURIComponent(words)}&limit=50` : `limit=${PAGE}`;
      const { data, next } = await call("GET", `api/v1/conversations?${query}`);
      if (asked !== this.asked) return;
      this.rows = words ? [] : data;
      this.next = words ? null : next;
      if (words) this.showFound(data);
      else this.show();
    } catch (error) {
      if (asked !== this.asked) return;
      replace(this.list, h("li", { class: "empty" }, ...shown(error.message), " ", button("Try again", () => this.load(), { class: "text-button" })));
    }
  }

  async loadMore() {
    const asked = this.asked;
    const { data, next } = await call("GET", `api/v1/conversations?limit=${PAGE}&after=${encodeURIComponent(this.next)}`);
    if (asked !== this.asked) return; // it is another list by now
    this.rows.push(...data);
    this.next = next;
    this.show();
  }

  show() {
    if (!this.rows.length) {
      replace(this.list, h("li", { class: "empty" }, "Your conversations appear here."));
      return;
    }
    const more = this.next
      ? h("li", {}, button("Show more", () => this.loadMore().catch((error) => announce(error.message, true)), { class: "text-button" }))
      : null;
    replace(this.list, ...this.rows.map((row) => this.item(row)), more);
  }

  showFound(found) {
    announce(found.length ? `${found.length} found` : "Nothing found");
    if (!found.length) {
      replace(this.list, h("li", { class: "empty" }, "Nothing found."));
      return;
    }
    const each = (hit) =>
      h(
        "li",
        { class: "found" },
        h(
          "a",
          { href: `#/c/${encodeURIComponent(hit.conversation)}/${hit.turn ?? ""}` },
          h("span", { class: "name" }, ...shown(titleOf(hit))),
          h("span", { class: "excerpt" }, ...shown(hit.text)),
        ),
      );
    replace(this.list, ...found.map(each));
  }

  item(row) {
    const isCurrent = row.id === this.current;
    const name = plain(titleOf(row));
    const status = { paused: "waits for you", running: "is being answered", failed: "failed" }[row.status];
    return h(
      "li",
      { class: isCurrent ? "current" : null },
      h(
        "a",
        { href: `#/c/${encodeURIComponent(row.id)}`, "aria-current": isCurrent ? "page" : null },
        h("span", { class: "name" }, name),
        status ? h("span", { class: `mark ${row.status}`, title: status }, h("span", { class: "hidden" }, status)) : null,
      ),
      iconButton("pencil", `Rename ${name}`, () => this.rename(row)),
      iconButton("bin", `Delete ${name}`, () => this.remove(row)),
    );
  }

  mark(id) {
    this.current = id;
    if (!this.search.value.trim() && this.rows.length) this.show();
  }

  async rename(row) {
    const title = await prompt("Rename the conversation", "Name", { value: titleOf(row) });
    if (title === null) return;
    try {
      const changed = await call("PATCH", `api/v1/conversations/${encodeURIComponent(row.id)}`, { title });
      this.app.renamed(changed);
      await this.load();
      announce("Renamed.");
    } catch (error) {
      announce(error.message, true);
    }
  }

  async remove(row) {
    const text = ["“", ...shown(titleOf(row)), "” and all that was said in it is removed for good."];
    if (!(await confirm("Delete the conversation?", text, "Delete", { class: "button danger" }))) return;
    try {
      await call("DELETE", `api/v1/conversations/${encodeURIComponent(row.id)}`);
      this.app.removed(row.id);
      await this.load();
      announce("Deleted.");
      this.search.focus();
    } catch (error) {
      announce(error.message, true);
    }
  }
}

const titleOf = (row) => row.title || "Without a name";
