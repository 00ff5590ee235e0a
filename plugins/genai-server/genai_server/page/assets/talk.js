// One conversation, as it is open on the page.

import { announce } from "./announce.js";
import { call, events } from "./api.js";
import { Chooser, choose } from "./chooser.js";
import { Composer } from "./composer.js";
import { h, icon, iconButton, plain, replace, shown } from "./dom.js";
import { saveExport } from "./exporting.js";
import { followEnd, takeDrops, toEnd } from "./following.js";
import { problemCard } from "./problem.js";
import { Turn, partsOf, textOf } from "./turn.js";
import { decidedBefore, question } from "./paused.js";

const PAGE = 40; // turns that are loaded at once
const AGAIN = 2000; // ms between two looks at a turn that is answered elsewhere

/**
 * app    has `changed(talk)`, for when there is news for the list, `openMenu()`, and the
 *        `current` one
 * id     null until something was said
 */
export class Talk {
  constructor(app, id = null) {
    Object.assign(this, { app, id, turns: [], row: null, more: false, live: null });
    this.title = h("h1", {}, id ? "…" : "New conversation");
    this.settings = h(
      "button",
      { type: "button", class: "chip", hidden: !id, on: { click: () => this.change() } },
      icon("sliders"),
    );
    this.saveButton = iconButton("save", "Export the conversation", () => saveExport(this), { hidden: !id });
    this.list = h("div", { class: "turns" });
    this.transcript = h(
      "div",
      { class: "transcript", tabindex: "0", role: "region", "aria-label": "Transcript" },
      this.list,
    );
    this.composer = new Composer({
      send: (message) => this.send(message),
      stop: () => this.stop(),
      giveUp: () => this.endEdit(),
    });
    this.element = h(
      "div",
      { class: "view talk" },
      h(
        "header",
        { class: "head" },
        iconButton("menu", "Open the list of conversations", () => app.openMenu(), { class: "icon-button menu" }),
        this.title,
        this.settings,
        this.saveButton,
      ),
      this.transcript,
      this.composer.element,
    );
    followEnd(this);
    takeDrops(this);
    if (!id) this.offerChoice();
  }

  get path() {
    return `api/v1/conversations/${encodeURIComponent(this.id)}`;
  }

  get isBusy() {
    return this.live !== null;
  }

  offerChoice() {
    this.chooser = new Chooser({});
    const greeting = h("p", { class: "greeting" }, "What would you like to talk about?");
    this.welcome = h("div", { class: "welcome" }, greeting, this.chooser.element);
    this.list.append(this.welcome);
    this.isAtEnd = false; // it is read from its beginning
    this.chooser.load();
  }

  // --- what was said before

  async load() {
    replace(this.list, h("p", { class: "loading" }, "Loading …"));
    try {
      const row = await this.page();
      this.show(row);
    } catch (error) {
      this.title.textContent = "Conversation";
      replace(this.list, problemCard(error, () => this.load()));
    }
  }

  show(row) {
    this.turns = [];
    replace(this.list);
    this.put(row.turns, false, row.status === "running");
    this.update(row);
    this.toEnd();
    if (this.turns.at(-1)?.status === "running") setTimeout(() => this.lookAgain(), AGAIN);
  }

  /** What is answered elsewhere is shown once it is answered. */
  async lookAgain() {
    if (this.isBusy || this.app.talks.get(this.id) !== this) return;
    const row = await this.page().catch(() => null);
    if (!row || this.isBusy) return;
    if (row.status === "running") setTimeout(() => this.lookAgain(), AGAIN);
    else this.show(row);
  }

  page(before = null) {
    const from = before === null ? "" : `&before=${before}`;
    return call("GET", `${this.path}?limit=${PAGE}${from}`);
  }

  update(row) {
    this.row = row;
    this.title.textContent = plain(row.title) || "Conversation";
    if (this.app.current === this) document.title = `${this.title.textContent} - genai-host`;
    replace(this.settings, icon("sliders"), h("span", {}, ...shown(modelOf(row))));
    this.settings.title = "Model, provider and parameters";
    this.settings.setAttribute("aria-label", `Model, provider and parameters: ${plain(modelOf(row))}`);
    this.settings.hidden = this.saveButton.hidden = false;
    this.more = row.more;
    this.mark();
    const last = this.turns.at(-1);
    if (row.pause && last && !this.isBusy) this.askUser(last, row.pause);
    this.watchStart();
  }

