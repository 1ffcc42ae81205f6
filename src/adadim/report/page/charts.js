// Statistics over trials, and one chart: series of points with bands, axes, a rule that follows pointer or keys.

// Half-widths of 95% intervals of a mean: Student's t for up to 10 degrees of freedom, then its expansion in 1/n.
const STUDENT = [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281];

function student(freedom) {
  if (freedom <= STUDENT.length) return STUDENT[freedom - 1];
  const z = 1.959964, n = freedom;
  return z + (z ** 3 + z) / (4 * n) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * n * n) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * n ** 3);
}

const BANDS = {
  interval: "95% interval of the mean (Student's t)",
  deviation: "one standard deviation of the trials",
  range: "from the 10% to the 90% quantile of the trials",
  none: "no band",
};

function quantile(sorted, share) {
  const at = share * (sorted.length - 1), low = Math.floor(at), high = Math.ceil(at);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - low);
}

function describe(values, band) {
  const n = values.length;
  let mean = 0;
  for (const v of values) mean += v / n;
  let squares = 0;
  for (const v of values) squares += (v - mean) ** 2;
  const deviation = n > 1 ? Math.sqrt(squares / (n - 1)) : NaN;
  let low = NaN, high = NaN;
  if (n > 1 && band === "range") {
    const sorted = Float64Array.from(values).sort();
    [low, high] = [quantile(sorted, 0.1), quantile(sorted, 0.9)];
  } else if (n > 1 && band !== "none") {
    const half = band === "deviation" ? deviation : (student(n - 1) * deviation) / Math.sqrt(n);
    [low, high] = [mean - half, mean + half];
  }
  return { mean, deviation, low, high, n };
}

// Policies by their regret after the last round, averaged over instances: of(p) describes it over trials, difference(a, b) that of b
// minus that of a, paired by trial. Only trials count that every policy has on every instance; null if there is none.
function compared(find, instances, policies, wanted) {
  const finals = new Map();
  for (const p of policies) {
    const cells = instances.map((i) => find(i, p)), byTrial = new Map();
    if (cells.some((cell) => !cell)) continue;
    for (const n of cells[0].numbers.filter(wanted)) {
      const values = cells.map((cell) => cell.values[(cell.numbers.indexOf(n) + 1) * cell.times.length - 1]);
      if (cells.every((cell) => cell.numbers.includes(n))) byTrial.set(n, values.reduce((a, b) => a + b, 0) / values.length);
    }
    finals.set(p, byTrial);
  }
  const all = [...finals.values()], trials = all.length ? [...all[0].keys()].filter((n) => all.every((byTrial) => byTrial.has(n))) : [];
  if (!trials.length) return null;
  const of = (p) => describe(trials.map((n) => finals.get(p).get(n)), "interval");
  return {
    n: trials.length, policies: [...finals.keys()], of,
    difference: (a, b) => describe(trials.map((n) => finals.get(b).get(n) - finals.get(a).get(n)), "interval"),
  };
}

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-12; k++) values.push(Number((k * step).toPrecision(12)));
  return values;
}

function logTicks(low, high) {
  const values = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const m of high / low < 200 ? [1, 2, 5] : [1]) if (m * 10 ** e >= low && m * 10 ** e <= high) values.push(m * 10 ** e);
  return values.length ? values : [low, high];
}

