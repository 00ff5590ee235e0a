// The step that makes a provider ready, such as a download: a button, its progress, a way to stop.

import { announce } from "./announce.js";
import { events } from "./api.js";
import { button, h, plain, replace, shown } from "./dom.js";
import { problemLines } from "./problem.js";

/** `ready()` is called once it is done; null where an instance has no such step. */
export function preparation(instance, ready) {
  if (!instance.preparation) return null;
  const element = h("div", { class: "preparation" });
  const offer = (...problem) => replace(element, button(plain(instance.preparation), () => run(), { class: "button primary" }), ...problem);
  const run = async () => {
    const bar = h("progress", { "aria-label": plain(instance.preparation) });
    const text = h("p", { class: "help" }, "Starting …");
    const stop = new AbortController();
    replace(element, text, bar, h("div", { class: "buttons start" }, button("Stop", () => stop.abort())));
    element.querySelector("button").focus();
    try {
      const path = `api/v1/providers/${encodeURIComponent(instance.name)}/prepare`;
      let isDone = false;
      for await (const [name, data] of events(path, {}, stop.signal)) {
        if (name === "progress") show(bar, text, data);
        else if (name === "error") throw data;
        else if (name === "done") isDone = true;
      }
      if (!isDone) throw { message: "The connection closed before the preparation was complete." };
      announce(`${plain(instance.name)} is ready.`, true);
      ready();
    } catch (error) {
      if (error.name === "AbortError") return offer();
      offer(h("div", { role: "alert" }, ...problemLines(error)));
    }
  };
  offer();
  return element;
}

function show(bar, text, { text: what, done, total }) {
  const known = done !== null && total;
  if (known) {
    bar.max = total;
    bar.value = done;
  } else {
    bar.removeAttribute("value");
  }
  const size = known ? `: ${megabytes(done)} of ${megabytes(total)} MB` : total ? `: ${megabytes(total)} MB` : "";
  replace(text, ...shown(what + size));
}

const megabytes = (bytes) => Math.round(bytes / 1e6);
