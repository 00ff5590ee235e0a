// A thread with an assistant, as it is open on the page.

import { about, nameOf } from "./about.js";
import { announce } from "./announce.js";
import { call, events } from "./api.js";
import { Composer } from "./composer.js";
import { confirm } from "./dialogs.js";
import { button, h, iconButton, plain, replace } from "./dom.js";
import { followEnd, takeDrops, toEnd } from "./following.js";
import { pages } from "./pages.js";
import { problemCard } from "./problem.js";
import { forget, remember } from "./remembered.js";
import { ACTIVE, Run, textIn } from "./run.js";

const PAUSE = 1000; // ms between questions how a run is that is not heard
const SHOWN = 20; // runs that are shown at once

/**
 * app        as `Talk` has it
 * assistant  its id
 * id         of the thread; null until something was said
 */
export class Thread {
  constructor(app, assistant, id = null) {
    Object.assign(this, { app, assistant, id, live: null, wantsStop: false, earlier: [] });
    this.title = h("h1", {}, "Assistant");
    this.bin = iconButton("bin", "Delete the thread", () => this.remove(), { hidden: !id });
    this.about = h("div", {});
    this.list = h("div", { class: "turns" });
    this.transcript = h(
      "div",
      { class: "transcript", tabindex: "0", role: "region", "aria-label": "Transcript" },
      h("div", { class: "turns about" }, this.about),
      this.list,
    );
    this.composer = new Composer({ send: (message) => this.send(message), stop: () => this.stop(), giveUp: () => {} });
    this.element = h(
      "div",
      { class: "view talk" },
      h(
        "header",
        { class: "head" },
        iconButton("menu", "Open the list of conversations", () => app.openMenu(), { class: "icon-button menu" }),
        this.title,
        iconButton("plus", "New thread", () => app.newThread(assistant)),
        this.bin,
      ),
      this.transcript,
      this.composer.element,
    );
    followEnd(this);
    takeDrops(this);
  }

  get isBusy() {
    return this.live !== null && this.live.run?.status !== "requires_action";
  }

  get path() {
    return `v1/threads/${encodeURIComponent(this.id)}`;
  }

  toEnd() {
    toEnd(this);
  }

  // --- what was said before

  async load() {
    try {
      const found = await call("GET", `v1/assistants/${encodeURIComponent(this.assistant)}`);
      this.title.textContent = plain(nameOf(found));
      if (this.app.current === this) document.title = `${this.title.textContent} - genai-host`;
      replace(this.about, about(found));
      if (this.id) await this.loadRuns();
    } catch (error) {
      const isGone = error.status === 404;
      this.composer.element.hidden = isGone;
      replace(this.list, problemCard(error, isGone ? null : () => this.load()));
    }
  }

  async loadRuns() {
    replace(this.list, h("p", { class: "loading" }, "Loading …"));
    const [messages, runs] = await Promise.all([pages(`${this.path}/messages`), pages(`${this.path}/runs`)]).catch((error) => {
      if (error.status === 404) forget(this.id);
      throw error;
    });
    this.earlier = inRuns(messages, runs);
    replace(this.list);
    const last = await this.showEarlier();
    this.toEnd();
    if (last?.run && (ACTIVE.includes(last.run.status) || last.run.status === "requires_action")) {
      await this.drive(last);
    }
  }

  /** Show the last of those that are not shown; the last of all. */
  async showEarlier() {
    this.more?.remove();
    const made = this.earlier.splice(-SHOWN).map(({ said, run, messages }) => ({ turn: new Run(this, said, run), messages }));
    this.list.prepend(...made.map(({ turn }) => turn.element));
    if (this.earlier.length) {
      this.more = button("Show earlier messages", () => this.showEarlier(), { class: "text-button" });
      this.list.prepend(this.more);
    }
    await Promise.all(
      made.map(({ turn, messages }) => {
        if (turn.run) return turn.load(messages).catch((error) => turn.failed(error));
        return messages.forEach((each) => turn.say(each)); // a program has put them there
      }),
    );
    return made.at(-1)?.turn;
  }

  // --- saying something