  /** Put turns before all others, or after. */
  put(rows, isBefore, isRunning = false) {
    const kept = rows.filter((row, number) => !isLeftOut(row, rows[number + 1] ?? null));
    const turns = kept.map((row) => Turn.of(this, row, isRunning && row === rows.at(-1)));
    if (isBefore) {
      this.turns.unshift(...turns);
      this.list.prepend(...turns.map((each) => each.element));
    } else {
      this.turns.push(...turns);
      this.list.append(...turns.map((each) => each.element));
    }
  }

  /** Load what was said before, when the user comes near. */
  watchStart() {
    this.start?.disconnect();
    this.sentinel?.remove();
    if (!this.more) return;
    this.sentinel = h("p", { class: "loading" }, "Earlier messages …");
    this.list.prepend(this.sentinel);
    this.start = new IntersectionObserver(
      (seen) => seen.some((each) => each.isIntersecting) && this.earlier(),
      { root: this.transcript, rootMargin: "600px 0px" },
    );
    this.start.observe(this.sentinel);
  }

  /** All who ask meanwhile wait for the same turns. */
  earlier() {
    this.loading ??= this.loadEarlier().finally(() => (this.loading = null));
    return this.loading;
  }

  async loadEarlier() {
    if (!this.more) return;
    try {
      const oldest = this.turns[0];
      const row = await this.page(oldest.number);
      this.more = row.more;
      const [height, top] = [this.transcript.scrollHeight, this.transcript.scrollTop];
      this.sentinel?.remove();
      this.put(row.turns, true);
      this.transcript.scrollTop = top + this.transcript.scrollHeight - height;
      this.watchStart();
    } catch (error) {
      replace(this.sentinel, problemCard(error, () => this.watchStart()));
      this.start?.disconnect();
    }
  }

  /** Go to a turn, as that which a search found. */
  async showTurn(number) {
    for (let first = null; this.more && this.turns[0] !== first; ) {
      first = this.turns[0];
      if (first.number > number) await this.earlier();
    }
    const found = this.turns.find((each) => each.number === number);
    if (!found) return;
    this.isAtEnd = false;
    found.element.scrollIntoView({ block: "start" });
    found.element.focus({ preventScroll: true });
  }

  async detailsOf(number) {
    const from = `?details=true&limit=1&before=${number + 1}`;
    const row = await call("GET", `${this.path}${from}`);
    const found = row.turns.find((each) => each.turn === number);
    return { ...found?.answer, details: found?.answer?.details ?? [] };
  }

  // --- what is said now

  say(text) {
    if (this.isBusy) return;
    this.endEdit();
    this.send(text);
  }

  async send(message) {
    const edited = this.edited;
    const hasPictures = typeof message !== "string";
    if (edited) {
      this.endEdit();
      await this.instead(edited, hasPictures ? { role: "user", content: message } : message);
      return;
    }
    this.composer.clear();
    const turn = new Turn(this, hasPictures ? { role: "user", content: message } : message);
    this.add(turn);
    if (!this.id && !(await this.open(turn, message))) return;
    await this.run(turn, "turns", { message });
  }

  add(turn) {
    this.welcome?.remove();
    this.list.append(turn.element);
    this.turns.push(turn);
    this.mark();
    turn.begin();
    this.toEnd();
  }

  /** Begin the conversation itself; whether to go on. */
  async open(turn, message) {
    const stop = new AbortController();
    this.live = { turn, stop };
    this.composer.busy(true);
    try {
      const row = await call("POST", "api/v1/conversations", this.chooser.choice());
      this.id = row.id;
      // as the server will name it, once there is a turn
      const title = row.title || textOf(turn.message).trim().split("\n")[0].slice(0, 80);
      this.update({ ...row, title, more: false, pause: null });
      this.app.began(this);
      if (stop.signal.aborted) turn.stopped(); // it has not been said yet
      return !stop.signal.aborted;
    } catch (error) {
      turn.element.remove();
      this.turns.pop();
      this.list.append(this.welcome);
      this.welcome.querySelector(".error")?.remove();
      this.welcome.append(problemCard(error));
      this.chooser.offerSteps();
      const parts = partsOf(typeof message === "string" ? message : { content: message });
      this.composer.put(textOf({ content: parts }), parts.filter((each) => each.type === "image"));
      return false;
    } finally {
      this.live = null;
      this.composer.busy(false);
    }
  }

