// One turn: what the user said, and what came of it.

import { announce } from "./announce.js";
import { bytes } from "./api.js";
import { detailsOf, inShort } from "./details.js";
import { button, h, icon, iconButton, plain, replace, shown } from "./dom.js";
import { copied, link } from "./markdown.js";
import { reactions } from "./reactions.js";
import { Writing } from "./writing.js";

const PICTURES = /^image\/(png|jpeg|gif|webp)$/;

export const partsOf = (message) =>
  typeof message === "string"
    ? [{ type: "text", text: message }]
    : typeof message?.content === "string"
      ? [{ type: "text", text: message.content }]
      : (message?.content ?? []);

export const textOf = (message) =>
  partsOf(message)
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("");

/**
 * talk       whose turn it is: it has `id`, `say`, `again`, `edit`, `goOn` and `detailsOf`
 * message    as the API has it
 * number     of the turn; null until the server says it
 * status     running, answered, paused, failed, interrupted or stopped
 */
export class Turn {
  constructor(talk, message, number = null) {
    Object.assign(this, { talk, message, number, status: "running", answer: null });
    this.writing = new Writing();
    this.progress = h("ul", { class: "progress" });
    this.after = h("div", { class: "after" });
    this.foot = h("div", { class: "foot" });
    this.behind = h("div", { class: "behind", hidden: true });
    this.editButton = iconButton("pencil", "Edit the message and send it again", () => talk.edit(this));
    this.element = h(
      "article",
      { class: "turn", tabindex: "-1" },
      h(
        "div",
        { class: "said" },
        h("h2", { class: "hidden" }, "You"),
        h("div", { class: "bubble" }, ...partsOf(message).map(saidPart)),
        this.editButton,
      ),
      h(
        "div",
        { class: "reply" },
        h("h2", { class: "hidden" }, "Answer"),
        this.progress,
        this.writing.element,
        this.after,
        this.foot,
        this.behind,
      ),
    );
  }

  /** As the API lists it; `isRunning` is whether its conversation is being answered. */
  static of(talk, row, isRunning = false) {
    const turn = new Turn(talk, row.message, row.turn);
    if (row.partial) turn.writing.add({ text: row.partial });
    if (row.answer) turn.answered(row.answer, false);
    else if (row.error?.code === "cancelled") turn.stopped(false);
    else if (row.error) turn.failed(row.error);
    else if (row.status === "unfinished") turn.ended(isRunning ? "running" : "interrupted");
    else turn.ended(row.status);
    return turn;
  }

  begin() {
    if (this.element.classList.contains("running")) return; // it was, before it was sent
    this.status = "running";
    this.started = performance.now();
    replace(this.after);
    replace(this.foot, h("p", { class: "working" }, h("span", { class: "dots", "aria-hidden": "true" }), "Working"));
    this.element.classList.add("running");
  }

  /** An event of the stream. */
  hear(name, data) {
    if (name === "turn") this.number = data.turn;
    else if (name === "delta") this.write(data);
    else if (name === "retry") this.retry(data);
    else if (name === "reset") this.writing.clear();
    else if (name === "progress") this.tell(data.text);
    else if (name === "step") this.step(data);
    else if (name === "paused") this.status = "paused";
    else if (name === "answer") this.answered(this.timed(data), true);
    else if (name === "error") this.failed(data);
  }

  write(delta) {
    this.retryLine?.remove();
    this.writing.add(delta);
  }

  /** The service is called again in some seconds, which are counted down. */
  retry({ seconds, provider, reason }) {
    this.retryLine?.remove();
    const left = h("span", {});
    const line = (this.retryLine = h("li", {}, h("span", {}, ...shown(`${provider}: ${reason}. `), left)));
    const until = performance.now() + 1000 * seconds;
    const tick = () => {
      const rest = Math.ceil((until - performance.now()) / 1000);
      left.textContent = rest > 0 ? `Next attempt in ${rest} s. Press Esc to stop.` : "Trying again …";
      if (rest > 0 && line === this.retryLine && this.status === "running") setTimeout(tick, 1000);
    };
    tick();
    this.progress.append(line);
    announce(`${plain(provider)}: ${plain(reason)}. Next attempt in ${Math.ceil(seconds)} s.`);
  }

  timed(answer) {
    const took = (performance.now() - this.started) / 1000;
    return { ...answer, seconds: answer.seconds ?? took };
  }

  tell(text) {
    const lines = this.progress.children;
    if (lines.length > 20) lines[0].remove();
    this.progress.append(h("li", {}, ...shown(text)));
  }

  step(detail) {
    if (detail.kind !== "call_tool") return;
    this.progress.append(h("li", { class: detail.data?.failed ? "bad" : "good" }, icon("check"), h("span", {}, ...shown(detail.title))));
  }

