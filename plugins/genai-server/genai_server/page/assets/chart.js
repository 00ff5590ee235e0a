// Charts, drawn from data: bars, lying bars, lines, areas, a pie, or one number.

import { h, plain, svg } from "./dom.js";

export const KINDS = ["bar", "row", "line", "area", "pie", "scalar"];

const HEIGHT = 300;
const NARROW = "(max-width: 760px)";
const COLOURS = 6; // classes `series-0` to `series-5`
const MOST = { bar: 40, row: 40, pie: 8, line: 500, area: 500, scalar: 1 };

/** `data` has label, values, columns and rows, as the reaction `chart` does. */
export function chart(data, kind, title) {
  const points = pointsOf(data);
  const shown = points.rows.slice(0, MOST[kind]);
  if (!shown.length || !points.series.length) return h("p", { class: "help" }, "No data to draw.");
  const draw = { bar: bars, row: rows, line: lines, area: lines, pie, scalar }[kind];
  const wide = matchMedia(NARROW).matches ? 340 : 640; // so that letters stay as large as others
  const picture = draw({ ...points, rows: shown }, wide, kind);
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", told(title, kind, points, shown));
  const left = points.rows.length - shown.length;
  return h(
    "div",
    { class: "chart" },
    points.series.length > 1 && kind !== "pie" && kind !== "scalar" ? legend(points.series) : null,
    picture,
    left ? h("p", { class: "help" }, `${left} more are in the table.`) : null,
  );
}

function pointsOf({ label, values, columns, rows }) {
  const at = columns.indexOf(label);
  const series = values.filter((each) => columns.includes(each)).slice(0, COLOURS);
  const numbers = series.map((each) => rows.map((row) => numeric(row[columns.indexOf(each)])));
  return {
    series,
    write: series.map((each, which) => writerOf(each, numbers[which])),
    rows: rows.map((row, number) => ({
      label: at < 0 ? String(number + 1) : plain(row[at] ?? ""),
      values: numbers.map((each) => each[number]),
    })),
  };
}

function numeric(value) {
  const number = typeof value === "number" ? value : Number.parseFloat(value);
  return Number.isFinite(number) ? number : null;
}

function told(title, kind, points, shown) {
  const texts = (row) => row.values.map((value, which) => points.write[which](value));
  const few = shown.slice(0, 12).map((row) => `${row.label} ${texts(row).join(", ")}`);
  const more = shown.length > 12 ? "; and more, in the table" : "";
  return `${title ? `${plain(title)}: ` : ""}${kind} chart of ${points.series.map(plain).join(", ")}. ${few.join("; ")}${more}`;
}

/** How the numbers of a column are written: years and identifiers are no quantities. */
export function writerOf(name, values) {
  const words = String(name).replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ");
  const [from, to] = /\byear$/i.test(words) ? [0, 9999] : [1500, 2100];
  const isYear = (each) => each === null || (Number.isInteger(each) && each >= from && each <= to);
  const isPlain = values.every(isYear) || /\b(id|phone|zip|(post|postal|zip) ?code)$/i.test(words);
  return (value) => (value === null ? "–" : isPlain ? String(value) : short(value));
}

const short = (value) =>
  new Intl.NumberFormat(undefined, {
    notation: Math.abs(value) >= 100_000 ? "compact" : "standard",
    maximumFractionDigits: Math.abs(value) < 1 ? 4 : 2,
  }).format(value);

function legend(series) {
  const each = (name, number) =>
    h("li", {}, h("span", { class: `swatch series-${number}` }), plain(name));
  return h("ul", { class: "legend" }, ...series.map(each));
}