  /** Have a turn answered: `what` is `turns` or `resume`. */
  async run(turn, what, body) {
    const stop = new AbortController();
    this.live = { turn, stop };
    this.composer.busy(true);
    turn.begin();
    let pause = null;
    try {
      const path = `${this.path}/${what}`;
      await this.ending;
      for await (const [name, data] of events(path, { ...body, stream: true }, stop.signal)) {
        if (name === "paused") pause = data;
        turn.hear(name, data);
      }
      if (turn.status === "running") {
        turn.failed({ code: "incomplete", message: "The connection closed before the answer was complete." });
      }
    } catch (error) {
      if (error.name === "AbortError") turn.stopped();
      else turn.failed(error);
    } finally {
      this.live = null;
      this.composer.busy(false);
      this.mark();
      this.app.changed(this);
    }
    if (pause) this.askUser(turn, pause);
    return turn.status;
  }

  askUser(turn, pause) {
    const answer = (result) => this.run(turn, "resume", { result });
    const decided = decidedBefore(this.id, pause);
    if (decided) {
      answer(decided);
      return;
    }
    turn.waits(question(this.id, pause, answer, () => this.drop(turn)));
    this.app.changed(this);
  }

  async drop(turn) {
    try {
      await call("POST", `${this.path}/abandon`);
      turn.stopped();
      this.mark();
    } catch (error) {
      announce(error.message, true);
    }
  }

  stop() {
    if (!this.live) return;
    const { stop } = this.live;
    if (this.id) {
      this.ending = call("POST", `${this.path}/cancel`).catch(() => {});
    }
    stop.abort();
  }

  /** Ask the same again. */
  async again(turn) {
    if (this.isBusy) return;
    this.endEdit();
    await this.instead(turn, turn.message);
  }

  /** Say something in place of the last turn, which stays if that fails. */
  async instead(old, message) {
    const wasAnswered = old.status === "answered";
    if (["interrupted", "paused"].includes(old.status)) {
      await call("POST", `${this.path}/abandon`).catch(() => {});
    }
    old.element.remove();
    this.turns.splice(this.turns.indexOf(old), 1);
    const turn = new Turn(this, message);
    this.add(turn);
    const given = typeof message === "string" ? message : { role: "user", content: partsOf(message) };
    await this.run(turn, "turns", wasAnswered ? { message: given, regenerate: true } : { message: given });
    if (wasAnswered && ["failed", "stopped"].includes(turn.status)) {
      turn.element.before(old.element);
      this.turns.splice(this.turns.indexOf(turn), 0, old);
      this.mark();
    }
  }

  edit(turn) {
    if (this.isBusy) return;
    this.edited = turn;
    const pictures = partsOf(turn.message).filter((part) => part.type === "image" && part.data);
    this.composer.put(textOf(turn.message), pictures.map((each) => ({ ...each })), true);
    this.composer.focus();
  }

  endEdit() {
    if (!this.edited) return;
    this.edited = null;
    this.composer.clear();
    this.composer.focus();
  }

  /** Only the last turn can be edited, or asked again. */
  mark() {
    const last = this.turns.at(-1);
    for (const each of this.turns) each.element.classList.toggle("last", each === last);
  }

  // --- settings

  async change() {
    try {
      const now = await call("GET", `${this.path}?limit=1`);
      this.row = { ...this.row, ...now };
    } catch (error) {
      announce(error.message, true);
      return;
    }
    const row = await choose(this);
    if (row) this.update({ ...this.row, ...row, more: this.more, pause: null });
  }

  toEnd() {
    toEnd(this);
  }
}

/** What was taken back, and what failed and was then said again. */
function isLeftOut(row, next) {
  if (row.status === "undone" || row.status === "replaced") return true;
  const isDone = row.status === "answered" || row.status === "paused" || !next;
  return !isDone && JSON.stringify(row.message) === JSON.stringify(next.message);
}

export const modelOf = (row) => {
  const main = row.models?.main ?? "";
  return [row.feature, main].filter(Boolean).join(" · ") || "model";
};