// Markers by matplotlib's letters, as in the figures; those of OPEN are lines.
const MARKS = {
  o: "M-3.4 0A3.4 3.4 0 1 0 3.4 0A3.4 3.4 0 1 0-3.4 0Z", s: "M-3-3H3V3H-3Z", D: "M0-4.2L4.2 0L0 4.2L-4.2 0Z", d: "M0-4.4L2.7 0L0 4.4L-2.7 0Z",
  "^": "M-3.6 3H3.6L0-3.6Z", v: "M-3.6-3H3.6L0 3.6Z", "<": "M3-3.6V3.6L-3.6 0Z", ">": "M-3-3.6V3.6L3.6 0Z",
  P: "M-1.2-3.6H1.2V-1.2H3.6V1.2H1.2V3.6H-1.2V1.2H-3.6V-1.2H-1.2Z",
  X: "M-3.6-2L-2-3.6L0-1.6L2-3.6L3.6-2L1.6 0L3.6 2L2 3.6L0 1.6L-2 3.6L-3.6 2L-1.6 0Z",
  "*": "M0-4.6L1.3-1.4L4.4-1.4L2 .7L2.9 4L0 2.1L-2.9 4L-2 .7L-4.4-1.4L-1.3-1.4Z",
  h: "M0-4L3.5-2V2L0 4L-3.5 2V-2Z", H: "M-4 0L-2-3.5H2L4 0L2 3.5H-2Z", p: "M0-4L3.8-1.2L2.4 3.2H-2.4L-3.8-1.2Z",
  8: "M-1.6-3.8H1.6L3.8-1.6V1.6L1.6 3.8H-1.6L-3.8 1.6V-1.6Z",
  x: "M-3-3L3 3M3-3L-3 3", "+": "M-3.8 0H3.8M0-3.8V3.8", 1: "M0 0V4M0 0L-3.5-2M0 0L3.5-2", 2: "M0 0V-4M0 0L-3.5 2M0 0L3.5 2",
  3: "M0 0H-4M0 0L2-3.5M0 0L2 3.5", 4: "M0 0H4M0 0L-2-3.5M0 0L-2 3.5",
};
const OPEN = "x+1234";

function mark(look, x, y, dark) {
  const colour = visible(look.colour, dark), open = OPEN.includes(look.marker);
  return shape("path", {
    d: MARKS[look.marker] || MARKS.o, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    fill: open ? "none" : look.hollow ? palette(dark).back : colour, stroke: colour, "stroke-width": open ? 1.6 : look.hollow ? 1.3 : 0,
  });
}

function sample(look, dark) {
  const image = shape("svg", { width: 34, height: 12, viewBox: "0 0 34 12", "aria-hidden": "true", class: "sample" });
  image.append(shape("path", { d: "M1 6H33", stroke: visible(look.colour, dark), "stroke-width": 2, "stroke-dasharray": look.dash.join(" ") }));
  image.append(mark(look, 17, 6, dark));
  return image;
}

const LEFT = 58, RIGHT = 18, TOP = 12, BOTTOM = 44;