/** Round numbers that all values lie between, zero among them. */
function scaleOf(rows) {
  const values = rows.flatMap((row) => row.values.filter((each) => each !== null));
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const rough = (high - low || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  const from = Math.floor(low / step) * step;
  const to = Math.max(from + step, Math.ceil(high / step - 1e-9) * step);
  const ticks = [];
  for (let tick = from; tick <= to + step / 2; tick += step) {
    ticks.push(Number(tick.toPrecision(12)));
  }
  return { from, to, ticks };
}

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const gridLine = (tick, x1, y1, x2, y2) =>
  svg("line", { x1, y1, x2, y2, class: tick === 0 ? "axis" : "grid" });

const tickText = (x, y, place, text) => svg("text", { x, y, class: `tick ${place}` }, text);

const barsOf = ({ write, rows: shown }, place) =>
  shown.flatMap((row, number) =>
    row.values.map((value, which) => {
      if (value === null) return null;
      const title = svg("title", {}, `${row.label}: ${write[which](value)}`);
      return svg("rect", { ...place(value, number, which), rx: 2, class: `series-${which}` }, title);
    }),
  );

function frame(scale, bottom, wide, text) {
  const left = 14 + 7 * Math.max(...scale.ticks.map((tick) => text(tick).length));
  const top = 12;
  const y = (value) =>
    bottom - ((value - scale.from) / (scale.to - scale.from)) * (bottom - top);
  const grid = scale.ticks.flatMap((tick) => [
    gridLine(tick, left, y(tick), wide - 8, y(tick)),
    tickText(left - 8, y(tick) + 4, "end", text(tick)),
  ]);
  return { left, y, grid };
}

function labels(shown, x, y, room) {
  const every = Math.max(1, Math.ceil(46 / room));
  const most = Math.max(5, Math.floor((room * every) / 7.2));
  return shown.flatMap((row, number) =>
    number % every
      ? []
      : [tickText(x(number), y, "middle", clipped(row.label, most))],
  );
}

function bars(points, wide) {
  const { series, write, rows: shown } = points;
  const scale = scaleOf(shown);
  const bottom = HEIGHT - 30;
  const { left, y, grid } = frame(scale, bottom, wide, write[0]);
  const room = (wide - 8 - left) / shown.length;
  const thick = Math.min(56, (room * 0.7) / series.length);
  const at = (number) => left + room * (number + 0.5);
  const drawn = barsOf(points, (value, number, which) => ({
    x: at(number) + (which - series.length / 2) * thick,
    width: Math.max(1, thick - 2),
    y: Math.min(y(0), y(value)),
    height: Math.max(0.5, Math.abs(y(value) - y(0))),
  }));
  return canvas(wide, HEIGHT, grid, drawn, labels(shown, at, HEIGHT - 8, room));
}

function rows(points, wide) {
  const { series, write, rows: shown } = points;
  const scale = scaleOf(shown);
  const line = Math.max(22, 14 * series.length + 8);
  const height = line * shown.length + 30;
  const left = Math.min(wide * 0.35, 16 + 7 * Math.max(...shown.map((row) => Math.min(24, row.label.length))));
  const x = (value) =>
    left + ((value - scale.from) / (scale.to - scale.from)) * (wide - 24 - left);
  const grid = scale.ticks.flatMap((tick) => [
    gridLine(tick, x(tick), 4, x(tick), height - 24),
    tickText(x(tick), height - 8, "middle", write[0](tick)),
  ]);
  const thick = (line - 8) / series.length;
  const most = Math.floor((left - 12) / 7);
  const names = shown.map((row, number) =>
    tickText(left - 8, 6 + line * number + line / 2, "end", clipped(row.label, most)),
  );
  const drawn = barsOf(points, (value, number, which) => ({
    x: Math.min(x(0), x(value)),
    width: Math.max(0.5, Math.abs(x(value) - x(0))),
    y: 6 + line * number + which * thick,
    height: thick - 1,
  }));
  return canvas(wide, height, grid, names, drawn);
}

function lines({ series, write, rows: shown }, wide, kind) {
  const scale = scaleOf(shown);
  const bottom = HEIGHT - 30;
  const { left, y, grid } = frame(scale, bottom, wide, write[0]);
  const room = (wide - 24 - left) / Math.max(1, shown.length - 1);
  const at = (number) => left + 8 + room * number;
  const drawn = series.flatMap((_, which) => {
    const known = shown
      .map((row, number) => [at(number), row.values[which]])
      .filter(([, value]) => value !== null)
      .map(([x, value]) => [x, y(value)]);
    if (!known.length) return [];
    const path = `M${known.map(([x, height]) => `${x.toFixed(1)} ${height.toFixed(1)}`).join("L")}`;
    const closed = `${path}L${known.at(-1)[0]} ${y(0)}L${known[0][0]} ${y(0)}Z`;
    const dots = known.length <= 40 ? known : [];
    return svg(
      "g",
      { class: `series-${which}` },
      kind === "area" ? svg("path", { d: closed, class: "area" }) : null,
      svg("path", { d: path, class: "line" }),
      ...dots.map(([x, height]) => svg("circle", { cx: x, cy: height, r: 3 })),
    );
  });
  return canvas(wide, HEIGHT, grid, drawn, labels(shown, at, HEIGHT - 8, room));
}

function pie({ write, rows: shown }, wide) {
  const parts = shown.map((row) => Math.max(0, row.values[0] ?? 0));
  const whole = parts.reduce((sum, each) => sum + each, 0) || 1;
  const isNarrow = wide < 500;
  const radius = isNarrow ? 100 : 130;
  const [x, y] = [isNarrow ? wide / 2 : 150, isNarrow ? 112 : HEIGHT / 2];
  const [left, top] = isNarrow ? [24, 250] : [320, y - 14 * (parts.length - 1)];
  let angle = -Math.PI / 2;
  const point = (at) => `${(x + radius * Math.cos(at)).toFixed(2)} ${(y + radius * Math.sin(at)).toFixed(2)}`;
  const drawn = parts.flatMap((part, number) => {
    const share = part / whole;
    const from = angle;
    angle += share * 2 * Math.PI;
    const look = `series-${number % COLOURS} slice${number >= COLOURS ? " again" : ""}`;
    const slice =
      share > 0.9999
        ? svg("circle", { cx: x, cy: y, r: radius, class: look })
        : svg("path", {
            d: `M${x} ${y}L${point(from)}A${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} 1 ${point(angle)}Z`,
            class: look,
          });
    const line = top + number * 28;
    const text = `${clipped(shown[number].label, 22)}  ${write[0](parts[number])} (${Math.round(share * 100)} %)`;
    return [
      slice,
      svg("rect", { x: left, y: line - 7, width: 14, height: 14, rx: 2, class: look }),
      tickText(left + 24, line + 4, "", text),
    ];
  });
  return canvas(wide, isNarrow ? top + 28 * parts.length : HEIGHT, [], drawn);
}

function scalar({ series, write, rows: shown }, wide) {
  const value = write[0](shown[0].values[0]);
  return canvas(
    wide,
    110,
    [],
    [
      svg("text", { x: wide / 2, y: 62, class: "scalar middle" }, value),
      tickText(wide / 2, 92, "middle", plain(series[0])),
    ],
  );
}

const canvas = (wide, height, ...groups) =>
  svg("svg", { viewBox: `0 0 ${wide} ${height}`, class: "drawing" }, ...groups.flat());
