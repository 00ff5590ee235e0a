// One run of an assistant: what the user said, what its tools did, and what it said.

import { announce } from "./announce.js";
import { callView, fileImage, functionsForm, merged } from "./calls.js";
import { inShort } from "./details.js";
import { h, iconButton, plain, replace, shown } from "./dom.js";
import { cited, footnotes, passagesOf, saving } from "./footnotes.js";
import { copied } from "./markdown.js";
import { pages } from "./pages.js";
import { Writing } from "./writing.js";

export const ACTIVE = ["queued", "in_progress", "cancelling"];
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/;
const CONTENT = "step_details.tool_calls[*].file_search.results[*].content";

export const textIn = (block) => block.text?.value ?? block.text ?? "";

/**
 * said   content of the user's message, as the API has it; null if there is none
 * run    as the API has it; null until it has begun
 */
export class Run {
  constructor(thread, said, run = null) {
    Object.assign(this, { thread, run, calls: new Map(), parts: new Map() });
    this.texts = new Map(); // what it says, by the block that says it
    this.rendering = new Map();
    this.list = h("div", { class: "parts" });
    this.after = h("div", { class: "after" });
    this.foot = h("div", { class: "foot" });
    this.element = h(
      "article",
      { class: "turn", tabindex: "-1" },
      said ? h("div", { class: "said" }, h("h2", { class: "hidden" }, "You"), h("div", { class: "bubble" }, ...said.map(saidBlock))) : null,
      h("div", { class: "reply" }, h("h2", { class: "hidden" }, "Answer"), this.list, this.after, this.foot),
    );
  }

  get path() {
    const { thread_id: thread, id } = this.run;
    return `v1/threads/${encodeURIComponent(thread)}/runs/${encodeURIComponent(id)}`;
  }

  begin() {
    replace(this.after);
    replace(this.foot, h("p", { class: "working" }, h("span", { class: "dots", "aria-hidden": "true" }), "Working"));
    this.element.classList.add("running");
  }

  // --- while it runs

  /** An event of its stream. */
  hear(name, data) {
    if (name === "thread.message.delta") this.hearText(data);
    else if (/^thread\.message\.(completed|incomplete)$/.test(name)) this.say(data);
    else if (name === "thread.run.step.delta") this.hearCalls(data);
    else if (name.startsWith("thread.run.step.")) this.step(data);
    else if (name.startsWith("thread.run.")) this.run = data;
    else if (name === "error") this.problem = data;
  }

  hearText({ id, delta }) {
    for (const block of delta.content ?? []) {
      if (block.type === "text" && block.text.value) this.writing(`${id}/${block.index}`).add({ text: block.text.value });
    }
  }

  hearCalls({ id, delta }) {
    const known = this.calls.get(id) ?? [];
    for (const { index, ...told } of delta.step_details?.tool_calls ?? []) known[index] = merged(known[index], told);
    this.showCalls(id, known);
  }

  // --- what it has come to

  /** All that is known of it; `messages` are those of it, if they are known. */
  async load(messages = null) {
    const [steps, said] = await Promise.all([
      pages(`${this.path}/steps`, `&include[]=${encodeURIComponent(CONTENT)}`),
      messages ?? this.messages(),
    ]);
    const passages = passagesOf(steps);
    for (const step of steps) {
      const id = step.step_details.message_creation?.message_id;
      const message = said.find((each) => each.id === id);
      if (message) this.say(message, passages);
      else this.step(step);
    }
    this.settle();
  }

  messages() {
    const { thread_id: thread, id } = this.run;
    return pages(`v1/threads/${encodeURIComponent(thread)}/messages`, `&run_id=${encodeURIComponent(id)}`);
  }

  say(message, passages = []) {
    message.content.forEach((block, index) => {
      const id = `${message.id}/${index}`;
      if (block.type === "text") this.sayText(id, block.text, passages);
      else if (block.type === "image_file") this.part(id, () => fileImage(block.image_file.file_id, "Picture of the answer"));
    });
  }