// A chart of `plot`: {series: [{label, look, points: [{x, mean, low, high, n, note}], singles: [[x, y]...], marks}], across, up, log,
// whole: x runs over integers}. Returns {image, xs, height, nearest(px), clear(), rule(i)}.
function drawChart(plot, width, dark) {
  const height = Math.round(Math.min(430, Math.max(270, width * 0.56)));
  const colours = palette(dark);
  const image = shape("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12, xmlns: "http://www.w3.org/2000/svg",
  });
  const points = plot.series.flatMap((s) => s.points);
  const xs = [...new Set(points.map((p) => p.x))].sort((a, b) => a - b);
  const heights = points.flatMap((p) => [p.mean, p.high, plot.log ? p.low : p.mean]).filter((y) => Number.isFinite(y) && (!plot.log || y > 0));
  for (const s of plot.series) for (const line of s.singles || []) for (const [, y] of line) if (!plot.log || y > 0) heights.push(y);
  let low = plot.log ? Infinity : 0, high = plot.log ? 0 : 1e-12;
  for (const y of heights) { low = Math.min(low, y); high = Math.max(high, y); }
  if (!heights.length) [low, high] = plot.log ? [0.1, 1] : [0, 1];
  if (plot.log) { if (low >= high) low = high / 10; low /= 1.1; high *= 1.1; } else { high *= 1.05; if (low < 0) low *= 1.05; }
  let left = xs.length ? xs[0] : 0, right = xs.length ? xs[xs.length - 1] : 1;
  if (plot.whole) left = 0;
  if (left === right) { left -= 0.5; right += 0.5; }
  if (!plot.whole) { const pad = (right - left) * 0.04; left -= pad; right += pad; }
  const wide = width - LEFT - RIGHT, tall = height - TOP - BOTTOM;
  const X = (x) => LEFT + ((x - left) / (right - left)) * wide;
  const Y = plot.log
    ? (y) => TOP + tall * (1 - Math.log(Math.max(y, low) / low) / Math.log(high / low))
    : (y) => TOP + tall * (1 - (y - low) / (high - low));
  image.append(shape("rect", { width, height, fill: colours.back }));
  for (const t of plot.log ? logTicks(low, high) : ticks(low, high, tall / 55)) {
    image.append(shape("path", { d: `M${LEFT} ${Y(t).toFixed(1)}H${width - RIGHT}`, stroke: colours.grid }));
    image.append(shape("text", { x: LEFT - 7, y: (Y(t) + 4).toFixed(1), "text-anchor": "end", fill: colours.faint }, number(t)));
  }
  const few = xs.length <= 12 && !plot.whole && xs.every((x, i) => i === 0 || X(x) - X(xs[i - 1]) > 38);
  for (const t of few ? xs : ticks(left, right, wide / 85)) {
    image.append(shape("path", { d: `M${X(t).toFixed(1)} ${TOP + tall}v5`, stroke: colours.faint }));
    image.append(shape("text", { x: X(t).toFixed(1), y: TOP + tall + 18, "text-anchor": "middle", fill: colours.faint }, number(t, 3)));
  }
  image.append(shape("path", { d: `M${LEFT} ${TOP}V${TOP + tall}H${width - RIGHT}`, fill: "none", stroke: colours.faint }));
  image.append(shape("text", { x: LEFT + wide / 2, y: height - 8, "text-anchor": "middle", fill: colours.ink }, plot.across));
  image.append(shape("text", { transform: `translate(13 ${TOP + tall / 2}) rotate(-90)`, "text-anchor": "middle", fill: colours.ink }, plot.up));
  const path = (pairs) => pairs.map(([x, y], i) => (i ? "L" : "M") + X(x).toFixed(1) + " " + Y(y).toFixed(1)).join("");
  const bands = shape("g", {}), lines = shape("g", { fill: "none", "stroke-linejoin": "round" });
  plot.series.forEach((s, k) => {
    const colour = visible(s.look.colour, dark);
    const banded = s.points.filter((p) => Number.isFinite(p.low));
    if (banded.length > 1) {
      const edge = path(banded.map((p) => [p.x, p.high])) + path(banded.map((p) => [p.x, p.low]).reverse()).replace("M", "L") + "Z";
      bands.append(shape("path", { d: edge, fill: colour, "fill-opacity": dark ? 0.13 : 0.15 }));
    } else for (const p of banded) {
      lines.append(shape("path", { d: path([[p.x, p.low], [p.x, p.high]]), stroke: colour, "stroke-width": 1.5 }));
    }
    if (s.singles && s.singles.length) {
      lines.append(shape("path", { d: s.singles.map(path).join(""), stroke: colour, "stroke-width": 0.7, "stroke-opacity": Math.max(0.12, 0.5 / Math.sqrt(s.singles.length / 4)), class: "singles" }));
    }
    lines.append(shape("path", { d: path(s.points.map((p) => [p.x, p.mean])), stroke: colour, "stroke-width": 2, "stroke-dasharray": s.look.dash.join(" "), class: "mean" }));
    const every = s.points.length > 16 ? Math.ceil(s.points.length / 8) : 1;
    const first = every === 1 ? 0 : Math.floor(((k + 1) * every) / (plot.series.length + 1));
    for (let i = first; i < s.points.length; i += every) lines.append(mark(s.look, X(s.points[i].x), Y(s.points[i].mean), dark));
  });
  image.append(bands, lines);
  const overlay = shape("g", { class: "overlay" });
  image.append(overlay);
  return {
    image, xs, height,
    nearest(px) {
      let best = 0;
      xs.forEach((x, i) => { if (Math.abs(X(x) - px) < Math.abs(X(xs[best]) - px)) best = i; });
      return best;
    },
    clear() { overlay.replaceChildren(); },
    rule(i) {
      overlay.replaceChildren(shape("path", { d: `M${X(xs[i]).toFixed(1)} ${TOP}V${TOP + tall}`, stroke: colours.faint, "stroke-dasharray": "2 2" }));
      const pointsAtX = [];
      for (const s of plot.series) for (const p of s.points) if (p.x === xs[i]) {
        overlay.append(shape("circle", { cx: X(p.x).toFixed(1), cy: Y(p.mean).toFixed(1), r: 4.5, fill: visible(s.look.colour, dark), stroke: colours.back, "stroke-width": 1.5 }));
        pointsAtX.push({ series: s, point: p });
      }
      pointsAtX.sort((a, b) => b.point.mean - a.point.mean);
      return { x: xs[i], px: X(xs[i]), pointsAtX };
    },
  };
}
