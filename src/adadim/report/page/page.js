// The page: a section for each block and study, contents, theme.

const DATA = JSON.parse(document.getElementById("data").textContent);
const tooltip = document.getElementById("tooltip");
const charts = []; // every chart's way to draw itself again
let stored = null; // the theme that the reader chose

function decoded(cell) {
  const text = atob(cell.regret), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const numbers = cell.trials.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
  return { ...cell, numbers, values: new Float32Array(bytes.buffer) };
}

function isNumber(x) {
  return typeof x === "number" && Number.isFinite(x);
}

const SIGNS = { arms: "K", dim: "d", intrinsic_dim: "d*", horizon: "T", noise: "noise" };

// Sizes that several instances share, as text.
function sizes(tables) {
  const shared = Object.keys(SIGNS).filter((key) => isNumber(tables[0][key]) && tables.every((t) => t[key] === tables[0][key]));
  return shared.map((key) => `${SIGNS[key]} = ${number(tables[0][key])}`).join(", ");
}

// Which trials a text such as "0-9, 20" means; null if it cannot be read.
function trialNumbers(text) {
  if (/^\s*(all)?\s*$/i.test(text)) return () => true;
  const ranges = [];
  for (const part of text.split(",")) {
    const range = /^\s*(\d+)\s*(?:[-–]\s*(\d+)\s*)?$/.exec(part);
    if (!range) return null;
    ranges.push([Number(range[1]), Number(range[2] ?? range[1])]);
  }
  return (n) => ranges.some(([low, high]) => low <= n && n <= high);
}

