// Tables that sort, and the heat map.

function sortable(columns, rows, options = {}) {
  let by = -1, rising = true;
  const body = element("tbody");
  const long = columns.map((column, j) => column.kind === "text" && rows.some((row) => String(row[j] ?? "").length > 40));
  const heads = columns.map((column, j) => {
    const button = element("button", { type: "button", title: column.means || null, onclick: () => sort(j) }, column.name);
    return element("th", { scope: "col", class: column.kind === "number" ? "number" : null, "aria-sort": "none" }, button);
  });
  const table = element("table", { class: options.name || null }, element("thead", {}, element("tr", {}, ...heads)), body);
  let shown = rows;

  function compare(a, b) {
    const [x, y] = [a[by], b[by]];
    if (x === y) return 0;
    if (x === null || x === "") return 1; // what is missing stays last, either way
    if (y === null || y === "") return -1;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return rising ? order : -order;
  }

  function fill() {
    const ordered = by < 0 ? shown : [...shown].sort(compare);
    body.replaceChildren(...ordered.map((row) => element("tr", {}, ...row.map((cell, j) => {
      if (options.cell) { const node = options.cell(cell, j, row); if (node) return node; }
      const kind = columns[j].kind;
      if (kind === "verdict" && cell) return element("td", {}, element("span", { class: "verdict " + verdictClass(cell) }, cell));
      const text = typeof cell === "number" ? number(cell) : cell === null ? "–" : String(cell);
      return element("td", { class: kind === "number" ? "number" : long[j] ? "long" : null }, text);
    }))));
  }

  function sort(j) {
    rising = by === j ? !rising : true;
    by = j;
    heads.forEach((head, k) => head.setAttribute("aria-sort", k === j ? (rising ? "ascending" : "descending") : "none"));
    fill();
  }

  fill();
  return { table, narrow(kept) { shown = rows.filter(kept); fill(); } };
}

function verdictClass(verdict) {
  const text = String(verdict);
  if (text.startsWith("holds")) return "good";
  return text.startsWith("does not") || text.startsWith("violated") ? "bad" : "open";
}

// A table that scrolls where it does not fit, and then says so.
function scrolled(table) {
  const box = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, table);
  const hint = element("p", { class: "hint", hidden: true }, "The table goes on to the right: scroll it sideways →");
  const look = () => {
    const hides = box.scrollWidth > box.clientWidth + 1;
    hint.hidden = !hides;
    box.setAttribute("aria-label", hides ? "Table, scrolls sideways" : "Table");
    box.classList.toggle("more", hides && box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  new ResizeObserver(look).observe(table);
  return element("div", { class: "scroller" }, hint, box);
}

function tableBlock(block) {
  const sortedTable = sortable(block.columns, block.rows);
  const controls = element("div", { class: "controls" });
  const at = block.columns.findIndex((column) => column.name === block.choose);
  if (at >= 0) {
    const values = [...new Set(block.rows.map((row) => row[at]))].sort();
    const counts = values.map((v) => [String(v), `${v} (${block.rows.filter((row) => row[at] === v).length})`]);
    const change = (value) => sortedTable.narrow((row) => value === "" || String(row[at]) === value);
    controls.append(labelled(block.choose, choice([["", `all (${block.rows.length})`], ...counts], "", change)));
  }
  const list = element("dl");
  for (const [word, means] of block.meanings)
    list.append(element("dt", {}, element("span", { class: "verdict " + verdictClass(word) }, word)), element("dd", {}, means));
  return [...block.text.map((text) => element("p", {}, text)), block.meanings.length ? list : "", controls, scrolled(sortedTable.table)];
}

// A list of sentences under the names of their groups, each with its verdicts; the statistics are in a fold.
function claimsBlock(block) {
  const parts = [], groups = [...new Set(block.claims.map(([group]) => group))];
  for (const group of groups) {
    const items = block.claims.filter(([own]) => own === group).map(([, sentence, verdicts]) => element("li", {},
      element("span", { class: "verdicts" }, ...verdicts.map(([name, verdict]) => element("span", {},
        element("span", { class: "verdict " + verdictClass(verdict) }, verdict), name ? element("small", {}, ` ${name}`) : ""))),
      element("span", {}, sentence)));
    parts.push(element("h3", {}, group), element("ul", {}, ...items));
  }
  const fold = lazy(block.statistics.title, () => tableBlock(block.statistics));
  return [...block.text.map((text) => element("p", {}, text)), element("div", { class: "claims" }, ...parts), fold];
}

function lazy(title, make) {
  const node = element("details", {}, element("summary", {}, title));
  node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(...make()); });
  return node;
}

