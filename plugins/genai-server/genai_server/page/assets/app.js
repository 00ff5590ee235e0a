// The page: what is shown, and how one gets from one part of it to another.
//
//     app → sidebar            the list of conversations
//         → talk → composer    one conversation; turn → writing, reactions, details, paused
//         → plugins, usage; instances, models → cards, preparing
//         → assistants → about, making; thread → run → calls, footnotes
//
// All of them ask the server by `api`, and make elements by `dom`.

import { call, decoded, listen, takeToken } from "./api.js";
import { assistantsView } from "./assistants.js";
import { prompt } from "./dialogs.js";
import { instancesView } from "./instances.js";
import { modelsView } from "./models.js";
import { pluginsView } from "./plugins.js";
import { Sidebar } from "./sidebar.js";
import { Talk } from "./talk.js";
import { startTheme } from "./theme.js";
import { Thread } from "./thread.js";
import { usageView } from "./usage.js";

const MOST_KEPT = 8; // conversations that are kept as they are shown

class App {
  constructor() {
    this.main = document.getElementById("main");
    this.menu = document.getElementById("sidebar");
    this.talks = new Map();
    this.current = null;
    this.sidebar = new Sidebar(this);
  }

  start() {
    takeToken();
    listen({ token: (wasWrong) => this.askToken(wasWrong), connection: (is) => this.connection(is) });
    startTheme(document.getElementById("theme"));
    this.narrow = matchMedia("(max-width: 760px)");
    this.narrow.addEventListener("change", () => this.closeMenu());
    document.getElementById("close-menu").addEventListener("click", () => this.closeMenu());
    document.getElementById("shade").addEventListener("click", () => this.closeMenu());
    document.getElementById("again").addEventListener("click", () => this.reconnect());
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault(); // what stands after the # is where one is
      this.main.focus();
    });
    document.getElementById("new").addEventListener("click", () => this.newTalk());
    window.addEventListener("hashchange", () => this.route());
    window.addEventListener("online", () => this.reconnect());
    window.addEventListener("offline", () => this.connection(false));
    document.addEventListener("keydown", (event) => this.key(event));
    this.closeMenu();
    this.sidebar.load();
    this.offerAssistants();
    this.route();
  }

  // --- what is shown

  route() {
    const [part, id, turn] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
    this.closeMenu();
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    this.markLinks(part);
    if (part === "c" && id) this.open(id, turn ? Number(turn) : null);
    else if (part === "plugins") this.show(pluginsView(this), null);
    else if (part === "providers") this.show(instancesView(this), null);
    else if (part === "models") this.show(modelsView(this), null);
    else if (part === "usage") this.show(usageView(this), null);
    else if (part === "assistants" && id) this.openThread(id, turn || null);
    else if (part === "assistants") this.show(assistantsView(this), null);
    else this.showTalk(new Talk(this));
  }

  markLinks(part) {
    for (const link of document.querySelectorAll(".places a")) {
      if (link.getAttribute("href") === `#/${part}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  async open(id, turn) {
    let talk = this.talks.get(id);
    if (!talk) {
      talk = new Talk(this, id);
      this.keep(talk);
      this.showTalk(talk);
      await talk.load();
    } else if (this.current !== talk) {
      this.showTalk(talk);
    }
    if (turn !== null) await talk.showTurn(turn);
  }

  async openThread(assistant, id) {
    const known = id && this.talks.get(id);
    const thread = known || new Thread(this, assistant, id);
    if (this.current === thread) return;
    this.showTalk(thread);
    if (!known) await thread.load();
    else document.title = `${thread.title.textContent} - genai-host`;
  }

  newThread(assistant) {
    history.pushState(null, "", `#/assistants/${encodeURIComponent(assistant)}`);
    this.route();
  }

  /** Those that are being answered go on, whichever is shown. */
  keep(talk) {
    this.talks.delete(talk.id);
    this.talks.set(talk.id, talk);
    for (const [id, each] of this.talks) {
      if (this.talks.size <= MOST_KEPT) break;
      if (!each.isBusy && each !== this.current) this.talks.delete(id);
    }
  }

  showTalk(talk) {
    const top = talk.transcript.scrollTop;
    this.show(talk.element, talk);
    if (talk.id) this.keep(talk);
    if (talk.isAtEnd) talk.toEnd();
    else talk.transcript.scrollTop = top;
    document.title = talk.id ? `${talk.title.textContent} - genai-host` : "genai-host";
    if (!this.narrow.matches) talk.composer.focus();
  }

  show(element, talk) {
    this.current = talk;
    this.main.replaceChildren(element);
    this.sidebar.mark(talk?.id ?? null);
  }

  newTalk() {
    if (location.hash !== "#/new") history.pushState(null, "", "#/new");
    this.route();
  }

  // --- what conversations tell

  began(talk) {
    this.keep(talk);
    if (this.current === talk) {
      history.replaceState(null, "", `#/c/${encodeURIComponent(talk.id)}`);
      this.sidebar.current = talk.id;
    }
    this.changed();
  }

  beganThread(thread) {
    this.keep(thread);
    if (this.current !== thread) return;
    const ids = [thread.assistant, thread.id].map(encodeURIComponent);
    history.replaceState(null, "", `#/assistants/${ids.join("/")}`);
  }

  removedThread(thread) {
    this.talks.delete(thread.id);
    if (this.current === thread) location.hash = "#/assistants";
  }

  changed(talk) {
    this.sidebar.load();
    if (talk && talk.turns.length === 1) this.nameOf(talk);
  }

  async nameOf(talk) {
    const row = await call("GET", `api/v1/conversations/${encodeURIComponent(talk.id)}?limit=1`).catch(() => null);
    if (row?.title) this.renamed(row);
  }

  renamed(row) {
    const talk = this.talks.get(row.id);
    if (!talk) return;
    talk.row = { ...talk.row, title: row.title };
    talk.title.textContent = row.title;
    if (this.current === talk) document.title = `${row.title} - genai-host`;
  }

  removed(id) {
    const talk = this.talks.get(id);
    talk?.live?.stop.abort();
    this.talks.delete(id);
    if (this.current && this.current === talk) this.newTalk();
  }

  // --- keys, and the drawer of a narrow page

  key(event) {
    if (event.altKey && event.code === "KeyN") {
      event.preventDefault();
      this.newTalk();
    } else if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (this.menu.classList.contains("open")) this.closeMenu(true);
      else if (this.current?.isBusy) this.current.stop();
      else if (this.current?.edited) this.current.endEdit();
    }
  }

  openMenu() {
    this.menu.classList.add("open");
    this.menu.inert = false;
    this.main.inert = true;
    document.getElementById("close-menu").focus();
  }

  closeMenu(back = false) {
    this.menu.classList.remove("open");
    this.menu.inert = this.narrow.matches;
    this.main.inert = false;
    if (back) this.main.querySelector(".menu")?.focus();
  }

  // --- the server

  askToken(wasWrong) {
    return prompt("This server requires a token", "Token", {
      type: "password",
      yes: "Continue",
      text: wasWrong
        ? "The token was not accepted. The server prints the right one when it starts."
        : "The server prints it when it starts. It is stored until this tab is closed.",
    });
  }

  connection(is) {
    document.getElementById("offline").hidden = is;
  }

  /** The place is there if the server has an API of assistants: not every one does. */
  async offerAssistants() {
    const link = document.querySelector('.places a[href="#/assistants"]');
    link.hidden = await call("GET", "v1/assistants?limit=1").then(() => false, () => true);
  }

  async reconnect() {
    try {
      await call("GET", "api/v1");
      this.offerAssistants();
      await this.sidebar.load();
    } catch {
      this.connection(false);
    }
  }
}

new App().start();