function studySection(study, id) {
  const cells = study.cells.map(decoded);
  const look = (p) => study.policies[p];
  const find = (i, p) => cells.find((cell) => cell.instance === i && cell.policy === p);
  const state = { view: "curves", instance: 0, band: "interval", log: false, singles: false, hidden: new Set(), wanted: () => true };

  // What regret can be drawn against: parameters of instances that vary, and of policies of one kind.
  const views = [["curves", "over rounds"]];
  const varying = (tables) => [...new Set(tables.flatMap(Object.keys))].filter((key) =>
    key !== "kind" && new Set(tables.map((t) => t[key]).filter(isNumber)).size > 1);
  const otherParameters = (table, key) => JSON.stringify(Object.entries(table).filter(([k]) => k !== key && k !== "alpha" && !(key === "alpha" && k === "intrinsic_dim")));
  const tables = study.instances.map((instance) => instance.parameters);
  const alone = varying(tables).filter((key) => new Set(tables.map((t) => otherParameters(t, key))).size === 1 && tables.every((t) => isNumber(t[key])));
  for (const key of varying(tables)) views.push(["instance:" + key, `against ${key === "alpha" ? "alpha = ln d* / ln T" : key}`]);
  const settings = study.policies.map((policy) => ({ kind: policy.kind, ...policy.parameters }));
  for (const key of varying(settings)) {
    const groups = {};
    settings.forEach((t) => { if (isNumber(t[key])) (groups[t.kind + otherParameters(t, key)] ||= new Set()).add(t[key]); });
    if (Object.values(groups).some((values) => values.size > 1)) views.push(["policy:" + key, `against ${key} of the policy`]);
  }
  if (alone.length) state.view = "instance:" + (alone.includes("alpha") ? "alpha" : alone[0]);

  function values(cell, column) {
    const width = cell.times.length, regrets = [];
    cell.numbers.forEach((n, r) => { if (state.wanted(n)) regrets.push(cell.values[r * width + column]); });
    return regrets;
  }

  function last(i, p, x) {
    const cell = find(i, p), regrets = cell ? values(cell, cell.times.length - 1) : [];
    return regrets.length ? { x, note: study.instances[i].name, ...describe(regrets, state.band) } : null;
  }

  function plot() {
    const [what, key] = state.view.split(/:(.*)/s);
    const shown = study.policies.map((_, p) => p).filter((p) => !state.hidden.has(p));
    const series = [];
    if (what === "curves") {
      for (const p of shown) {
        const cell = find(state.instance, p);
        if (!cell || !values(cell, 0).length) continue;
        const points = cell.times.map((x, k) => ({ x, note: "", ...describe(values(cell, k), state.band) }));
        points.unshift({ x: 0, mean: 0, low: 0, high: 0, n: points[0].n, note: "" });
        const width = cell.times.length;
        const singles = state.singles ? cell.numbers.flatMap((n, r) => (state.wanted(n) ? [[[0, 0], ...cell.times.map((x, k) => [x, cell.values[r * width + k]])]] : [])) : [];
        series.push({ label: look(p).label, look: look(p), points, singles });
      }
      return { series, across: "round", up: "cumulative regret", log: state.log, whole: true };
    }
    const groups = new Map();
    const add = (name, p, point) => {
      if (!point) return;
      if (!groups.has(name)) groups.set(name, { label: look(p).label, look: look(p), points: [] });
      groups.get(name).points.push(point);
    };
    for (const p of shown) {
      if (what === "instance") study.instances.forEach((instance, i) => {
        if (isNumber(instance.parameters[key])) add(p + otherParameters(instance.parameters, key), p, last(i, p, instance.parameters[key]));
      });
      else if (isNumber(settings[p][key])) add(settings[p].kind + otherParameters(settings[p], key), p, last(state.instance, p, settings[p][key]));
    }
    for (const s of groups.values()) { s.points.sort((a, b) => a.x - b.x); series.push(s); }
    return { series, across: key === "alpha" ? "hardness α = ln d* / ln T" : key, up: "regret after the last round", log: state.log, whole: false };
  }

  // Controls.
  const place = element("div", { class: "chart", tabindex: 0, role: "group" });
  const sentence = element("p", { class: "winner", "aria-live": "polite" });
  const caption = element("p", { class: "caption" }), legend = element("fieldset", { class: "legend" }, element("legend", {}, "Policies"));
  const instanceChoice = labelled("instance", choice(study.instances.map((s, i) => [String(i), s.name]), "0", (v) => { state.instance = Number(v); draw(); }));
  const trialsInput = element("input", { type: "text", value: "all", size: 9, "aria-label": "trials: all, or numbers such as 0-9, 20", oninput: () => {
    const read = trialNumbers(trialsInput.value);
    const any = read && cells.some((cell) => cell.numbers.some(read));
    trialsInput.setCustomValidity(any ? "" : "all, or numbers such as 0-9, 20");
    trialsInput.classList.toggle("wrong", !any);
    if (any) { state.wanted = read; draw(); }
  } });
  const check = (text, key) => {
    const box = element("input", { type: "checkbox", onchange: () => { state[key] = box.checked; draw(); } });
    return element("label", { class: "check" }, box, element("span", {}, text));
  };
  const singles = check("single trials", "singles");
  const controls = element("div", { class: "controls" },
    views.length > 1 ? labelled("regret", choice(views, state.view, (v) => { state.view = v; draw(); })) : "",
    study.instances.length > 1 ? instanceChoice : "",
    labelled("band", choice(Object.entries(BANDS), state.band, (v) => { state.band = v; draw(); })),
    labelled("trials", trialsInput), singles, check("logarithmic", "log"),
    element("span", { class: "buttons" },
      element("button", { type: "button", onclick: () => save("svg") }, "SVG"),
      element("button", { type: "button", onclick: () => save("csv") }, "CSV")));
  const items = study.policies.map((policy, p) => {
    const box = element("input", { type: "checkbox", checked: true, onchange: () => { box.checked ? state.hidden.delete(p) : state.hidden.add(p); draw(); } });
    const swatch = element("span", { class: "swatch" }), value = element("span", { class: "value" });
    legend.append(element("label", { class: "policy" }, box, swatch, element("span", { class: "name" }, policy.label), value));
    return { box, swatch, value };
  });
  const setAll = (on) => { items.forEach((item, p) => { item.box.checked = on; on ? state.hidden.delete(p) : state.hidden.add(p); }); draw(); };
  legend.append(element("div", { class: "buttons" },
    element("button", { type: "button", onclick: () => setAll(true) }, "all"), element("button", { type: "button", onclick: () => setAll(false) }, "none")));

  // Which policy has the least regret in the view shown, and by how much: pieces of a sentence, with names of policies as elements.
  function winner() {
    const overall = state.view.startsWith("instance:"), instances = overall ? study.instances.map((_, i) => i) : [state.instance];
    const comparison = compared(find, instances, study.policies.map((_, p) => p).filter((p) => !state.hidden.has(p)), state.wanted);
    if (!comparison) return [];
    const name = (p) => element("strong", {}, look(p).label), size = (x) => number(x, 3);
    const trials = `${comparison.n} trial${comparison.n === 1 ? "" : "s"}`, between = (s) => `95% interval ${size(s.low)} to ${size(s.high)}, ${trials}`;
    const rounds = new Set(instances.flatMap((i) => comparison.policies.map((p) => find(i, p).times.at(-1))));
    const after = (rounds.size === 1 ? `after ${[...rounds][0]} rounds` : "after the last round") + (instances.length > 1 ? `, averaged over ${instances.length} instances` : "");
    const sorted = (chosen) => [...chosen].sort((a, b) => comparison.of(a).mean - comparison.of(b).mean);
    const told = sorted(comparison.policies.filter((p) => look(p).told)), others = sorted(comparison.policies.filter((p) => !look(p).told));
    const [first, second] = others.length ? others : told, best = comparison.of(first), parts = others.length && told.length ? ["Of the policies that are not given d*, "] : [];
    if (second === undefined) {
      parts.push(name(first), ` has a mean regret of ${size(best.mean)} ${after} (${comparison.n > 1 ? between(best) : trials}).`);
    } else {
      const gap = comparison.difference(first, second), share = gap.mean / comparison.of(second).mean;
      const less = `${size(gap.mean)}${share > 0 && share <= 1 ? ` (${Math.round(100 * share)}%)` : ""} less than `;
      const apart = comparison.n === 1 || gap.low > 0;
      if (!apart) parts.push(name(first), " and ", name(second), ` cannot be told apart: mean regret ${size(best.mean)} and ${size(comparison.of(second).mean)} ${after}; difference ${size(gap.mean)} (${between(gap)}).`);
      else parts.push(name(first), ` has the least regret ${after}: ${size(best.mean)}, which is ${less}`, name(second), `, the next best (${comparison.n > 1 ? between(gap) : "one trial, so no interval"}).`);
      if (apart && instances.length > 1) {
        const wins = instances.filter((i) => others.concat(others.length ? [] : told).every((p) => last(i, p, 0).mean >= last(i, first, 0).mean)).length;
        parts.push(" ", name(first), ` is best on ${wins} of the ${instances.length}.`);
      }
    }
    if (others.length && told.length) parts.push(" ", name(told[0]), `, which is given it, has ${size(comparison.of(told[0]).mean)}.`);
    return parts;
  }

  let chart = null, at = -1;
  function draw(forPrint = false) {
    const dark = isDark() && !forPrint, content = plot(), onCurves = state.view === "curves";
    instanceChoice.hidden = state.view.startsWith("instance:");
    singles.hidden = !onCurves;
    chart = drawChart(content, Math.max(280, Math.round(place.clientWidth || 640)), dark);
    place.replaceChildren(chart.image);
    at = -1;
    const counts = content.series.flatMap((s) => s.points.map((p) => p.n)), few = Math.min(...counts), many = Math.max(...counts);
    const name = study.instances[state.instance].name;
    const where = instanceChoice.hidden || study.instances.length === 1 ? "" : `${name}: `;
    const same = sizes(instanceChoice.hidden ? tables : [tables[state.instance]]);
    caption.textContent = counts.length
      ? `${where}${same ? same + "; " : ""}mean over ${few === many ? many : `${few} to ${many}`} trial${many === 1 ? "" : "s"}` + (many > 1 && state.band !== "none" ? `, shaded: ${BANDS[state.band]}.` : ".")
      : "Nothing to show: choose a policy.";
    place.setAttribute("aria-label", `${study.title}: ${content.up} by ${content.across}. Arrow keys move from point to point.`);
    sentence.replaceChildren(...winner());
    items.forEach((item, p) => {
      item.swatch.replaceChildren(sample(look(p), dark));
      const final = last(state.instance, p, 0);
      item.value.textContent = final && !instanceChoice.hidden | study.instances.length === 1 ? number(final.mean, 3) : "";
    });
  }

  function save(kind) {
    const content = plot();
    if (kind === "svg") {
      const image = drawChart(content, 760, false).image;
      return download(study.name + ".svg", new XMLSerializer().serializeToString(image), "image/svg+xml");
    }
    const quoted = (text) => '"' + String(text).replaceAll('"', '""') + '"';
    const rows = content.series.flatMap((s) => s.points.map((p) => [quoted(s.label), quoted(p.note), p.x, p.mean, p.low, p.high, p.n].join(",")));
    download(study.name + ".csv", ["policy,instance,x,mean,low,high,trials", ...rows].join("\n") + "\n", "text/csv");
  }

  // Tooltip: follows the pointer, or the arrow keys.
  function point(i) {
    if (!chart || !chart.xs.length) return;
    at = Math.max(0, Math.min(chart.xs.length - 1, i));
    const { x, px, pointsAtX } = chart.rule(at), [what, key] = state.view.split(/:(.*)/s);
    const rows = pointsAtX.map(({ series, point: p }) => element("tr", {},
      element("td", {}, sample(series.look, isDark())), element("td", {}, series.label), element("td", { class: "number" }, number(p.mean, 4)),
      element("td", { class: "number" }, Number.isFinite(p.low) && p.n > 1 ? `[${number(p.low, 3)}, ${number(p.high, 3)}]` : ""),
      what === "instance" && study.instances.length > 8 ? element("td", {}, p.note) : ""));
    tooltip.replaceChildren(element("strong", {}, what === "curves" ? `round ${x}` : `${key} = ${number(x, 3)}`), element("table", {}, ...rows));
    tooltip.hidden = false;
    const box = place.getBoundingClientRect(), width = tooltip.offsetWidth;
    const after = box.left + px + 14, fits = after + width < document.documentElement.clientWidth - 6;
    const before = box.left + px - width - 14;
    const to = fits ? after : before > 4 ? before : Math.max(4, (document.documentElement.clientWidth - width) / 2);
    tooltip.style.left = `${to + window.scrollX}px`;
    tooltip.style.top = `${box.top + window.scrollY + (fits || before > 4 ? 10 : chart.height + 4)}px`;
  }
  function leave() { tooltip.hidden = true; at = -1; if (chart) chart.clear(); }
  place.addEventListener("pointermove", (e) => point(chart.nearest(e.clientX - place.getBoundingClientRect().left)));
  place.addEventListener("pointerdown", (e) => point(chart.nearest(e.clientX - place.getBoundingClientRect().left)));
  place.addEventListener("pointerleave", leave);
  place.addEventListener("blur", leave);
  place.addEventListener("keydown", (e) => {
    const end = chart.xs.length - 1;
    const to = { ArrowRight: at < 0 ? 0 : at + 1, ArrowLeft: at < 0 ? end : at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: end }[e.key];
    if (e.key === "Escape") leave();
    if (to !== undefined) { e.preventDefault(); point(to); }
  });

  const numbers = lazy("Numbers after the last round", () => {
    const columns = ["policy", "instance"].map((name) => ({ name, kind: "text" }))
      .concat(["trials", "mean", "low", "high", "std", "median"].map((name) => ({ name, kind: "number" })));
    const rows = cells.map((cell) => {
      const finals = Array.from(cell.numbers, (_, r) => cell.values[(r + 1) * cell.times.length - 1]), s = describe(finals, "interval");
      const nothing = (x) => (Number.isFinite(x) ? x : null);
      return [look(cell.policy).label, study.instances[cell.instance].name, s.n, s.mean, nothing(s.low), nothing(s.high), nothing(s.deviation), quantile(Float64Array.from(finals).sort(), 0.5)];
    });
    const winners = "The sentence above the figure compares policies on the trials that all of them have. They meet the same instances and noise in a trial, so its interval is that of the mean of their differences, trial by trial (Student's t). It is right with 95% for these two policies; that they were found to be the best two of several is not corrected for.";
    return [element("p", { class: "caption" }, "All trials; low and high: 95% interval of the mean (Student's t)."), element("p", { class: "caption" }, winners), scrolled(sortable(columns, rows).table)];
  });
  const section = element("section", { id, class: "study" }, element("h2", {}, study.title),
    sentence, element("div", { class: "figure" }, element("div", {}, place, caption), legend),
    study.note ? element("p", { class: "note" }, study.note) : "", controls, numbers, description(study));
  charts.push(draw);
  return { section, draw };
}

