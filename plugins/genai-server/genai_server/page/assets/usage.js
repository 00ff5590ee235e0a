// What calls of models came to, and what may be spent on them.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { field, h, plain, replace } from "./dom.js";
import { view } from "./plugins.js";
import { problemCard } from "./problem.js";
import { table } from "./reactions.js";

const GROUPS = { day: "day", model: "model", provider: "provider", feature: "feature", user: "user" };
const SPANS = { "7d": "the last week", "30d": "the last 30 days", "365d": "the last year", "": "all there is" };
const FIGURES = {
  calls: ["calls", (row) => row.calls],
  failed: ["failed", failed],
  tokens: ["tokens", (row) => row.input_tokens + row.output_tokens],
  cost: ["US dollars", (row) => row.cost.dollars],
  p50: ["median seconds", (row) => row.p50],
  p95: ["95 in 100 within seconds", (row) => row.p95],
};
const COLUMNS = ["calls", "failed", "input", "output", "US dollars", "mean s", "p50 s", "p95 s"];

export function usageView(app) {
  const usage = new Usage();
  usage.load();
  return view(app, "Usage", "Model calls of this server's store. Days are in UTC.", usage.element);
}

class Usage {
  constructor() {
    this.by = chooser("Group by", Object.keys(GROUPS), (name) => GROUPS[name], () => this.load());
    this.since = chooser("Of", Object.keys(SPANS), (name) => SPANS[name], () => this.load());
    this.figure = chooser("Draw", Object.keys(FIGURES), (name) => FIGURES[name][0], () => this.draw());
    this.rows = [];
    this.drawn = h("div", { "aria-live": "polite" }, h("p", { class: "loading" }, "Loading …"));
    this.budgets = h("div", {});
    const choosers = [this.by, this.since, this.figure].map((each) => each.element);
    this.element = h("div", {}, h("div", { class: "fields" }, ...choosers), this.drawn, this.budgets);
  }

  async load() {
    const by = this.by.select.value;
    const since = this.since.select.value;
    try {
      const { data } = await call("GET", `api/v1/usage?by=${by}&since=${since}`);
      if (by !== this.by.select.value || since !== this.since.select.value) return; // others were chosen meanwhile
      this.rows = data;
      this.draw();
      const found = await call("GET", "api/v1/budgets");
      replace(this.budgets, ...found.data.map(budgetLine));
    } catch (error) {
      replace(this.drawn, problemCard(error, () => this.load()));
    }
  }

  draw() {
    const by = this.by.select.value;
    const [title, value] = FIGURES[this.figure.select.value];
    if (!this.rows.length) {
      replace(this.drawn, h("p", { class: "help" }, "No calls."));
      return;
    }
    const points = this.rows.map((row) => [row.of[by] || "-", value(row)]);
    const data = { label: by, values: [title], columns: [by, title], rows: points };
    const all = this.rows.map((row) => [
      row.of[by] || "-",
      row.calls,
      failed(row),
      row.input_tokens,
      row.output_tokens,
      row.cost.dollars,
      ...[row.mean, row.p50, row.p95].map((seconds) => (seconds === null ? null : Number(seconds.toPrecision(3)))),
    ]);
    const columns = [by, ...COLUMNS];
    const kind = by === "day" ? "bar" : "row";
    replace(this.drawn, chart(data, kind, title), table(columns, columns, all, "Calls"));
  }
}

function failed(row) {
  return Object.values(row.failed).reduce((sum, each) => sum + each, 0);
}

/** A choice among some, with what each is called. */
function chooser(name, values, nameOf, changed) {
  const options = values.map((each) => h("option", { value: each }, nameOf(each)));
  const select = h("select", { on: { change: changed } }, ...options);
  return { select, element: field(name, select) };
}

function budgetLine(budget) {
  const unit = budget.unit === "dollars" ? "US dollars" : "tokens";
  const spent = Number(budget.spent.toPrecision(4));
  const text = `${plain(budget.name)}: ${spent} of ${budget.most} ${unit}; anew on ${budget.renews.slice(0, 10)}`;
  const most = budget.most || 1;
  const bar = h("progress", { max: most, value: Math.min(budget.spent, most), "aria-label": plain(budget.name) });
  return h("div", { class: "field" }, h("p", {}, text), bar);
}
