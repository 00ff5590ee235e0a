// A form for what a JSON Schema describes: an object whose fields are simple, mostly.

import { h, newId, plain } from "./dom.js";

/**
 * element   the controls
 * values()  {set: {name: value}, cleared: [name]}: what differs from what was given. Raises
 *           `Error` for invalid JSON
 */
export class SchemaForm {
  constructor(schema, given = {}) {
    this.schema = schema ?? {};
    this.given = given ?? {};
    this.fields = Object.entries(this.schema.properties ?? {}).map(([name, field]) =>
      new Field(name, this.resolved(field), this.given[name], this.isRequired(name)),
    );
    this.element = h("div", { class: "fields" }, ...this.fields.map((each) => each.element));
  }

  isRequired(name) {
    return (this.schema.required ?? []).includes(name);
  }

  /** With references followed, and without the choice of being null. */
  resolved(field) {
    let found = field;
    for (let steps = 0; found?.$ref && steps < 10; steps++) {
      const { $ref, ...rest } = found;
      found = { ...(this.schema.$defs?.[$ref.split("/").pop()] ?? {}), ...rest };
    }
    const choices = (found?.anyOf ?? found?.oneOf)?.filter((each) => each.type !== "null");
    if (choices?.length === 1) {
      const { anyOf, oneOf, ...rest } = found;
      return this.resolved({ ...choices[0], ...rest });
    }
    if (Array.isArray(found?.type)) {
      const kinds = found.type.filter((each) => each !== "null");
      return { ...found, type: kinds.length === 1 ? kinds[0] : undefined };
    }
    return found ?? {};
  }

  values() {
    const set = {};
    const cleared = [];
    for (const field of this.fields) {
      const value = field.value();
      const before = this.given[field.name];
      if (value === undefined) {
        if (before !== undefined && before !== null && !field.isSecret) cleared.push(field.name);
      } else if (JSON.stringify(value) !== JSON.stringify(before)) {
        set[field.name] = value;
      }
    }
    return { set, cleared };
  }
}

class Field {
  constructor(name, schema, given, isRequired) {
    this.name = name;
    this.schema = schema;
    this.isSecret = Boolean(schema.writeOnly || schema.format === "password" || schema.secret);
    this.kind = kindOf(schema, this.isSecret);
    const id = newId("field");
    const help = [schema.description, this.kind === "lines" ? "one on each line" : ""]
      .filter(Boolean)
      .join("; ");
    const helpId = `${id}-help`;
    const mark = given === undefined && isRequired ? " (needed)" : "";
    this.control = this.controlOf({
      id,
      name: plain(name),
      "aria-describedby": help ? helpId : null,
      required: isRequired && given === undefined && !this.isSecret && this.kind !== "choice",
    });
    this.put(given);
    this.element = h(
      "div",
      { class: `field ${this.kind}` },
      h("label", { for: id }, plain(schema.title ?? name).replaceAll("_", " ") + mark),
      this.control,
      help ? h("p", { id: helpId, class: "help" }, plain(help)) : null,
    );
  }

  controlOf(attributes) {
    const { schema } = this;
    const usual = schema.default;
    const placeholder =
      usual === undefined || usual === null || usual === "" ? null : plain(textOf(usual, this.kind));
    if (this.kind === "choice") {
      const values = schema.type === "boolean" ? [true, false] : schema.enum;
      this.choices = values.filter((each) => each !== null);
      const none = placeholder === null ? "not set" : `default: ${named(usual)}`;
      return h(
        "select",
        attributes,
        h("option", { value: "" }, none),
        ...this.choices.map((each, number) =>
          h("option", { value: String(number) }, plain(named(each))),
        ),
      );
    }
    if (this.kind === "secret") {
      return h("input", {
        ...attributes,
        type: "password",
        autocomplete: "new-password",
        placeholder: "kept as it is unless you type a new one",
      });
    }
    if (this.kind === "number") {
      return h("input", {
        ...attributes,
        type: "number",
        min: schema.minimum ?? null,
        max: schema.maximum ?? null,
        step: schema.type === "integer" ? "1" : "any",
        inputmode: schema.type === "integer" ? "numeric" : "decimal",
        placeholder,
      });
    }
    if (this.kind === "lines" || this.kind === "json" || this.kind === "long") {
      const rows = this.kind === "json" ? "4" : "3";
      return h("textarea", { ...attributes, rows, placeholder, spellcheck: "false" });
    }
    return h("input", {
      ...attributes,
      type: "text",
      minlength: schema.minLength ?? null,
      maxlength: schema.maxLength ?? null,
      placeholder,
      autocomplete: "off",
    });
  }

  put(given) {
    if (given === undefined || given === null || this.kind === "secret") return;
    if (this.kind === "choice") {
      const number = this.choices.findIndex((each) => each === given);
      this.control.value = number < 0 ? "" : String(number);
    } else {
      this.control.value = textOf(given, this.kind);
    }
  }

  /** undefined where nothing is set. */
  value() {
    const text = this.control.value;
    if (text === "") return undefined;
    if (this.kind === "choice") return this.choices[Number(text)];
    if (this.kind === "number") return Number(text);
    if (this.kind === "lines") return text.split("\n").filter((line) => line !== "");
    if (this.kind !== "json") return text;
    try {
      return JSON.parse(text);
    } catch (error) {
      if (!["object", "array"].includes(this.schema.type)) return text; // it may be one
      this.control.focus();
      throw new Error(`${this.name}: invalid JSON: ${error.message}`);
    }
  }
}

function kindOf(schema, isSecret) {
  if (isSecret) return "secret";
  if (schema.type === "boolean" || Array.isArray(schema.enum)) return "choice";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "array" && schema.items?.type === "string") return "lines";
  if (schema.type === "string") {
    return String(schema.default ?? "").length > 40 || /prompt/.test(schema.title ?? "")
      ? "long"
      : "text";
  }
  return "json";
}

const named = (value) =>
  value === true ? "yes" : value === false ? "no" : typeof value === "string" ? value : JSON.stringify(value);

function textOf(value, kind) {
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "json" && typeof value !== "string") return JSON.stringify(value, null, 2);
  return String(value);
}
