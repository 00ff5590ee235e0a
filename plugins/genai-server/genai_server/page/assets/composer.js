// Where the user writes: text, and pictures from a file, the clipboard, or dropped.

import { announce } from "./announce.js";
import { button, h, iconButton, newId, replace } from "./dom.js";

const KINDS = /^image\/(png|jpeg|gif|webp)$/;
const MOST_BYTES = 15 * 2 ** 20; // of all pictures of a message, so that one fits
const MOST = 10;

/**
 * `send(message)` takes a text, or a list of parts; `stop()` ends the answer that is under way.
 */
export class Composer {
  constructor({ send, stop, giveUp }) {
    this.send = send;
    this.pictures = [];
    const id = newId("message");
    this.field = h("textarea", {
      id,
      rows: "1",
      placeholder: "Write a message",
      "aria-describedby": `${id}-keys`,
      on: { input: () => this.fit(), keydown: (event) => this.key(event) },
    });
    this.strip = h("ul", { class: "thumbs", hidden: true, "aria-label": "Pictures to send" });
    this.file = h("input", {
      type: "file",
      accept: "image/png,image/jpeg,image/gif,image/webp",
      multiple: true,
      hidden: true,
      on: { change: () => this.take(this.file.files).then(() => (this.file.value = "")) },
    });
    this.sendButton = iconButton("send", "Send", () => this.submit(), { class: "icon-button send" });
    this.stopButton = iconButton("stop", "Stop (Esc)", stop, { class: "icon-button send stop", hidden: true });
    this.editing = h(
      "div",
      { class: "editing", hidden: true },
      h("span", {}, "Editing the last message"),
      button("Cancel", giveUp, { class: "text-button" }),
    );
    this.element = h(
      "form",
      {
        class: "composer",
        "aria-label": "Message",
        on: {
          submit: (event) => {
            event.preventDefault();
            this.submit();
          },
          paste: (event) => this.paste(event),
        },
      },
      this.editing,
      this.strip,
      h("label", { for: id, class: "hidden" }, "Message"),
      h(
        "div",
        { class: "composer-row" },
        iconButton("clip", "Add pictures", () => this.file.click()),
        this.file,
        this.field,
        this.sendButton,
        this.stopButton,
      ),
      h("p", { class: "keys", id: `${id}-keys` }, "Enter sends, Shift + Enter starts a line"),
    );
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  submit() {
    const text = this.field.value.trim();
    if (this.isBusy || (!text && !this.pictures.length)) return;
    const parts = this.pictures.map(({ data, media_type }) => ({ type: "image", data, media_type }));
    if (text) parts.push({ type: "text", text });
    this.send(this.pictures.length ? parts : text);
  }

  /** While a turn runs there is something to stop, and nothing to send. */
  busy(isBusy) {
    this.isBusy = isBusy;
    const hadFocus = [this.sendButton, this.stopButton].includes(document.activeElement);
    this.sendButton.hidden = isBusy;
    this.stopButton.hidden = !isBusy;
    if (hadFocus) (isBusy ? this.stopButton : this.field).focus();
  }

  put(text, pictures = [], isEditing = false) {
    this.field.value = text;
    this.pictures = pictures;
    this.editing.hidden = !isEditing;
    this.showStrip();
    this.fit();
  }

  clear() {
    this.put("");
  }

  focus() {
    this.field.focus();
  }

  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, window.innerHeight * 0.4)}px`;
  }

  paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    this.take(files);
  }

  async take(files) {
    for (const file of files) {
      const problem = this.refusal(file);
      if (problem) {
        announce(problem, true);
        continue;
      }
      const data = await base64(file);
      this.pictures.push({ data, media_type: file.type, name: file.name, size: file.size });
    }
    this.showStrip();
    this.focus();
  }

  refusal(file) {
    if (!KINDS.test(file.type)) return `${file.name} is no PNG, JPEG, GIF or WebP picture.`;
    if (this.pictures.length >= MOST) return `A message takes ${MOST} pictures.`;
    const size = this.pictures.reduce((sum, each) => sum + (each.size ?? 0), file.size);
    return size > MOST_BYTES ? "The images are too large: the limit is 15 MiB." : null;
  }

  showStrip() {
    this.strip.hidden = !this.pictures.length;
    const each = (picture, number) => {
      const name = picture.name || `picture ${number + 1}`;
      const remove = () => {
        this.pictures.splice(number, 1);
        this.showStrip();
        this.focus();
      };
      return h(
        "li",
        {},
        h("img", { src: `data:${picture.media_type};base64,${picture.data}`, alt: name }),
        iconButton("close", `Remove ${name}`, remove),
      );
    };
    replace(this.strip, ...this.pictures.map(each));
  }
}

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}