  sayText(id, text, passages) {
    const writing = this.writing(id);
    const behind = this.part(`${id}/notes`, () => h("div", { class: "after" }));
    const found = cited(text, passages);
    this.texts.set(id, found.plain);
    const before = this.rendering.get(id); // it may be told again, with its passages
    const whole = before ? before.then(() => writing.end(found.text)) : writing.end(found.text);
    const rendered = whole.then(() =>
      replace(
        behind,
        found.notes.length ? footnotes(writing.rendered, found.notes) : null,
        found.files.length ? h("div", { class: "buttons start" }, ...found.files.map(saving)) : null,
      ),
    );
    this.rendering.set(id, rendered);
  }

  step(step) {
    const told = step.step_details?.tool_calls;
    if (told?.length) this.showCalls(step.id, told);
  }

  showCalls(id, calls) {
    this.calls.set(id, calls);
    const place = this.part(id, () => h("div", { class: "after" }));
    const open = [...place.children].map((each) => each.open ?? each.querySelector("details")?.open);
    replace(place, ...calls.filter(Boolean).map(callView));
    [...place.querySelectorAll("details.call")].forEach((each, number) => (each.open = Boolean(open[number])));
  }

  writing(id) {
    this.part(id, () => {
      const writing = new Writing();
      return Object.assign(writing.element, { writing });
    });
    return this.parts.get(id).writing;
  }

  /** An element of the answer: what comes first stands first. */
  part(id, make) {
    if (!this.parts.has(id)) {
      this.parts.set(id, make());
      this.list.append(this.parts.get(id));
    }
    return this.parts.get(id);
  }

  // --- how it ended

  settle() {
    this.element.classList.remove("running");
    for (const each of this.parts.values()) if (each.writing && !each.writing.isWhole) each.writing.end();
    const { status, last_error: error, incomplete_details: why } = this.run;
    const told = { cancelled: "Stopped.", expired: "The run timed out." }[status];
    const cut = status === "incomplete" ? `It ends here: ${why?.reason ?? "incomplete"}.` : null;
    replace(
      this.after,
      status === "failed" ? errorCard(error ?? {}) : null,
      told || cut ? h("p", { class: "help" }, ...shown(told || cut)) : null,
    );
    this.footer();
  }

  footer() {
    const text = [...this.texts.values()].join("\n\n");
    const { prompt_tokens: input, completion_tokens: output } = this.run.usage ?? {};
    replace(
      this.foot,
      text ? h("div", { class: "actions" }, iconButton("copy", "Copy the answer", () => copied(text))) : null,
      h("span", { class: "help" }, inShort({ usage: { input_tokens: input, output_tokens: output } })),
    );
  }

  /** Say it to those who hear the page. */
  announce() {
    if (this.run.status === "completed") announce(`Answer: ${plain([...this.texts.values()].join("\n"))}`);
    else if (this.run.status === "cancelled") announce("Stopped.");
    else announce(`It ended: ${this.run.status}. ${plain(this.run.last_error?.message ?? "")}`);
  }

  /** It could not be asked for, or not be heard any more. */
  failed(error) {
    this.element.classList.remove("running");
    for (const each of this.parts.values()) each.writing?.end();
    replace(this.after, errorCard(error));
    replace(this.foot);
    announce(`It failed: ${plain(error.message)}`);
  }

  /** It waits for functions. */
  asks(send, cancel) {
    this.element.classList.remove("running");
    const calls = this.run.required_action?.submit_tool_outputs?.tool_calls ?? [];
    replace(this.after, functionsForm(calls, send, cancel));
    replace(this.foot);
    announce(`Function calls are waiting: ${calls.map((each) => plain(each.function?.name)).join(", ")}`);
  }
}

function errorCard({ message, hint, code }) {
  return h(
    "div",
    { class: "card error" },
    h("p", { class: "card-title" }, ...shown(message || "It failed.")),
    hint ? h("p", {}, ...shown(hint)) : null,
    code ? h("p", { class: "help" }, ...shown(code)) : null,
  );
}

function saidBlock(block) {
  if (block.type === "text") return h("div", { class: "plain" }, ...shown(textIn(block)));
  if (block.type === "image_file") return fileImage(block.image_file.file_id, "Picture that you sent");
  const url = block.image_url?.url ?? "";
  if (PICTURE.test(url)) return h("img", { src: url, alt: "Picture that you sent" });
  return h("p", { class: "help" }, ...shown(`picture ${url.slice(0, 200)}`));
}