function description(study) {
  return lazy("What was run, and how to run it again", () => {
    const shown = (x) => (typeof x === "number" ? number(x) : x === null ? "none" : typeof x === "object" ? JSON.stringify(x) : String(x));
    const keys = [...new Set(study.instances.flatMap((instance) => Object.keys(instance.parameters)))];
    const instances = sortable([{ name: "instance", kind: "text" }, ...keys.map((name) => ({ name, kind: "text" }))],
      study.instances.map((s) => [s.name, ...keys.map((key) => (isNumber(s.parameters[key]) ? s.parameters[key] : key in s.parameters ? shown(s.parameters[key]) : ""))]));
    const policies = sortable(["policy", "kind", "hyper-parameters"].map((name) => ({ name, kind: "text" })),
      study.policies.map((p) => [p.label, p.kind, Object.entries(p.parameters).map(([k, v]) => `${k} = ${shown(v)}`).join(", ")]));
    const file = study.name + ".toml";
    const commands = study.rerun.length ? study.rerun : [`adadim run ${/^[\w.+-]+$/.test(file) ? file : `'${file}'`}`];
    const how = study.rerun.length ? "Run it again with" : `Save the description below as ${file} and run it with`;
    return [
      element("p", {}, `Study ${study.name}: ${study.trials} trials, seed ${study.seed}, stored by adadim ${study.version}. ${how}`),
      element("pre", {}, commands.join("\n")),
      element("p", { class: "caption" }, "Policies of your own are given with --plugin FILE.py. All results are determined by the seed, so the same command gives the same results."),
      scrolled(instances.table), scrolled(policies.table),
      element("p", {}, element("button", { type: "button", onclick: () => download(file, study.toml, "text/plain") }, `Save ${file}`)),
      element("pre", { class: "toml", tabindex: 0 }, study.toml),
    ];
  });
}