// Blue below 1, red above, the same beyond a factor of 10: Cynthia Brewer's RdBu at 11 steps.
const SHADES = ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"];

function shade(ratio) {
  const at = Math.max(0, Math.min(10, 5 + 5 * Math.log10(Math.max(ratio, 1e-9))));
  const low = Math.floor(at), high = Math.ceil(at), [a, b] = [channels(SHADES[low]), channels(SHADES[high])];
  return "#" + a.map((c, i) => Math.round(c + (b[i] - c) * (at - low)).toString(16).padStart(2, "0")).join("");
}

function ratioText(x) {
  return x === null || x === undefined ? "–" : x < 9.995 ? x.toFixed(2) : x.toFixed(0);
}

function heatMapBlock(block) {
  const place = element("div"), groups = [...new Set(block.families.map((family) => family[0]))];
  let reference = 0, group = "", intervals = false;
  function draw() {
    const ratios = block.ratios[reference];
    const columns = [{ name: "family", kind: "text" }, ...block.policies.map((name) => ({ name, kind: "number", means: "sort by " + name }))];
    const rows = block.families.map((family, i) => [family[1], ...block.policies.map((_, j) => (ratios[i][j].length ? ratios[i][j][0] : null)), i]);
    const sortedTable = sortable(columns, rows, {
      name: "heat",
      cell(value, j, row) {
        if (j === 0) return element("th", { scope: "row" }, value);
        if (j > block.policies.length) return element("td", { hidden: true });
        if (value === null) return element("td", { class: "number" }, "–");
        const i = row[row.length - 1], [, low, high] = ratios[i][j - 1];
        const between = low === null || low === undefined ? "" : ` [${ratioText(low)}, ${ratioText(high)}]`;
        const regret = block.regrets[i][j - 1];
        const title = `${block.policies[j - 1]} on ${row[0]}: ${ratioText(value)}${between} of ${block.references[reference]}; mean regret ${number(regret)}`;
        const back = shade(value);
        const cell = element("td", { class: "number", title }, ratioText(value), intervals && between ? element("small", {}, between.trim()) : "");
        cell.style.background = back;
        cell.style.color = luminance(back) > 0.3 ? "#111111" : "#ffffff";
        return cell;
      },
    });
    sortedTable.narrow((row) => group === "" || block.families[row[row.length - 1]][0] === group);
    place.replaceChildren(scrolled(sortedTable.table));
  }
  const box = element("input", { type: "checkbox", onchange: () => { intervals = box.checked; draw(); } });
  const controls = element("div", { class: "controls" },
    labelled("relative to", choice(block.references.map((name, k) => [String(k), name]), "0", (v) => { reference = Number(v); draw(); })),
    labelled("families", choice([["", "all"], ...groups.map((name) => [name, name])], "", (v) => { group = v; draw(); })),
    element("label", { class: "check" }, box, element("span", {}, "95% intervals")));
  const key = element("div", { class: "key", "aria-hidden": "true" }, ...[0.1, 0.2, 0.5, 1, 2, 5, 10].map((x) => {
    const box = element("span", {}, String(x));
    box.style.background = shade(x);
    box.style.color = luminance(shade(x)) > 0.3 ? "#111111" : "#ffffff";
    return box;
  }));
  draw();
  return [...block.text.map((text) => element("p", {}, text)), controls, key, place];
}