  answered(answer, isNew) {
    this.settle("answered");
    this.answer = answer;
    replace(this.progress);
    this.writing.end(answer.text);
    const inTurn = { text: answer.text, say: (text) => this.talk.say(text) };
    replace(this.after, ...reactions(answer.reactions ?? [], inTurn), this.pictures(answer.images ?? []));
    this.footer(answer);
    if (isNew) announce(`Answer: ${plain(answer.text)}`);
  }

  footer(answer) {
    const text = inShort(answer);
    const toggle = h(
      "button",
      {
        type: "button",
        class: "text-button",
        "aria-expanded": "false",
        on: { click: () => this.toggleDetails() },
      },
      text || "Details",
      h("span", { class: "hidden" }, text ? ": details" : ""),
    );
    this.toggle = toggle;
    const actions = h(
      "div",
      { class: "actions" },
      iconButton("copy", "Copy the answer", () => copied(answer.text)),
      iconButton("retry", "Ask again", () => this.talk.again(this), { "data-last": "" }),
    );
    replace(this.foot, actions, toggle);
  }

  async toggleDetails() {
    const isShown = this.behind.hidden;
    this.behind.hidden = !isShown;
    this.toggle.setAttribute("aria-expanded", String(isShown));
    if (!isShown || this.behind.firstChild) return;
    if (!this.answer.details) {
      replace(this.behind, h("p", { class: "help" }, "Loading …"));
      try {
        this.answer = { ...this.answer, ...(await this.talk.detailsOf(this.number)) };
      } catch (error) {
        replace(this.behind, h("p", { class: "help" }, error.message));
        return;
      }
    }
    replace(this.behind, ...detailsOf(this.answer));
  }

  pictures(given) {
    if (!given.length) return null;
    const grid = h("div", { class: "pictures" });
    given.forEach(async (picture, number) => {
      const name = `Picture ${number + 1} of the answer`;
      if (picture?.url && /^https?:/.test(picture.url)) {
        grid.append(link(picture.url, shown(picture.url)));
        return;
      }
      try {
        const path = `api/v1/conversations/${encodeURIComponent(this.talk.id)}/images/${this.number}/${number}`;
        grid.append(pictureOf(await bytes(path), name));
      } catch {
        grid.append(h("p", { class: "help" }, `${name} cannot be shown.`));
      }
    });
    return grid;
  }

  failed(error) {
    this.settle("failed");
    this.problem = error;
    this.writing.end();
    replace(
      this.after,
      h(
        "div",
        { class: "card error" },
        h("p", { class: "card-title" }, ...shown(error.message || "It failed.")),
        error.hint ? h("p", {}, ...shown(error.hint)) : null,
        error.code ? h("p", { class: "help" }, ...shown(error.code)) : null,
      ),
    );
    replace(this.foot, this.retryButton());
    if (this.started) announce(`It failed: ${plain(error.message)}`);
  }

  stopped(isNew = true) {
    this.settle("stopped");
    this.writing.end();
    replace(this.after, h("p", { class: "help" }, "Stopped."));
    replace(this.foot, this.retryButton());
    if (isNew) announce("Stopped.");
  }

  /** Whatever has neither an answer nor an error. */
  ended(status) {
    this.settle(status);
    this.writing.end();
    const told = {
      interrupted: "This turn was interrupted before it was answered.",
      running: "This turn is in progress in another window or program.",
    }[status];
    replace(this.after, told ? h("p", { class: "help" }, told) : null);
    replace(this.foot, status === "interrupted" ? this.retryButton() : null);
  }

  retryButton() {
    return h(
      "div",
      { class: "actions" },
      button("Try again", () => this.talk.again(this), { "data-last": "" }),
    );
  }

  settle(status) {
    this.status = status;
    this.retryLine?.remove();
    this.element.classList.remove("running");
    replace(this.foot);
  }

  /** `node` is what the user is asked. */
  waits(node) {
    this.settle("paused");
    this.writing.end();
    replace(this.after, node);
  }

  get partial() {
    return this.writing.text;
  }
}

function saidPart(part) {
  if (part.type === "text") return h("div", { class: "plain" }, ...shown(part.text));
  if (part.type === "image" && part.data && PICTURES.test(part.media_type)) {
    return h("img", { src: `data:${part.media_type};base64,${part.data}`, alt: "Picture that you sent" });
  }
  const told = part.name || part.url || part.media_type || "";
  return h("p", { class: "help" }, ...shown(`${part.type} ${told}`));
}

function pictureOf(blob, name) {
  if (!PICTURES.test(blob.type)) return h("p", { class: "help" }, `${name} is of a kind that is not shown.`);
  const address = URL.createObjectURL(blob);
  const loaded = () => URL.revokeObjectURL(address);
  return h("img", { src: address, alt: name, on: { load: loaded, error: loaded } });
}