function build() {
  const main = document.getElementById("content"), contents = document.getElementById("contents"), list = element("ul");
  main.replaceChildren();
  const add = (id, title, section) => { main.append(section); list.append(element("li", {}, element("a", { href: "#" + id }, title))); };
  const studies = DATA.studies.map((study, k) => studySection(study, `study-${k}`));
  const addStudy = (study, k) => add(`study-${k}`, study.title, studies[k].section);
  DATA.studies.slice(0, 1).forEach(addStudy);
  DATA.blocks.forEach((block, k) => {
    const elements = { table: tableBlock, claims: claimsBlock, "heat map": heatMapBlock }[block.kind](block);
    add(`block-${k}`, block.title, element("section", { id: `block-${k}` }, element("h2", {}, block.title), ...elements));
  });
  DATA.studies.slice(1).forEach((study, k) => addStudy(study, k + 1));
  if (DATA.empty.length) main.append(element("p", { class: "note" }, `Without a finished trial, and not shown: ${DATA.empty.join(", ")}.`));
  if (list.children.length > 1) {
    const fold = element("details", {}, element("summary", {}, `${list.children.length} sections`), list);
    const narrow = matchMedia("(max-width: 820px)"), open = () => { fold.open = !narrow.matches; };
    narrow.addEventListener("change", open);
    list.addEventListener("click", open);
    open();
    contents.append(fold);
  }
  document.getElementById("made").append(element("p", {}, "Self-contained page; nothing is loaded from the network. Created with: " + DATA.machine.map(([name, value]) => `${name} ${value}`).join("; ") + "."));
  studies.forEach((study) => study.draw());
}

function setTheme(dark, keep) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.textContent = dark ? "Light" : "Dark";
  button.setAttribute("aria-label", dark ? "Switch to light colours" : "Switch to dark colours");
  button.setAttribute("aria-pressed", String(dark));
  if (keep) stored = dark ? "dark" : "light";
  if (keep) try { localStorage.setItem("adadim-theme", stored); } catch { /* pages from files may have no storage */ }
  charts.forEach((draw) => draw());
}

const prefers = matchMedia("(prefers-color-scheme: dark)");
try { stored = localStorage.getItem("adadim-theme"); } catch { /* as above */ }
setTheme(stored ? stored === "dark" : prefers.matches, false);
document.getElementById("theme").addEventListener("click", () => setTheme(!isDark(), true));
prefers.addEventListener("change", (e) => { if (!stored) setTheme(e.matches, false); });
build();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; requestAnimationFrame(() => charts.forEach((draw) => draw())); } });
addEventListener("beforeprint", () => charts.forEach((draw) => draw(true)));
addEventListener("afterprint", () => charts.forEach((draw) => draw()));
document.documentElement.dataset.ready = Math.round(performance.now());
