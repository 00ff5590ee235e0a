// Elements. There is no HTML in any of them that came as a text.

const SVG = "http://www.w3.org/2000/svg";

// What has no sign of its own, or turns the signs around it: shown by its number. Joiners
// of emoji and of Persian stay.
const ODD =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** An element: `h("a", {href, class: "x", on: {click}}, "text", node)`. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return element;
}

/** A text of somebody else's, with what would deceive the eye made visible. */
export function shown(text) {
  const given = String(text ?? "");
  const nodes = [];
  let end = 0;
  for (const found of given.matchAll(ODD)) {
    if (found.index > end) nodes.push(given.slice(end, found.index));
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    nodes.push(h("span", { class: "odd" }, `U+${code}`));
    end = found.index + found[0].length;
  }
  if (end < given.length) nodes.push(given.slice(end));
  return nodes;
}

/** The same as one text, for attributes and titles. */
export function plain(text) {
  return String(text ?? "").replace(
    ODD,
    (found) => `U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`,
  );
}

const ICONS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  pencil: "M4 20h4L19 9l-4-4L4 16zM13.5 6.5l4 4",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M16 16l4 4",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4L14 7.6",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  retry: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4.5h4.5",
  close: "M6 6l12 12M18 6L6 18",
  sliders: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  plug: "M9 3v5M15 3v5M7 8h10v4a5 5 0 0 1-10 0zM12 17v4",
  cloud: "M7 18a4 4 0 0 1-.5-8 6 6 0 0 1 11.4 1.2A3.5 3.5 0 0 1 17.500 18z",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  save: "M12 4v11M7 11l5 5 5-5M5 20h14",
  check: "M5 12.500l4.500 4.500L19 7.500",
};

export function icon(name) {
  return svg(
    "svg",
    { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" },
    svg("path", { d: ICONS[name] }),
  );
}

/** A button with a picture, that says what it does to those who do not see it. */
export function iconButton(name, label, click, attributes = {}) {
  const more = { type: "button", class: "icon-button", "aria-label": label, title: label };
  return h("button", { ...more, ...attributes, on: { click } }, icon(name));
}

export function button(label, click, attributes = {}) {
  return h("button", { type: "button", class: "button", ...attributes, on: { click } }, label);
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter((each) => each !== null && each !== undefined));
}

let count = 0;
export const newId = (what) => `${what}-${++count}`;

/** A control below its name; `help` below both. */
export function field(name, control, help = null, ...more) {
  const id = (control.id ||= newId("field"));
  if (help) control.setAttribute("aria-describedby", `${id}-help`);
  const told = help ? h("p", { class: "help", id: `${id}-help` }, help) : null;
  return h("div", { class: "field" }, h("label", { for: id }, name), control, ...more, told);
}