  async send(message) {
    if (this.live) return;
    const content = contentOf(message);
    const turn = new Run(this, content);
    this.live = turn;
    this.list.querySelector(".card.error[role=alert]")?.remove();
    this.list.append(turn.element);
    this.toEnd();
    this.composer.clear();
    turn.begin();
    await this.drive(turn, async () => {
      if (!this.id) await this.begin(content);
      const said = { role: "user", content };
      return events(`${this.path}/runs`, { assistant_id: this.assistant, additional_messages: [said], stream: true });
    });
    if (turn.run) return;
    const pictures = typeof message === "string" ? [] : message.filter((each) => each.type === "image");
    this.composer.put(typeof message === "string" ? message : content.map(textIn).join(""), pictures);
  }

  async begin(content) {
    this.id = (await call("POST", "v1/threads", {})).id;
    const title = content.map(textIn).join(" ").trim().split("\n")[0].slice(0, 80);
    remember(this.assistant, this.id, title);
    this.bin.hidden = false;
    this.app.beganThread(this);
  }

  /** Have a run go on until it ends, or waits for functions; `listen` gives its events. */
  async drive(turn, listen = null) {
    this.live = turn;
    this.composer.busy(true);
    if (turn.run?.status !== "requires_action" || listen) turn.begin();
    try {
      if (listen) await this.hear(turn, await listen());
      await this.follow(turn);
      await turn.load();
    } catch (error) {
      turn.failed(error);
    }
    if (turn.run?.status === "requires_action") {
      turn.asks((outputs) => this.submit(turn, outputs), () => this.stop());
      return;
    }
    if (turn.run && !ACTIVE.includes(turn.run.status)) turn.announce();
    this.live = null;
    this.wantsStop = false;
    this.composer.busy(false);
  }

  async hear(turn, stream) {
    try {
      for await (const [name, data] of stream) {
        turn.hear(name, data);
        if (turn.run && this.wantsStop) this.stop();
      }
    } catch (error) {
      if (!turn.run || error.status) throw error;
      // the connection has ended, and the run goes on
    }
    if (!turn.run) throw turn.problem ?? new Error("The connection closed before the run started.");
  }

  /** A run that is not heard is asked after. */
  async follow(turn) {
    while (ACTIVE.includes(turn.run.status)) {
      await new Promise((done) => setTimeout(done, PAUSE));
      turn.run = await call("GET", turn.path);
    }
  }

  submit(turn, outputs) {
    return this.drive(turn, () =>
      events(`${turn.path}/submit_tool_outputs`, { tool_outputs: outputs, stream: true }),
    );
  }

  async stop() {
    const turn = this.live;
    this.wantsStop = Boolean(turn && !turn.run);
    if (!turn?.run) return;
    const isHeard = turn.run.status !== "requires_action"; // then it tells its end itself
    try {
      const run = await call("POST", `${turn.path}/cancel`);
      if (!isHeard) turn.run = run;
    } catch (error) {
      if (error.status !== 400) announce(error.message, true); // 400: it has ended
    }
    if (!isHeard) await this.drive(turn);
  }

  async remove() {
    const text = "Its messages are deleted permanently.";
    if (!(await confirm("Delete the thread?", text, "Delete", { class: "button danger" }))) return;
    try {
      if (this.live?.run) await this.stop();
      await call("DELETE", this.path);
      forget(this.id);
      this.app.removedThread(this);
      announce("Deleted.", true);
    } catch (error) {
      announce(error.message, true);
    }
  }
}

/** What was said, with the run that it led to: `{said, run, messages}` of each. */
function inRuns(messages, runs) {
  const left = new Map(runs.map((each) => [each.id, each]));
  const found = [];
  const add = (said, run = null) => found[found.push({ said, run, messages: [] }) - 1];
  for (const message of messages) {
    if (message.role === "user") {
      add(message.content);
      continue;
    }
    const last = found.at(-1) ?? add(null);
    const own = !last.run || last.run.id === message.run_id ? last : add(null);
    own.run ??= left.get(message.run_id) ?? null;
    left.delete(message.run_id);
    own.messages.push(message);
  }
  const silent = found.filter((each) => !each.run);
  for (const run of left.values()) (silent.shift() ?? add(null)).run = run; // those that said nothing
  return found;
}

/** What the composer gives, as the API takes it. */
function contentOf(message) {
  if (typeof message === "string") return [{ type: "text", text: message }];
  return message.map((part) =>
    part.type === "image"
      ? { type: "image_url", image_url: { url: `data:${part.media_type};base64,${part.data}` } }
      : { type: "text", text: part.text },
  );
}
