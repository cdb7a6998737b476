/* Tables: a map of all cells in the order of parts, and a search of rows. */

class TablePanels {
  constructor(page) {
    this.page = page;
    const { rows, content } = page;
    const panels = [];
    this.canInfer = !content.model.byRow;
    page.partNames = new PartNames(content.parts, document.title);
    this.overview = new OverviewPanels(page);
    page.terms = content.names.map((_, d) => new Terms(content.terms[d] ?? {}, page.model.columns[d]));
    /* Columns of every part, and last those without a part. */
    this.own = [...content.parts.keys(), -1].map((k) => content.columnOrder.filter((d) => content.partOf[d] === k));
    if (rows.count && this.canInfer) {
      this.prepare();
      this.map = new HeatMap(this);
      panels.push(this.map.element);
    }
    if (this.canInfer) {
      this.reader = new RowReader(this);
      panels.push(this.reader.element);
      if (rows.count) this.choose(0);
    }
    if (!panels.length) panels.push(h("p", {}, 'With gating="factorised" each row has its own gates; use Python to look at rows.'));
    this.element = h("div", {}, panels);
    for (const button of document.querySelectorAll("[data-row]")) {
      button.addEventListener("click", () => {
        const i = rows.positions.indexOf(Number(button.dataset.row));
        if (i < 0) return;
        this.choose(i);
        this.reader.element.scrollIntoView({ block: "start" });
      });
    }
  }

  /* What the model sees in every row: states or factors, and how likely each part is. */
  prepare() {
    const { rows, model } = this.page;
    this.found = [];
    this.scores = []; /* of every row and part */
    for (let i = 0; i < rows.count; i++) {
      const values = rows.row(i);
      this.found.push(model.infer(values));
      this.scores.push(model.partLikelihoods(values)?.map((one, k) => this.anomalyScore(k, one, values)));
    }
    /* Sorted, to compare a part's score with those of other rows. */
    this.sorted = this.page.content.parts.map((_, k) =>
      this.scores[0] ? Float64Array.from(this.scores, (one) => one[k]).filter((one) => !Number.isNaN(one)).sort() : null,
    );
  }

  /* Negative log-likelihood per observed cell, so that complete rows do not score higher. */
  anomalyScore(k, logLikelihood, values) {
    const seen = this.own[k].reduce((count, d) => count + Number(!Number.isNaN(values[d])), 0);
    return seen ? -logLikelihood / seen : NaN;
  }

  /* Fraction of the rows whose part k has a lower anomaly score. */
  scoreRank(k, score) {
    const all = this.sorted?.[k];
    if (!all || all.length < 2 || Number.isNaN(score)) return null;
    let below = 0;
    while (below < all.length && all[below] < score - 1e-9) below += 1;
    return Math.min(1, below / (all.length - 1));
  }

  /* Cells of a row in the list of anomalous cells, by column. */
  listed(i) {
    const position = this.page.rows.positions[i];
    return new Map((this.page.content.overview.anomalous ?? []).filter((cell) => cell.position === position).map((cell) => [cell.column, cell]));
  }

  choose(i) {
    this.map?.markRow(i);
    this.reader.show(i);
  }
}

/* A mean this small in units of its column is zero, but for the pull of the prior. */
const NOTHING = 1e-3;

/* How a column's numbers are written: levels by name, logarithms as what they are of, days as dates. */
class Terms {
  constructor({ levels, offset, date, span, ordered, step, decimals, years }, { levels: codes, scale }) {
    this.least = NOTHING * (scale ?? offset ?? 0);
    this.decimals = decimals;
    this.span = span;
    this.years = years;
    this.codes = codes;
    this.names = levels ?? codes?.map((code) => formatNumber(code)) ?? null;
    this.step = step;
    this.offset = offset;
    this.date = date;
    this.ordered = ordered ?? (levels === undefined && codes !== null);
  }

  /* As the field of a form has it. */
  raw(value) {
    if (Number.isNaN(value)) return "";
    if (this.names) return this.names[levelCode(this.codes, value)];
    if (this.date) return new Date(864e5 * value).toISOString().slice(0, this.date === "date" ? 10 : 16);
    const number = this.offset === undefined ? value : Number((Math.exp(value) - this.offset).toPrecision(12));
    if (!this.span) return String(number);
    const minutes = Math.round(1440 * Math.abs(number)); /* of days */
    return `${number < 0 && minutes ? "-" : ""}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}`;
  }

  text(value) {
    if (Number.isNaN(value)) return "missing";
    if (this.names || this.date || this.span) return this.raw(value);
    const number = Number(this.raw(value));
    if (this.decimals) return fixed(number, this.decimals);
    return formatNumber(Math.abs(number) < this.least ? 0 : number, this.step, !this.years);
  }

  /* Back to a number, NaN for what is none. */
  read(text) {
    if (text === "") return NaN;
    if (this.names) return this.codes[this.names.indexOf(text)] ?? NaN;
    if (this.date) return Date.parse(text.length > 10 ? `${text}Z` : text) / 864e5;
    const number = this.span ? spanOf(text) : Number(text);
    return this.offset === undefined ? number : Math.log(number + this.offset);
  }

  /* The same; levels may be in other letters, large or small. */
  find(text) {
    const value = this.read(text);
    if (!this.names || !Number.isNaN(value)) return value;
    const found = this.names.filter((name) => name.toLowerCase() === text.toLowerCase());
    return found.length === 1 ? this.read(found[0]) : NaN;
  }

  field(attributes, onchange) {
    if (!this.names) return h("input", { ...attributes, type: this.date ?? (this.span ? "text" : "number"), step: "any", placeholder: "missing", oninput: onchange });
    const options = ["", ...this.names].map((name) => h("option", { value: name }, name || "missing"));
    return h("select", { ...attributes, onchange }, options);
  }
}

/* Days of hours and minutes such as 12:30, NaN of other texts. */
function spanOf(text) {
  const [, sign, hours, minutes] = text.trim().match(/^(-?)(\d+):([0-5]\d)$/) ?? [];
  return hours === undefined ? NaN : ((sign ? -1 : 1) * (60 * hours + Number(minutes))) / 1440;
}

/* Colors of the levels of a category, the most common first; more levels share the last. */
const LEVEL_COLORS = ["#8da0cb", "#fc8d62", "#66c2a5", "#e78ac3", "#a6d854", "#ffd92f", "#c49c6c", "#7b68ae", "#d4b9da"];

const CELL_WIDTH = 18; /* pixels of the narrowest column, in which a name can stand upright */

class HeatMap {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, rows, model } = this.page;
    this.columns = content.columnOrder;
    this.at = { row: 0, column: 0 };
    this.status = statusLine({ class: "sr" });
    this.count = h("p", { class: "soft" });
    const used = [...content.parts.keys()].filter((k) => panels.own[k].length);
    this.order = h(
      "select",
      { "aria-label": "Order of the rows", onchange: () => this.sort() },
      h("option", { value: "given" }, "their place in the data"),
      used.map((k) => h("option", { value: `part${k}` }, `${model.noun === "state" ? "state" : "first factor"} of part ${k}`)),
      panels.sorted[0] ? used.map((k) => h("option", { value: `score${k}` }, `anomaly score of part ${k}`)) : null,
    );
    const nouns = { part: model.noun === "state" ? "state of" : "first factor of", score: "anomaly score of" };
    for (const option of this.order.options) {
      const [, word, k] = option.value.match(/^([a-z]+)(\d+)$/) ?? [];
      const update = () => (option.textContent = `${nouns[word]} ${this.page.partNames.get(Number(k))}`);
      if (word === undefined) continue;
      this.page.partNames.listeners.push(update);
      update();
    }
    this.search = new RowSearch(this.page, "row", "name, or column > 3", (i) => panels.choose(i), (found) => this.filter(found));
    this.band = 8;
    this.canvas = h("canvas", {
      class: "heat",
      tabindex: "0",
      role: "application",
      "aria-label": `Heat map of ${plural(rows.count, "row")} and ${plural(this.columns.length, "column")}. Arrow keys move over the cells, enter explains the row.`,
    });
    this.tip = h("div", { class: "tip", hidden: true });
    this.canvas.addEventListener("click", (event) => this.point(event, true));
    this.canvas.addEventListener("pointermove", (event) => this.point(event, false));
    this.canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.say());
    this.canvas.addEventListener("blur", () => (this.tip.hidden = true));
    const heading = newId("map");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "The table"),
      h("p", {}, "One line per row; columns are grouped by part (the band on top). Choose a row to see its states, and what was expected in each cell. Lines across separate states. Find rows by name, or by conditions such as column > 3, other column = missing."),
      this.search.element,
      h(
        "div",
        { class: "buttons" },
        h("span", { "aria-hidden": "true" }, "Sort rows by"),
        this.order,
        h("button", { type: "button", class: "small", onclick: () => downloadCsv("rows.csv", this.lines()) }, "Download as CSV"),
      ),
      this.count,
      h("div", { class: "heat-holder" }, h("div", { class: "heat-inner", style: { "--columns": this.columns.length, "--cell": `${CELL_WIDTH}px` } }, this.labels(), this.canvas)),
      this.legend(),
      this.status,
      this.tip,
    );
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.chosen = 0;
    this.units = this.measure();
    this.order.value = used.length ? `part${used[0]}` : "given";
    this.found = null;
    this.sort();
  }

  /* Mean and standard deviation of a number, ranks of the levels of a category. */
  measure() {
    const { rows, content, terms } = this.page;
    const all = Array.from({ length: rows.count }, (_, i) => rows.row(i));
    return content.names.map((_, d) => {
      const seen = all.map((row) => row[d]).filter((value) => !Number.isNaN(value));
      const { names, codes, ordered } = terms[d];
      if (names && !ordered) {
        const counts = new Float64Array(names.length);
        for (const value of seen) counts[levelCode(codes, value)] += 1;
        const rank = new Map(descending(counts).map((code, place) => [code, place]));
        return { level: (value) => rank.get(levelCode(codes, value)) };
      }
      if (names) return { share: (value) => (names.length > 1 ? levelCode(codes, value) / (names.length - 1) : 1) };
      const mean = seen.reduce((a, b) => a + b, 0) / Math.max(seen.length, 1);
      const variance = seen.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(seen.length, 1);
      return { mean, spread: Math.sqrt(variance) || 1 };
    });
  }

  /* Names above the columns, upright unless there are few. */
  labels() {
    const { content } = this.page;
    const names = this.columns.map((d) => h("span", { title: content.names[d] }, content.names[d]));
    return h("div", { class: `heat-labels${names.length > 6 ? " upright" : ""}`, "aria-hidden": "true" }, names);
  }

  legend() {
    const { terms } = this.page;
    const kinds = new Set(this.columns.map((d) => (!terms[d].names ? "number" : terms[d].ordered ? "ordered" : "category")));
    const item = (...children) => h("li", {}, ...children);
    return h(
      "ul",
      { class: "legend" },
      kinds.has("number") ? item(h("span", { class: "scale numbers" }), "numbers: low, mean, high") : null,
      kinds.has("ordered") ? item(h("span", { class: "scale ordered" }), "ordered levels: first to last") : null,
      kinds.has("category") ? item(LEVEL_COLORS.slice(0, 4).map(swatch), "categories: most common level first") : null,
      item(swatch("var(--absent)"), "missing"),
    );
  }

  /* Show the rows that a search finds; null means all. */
  filter(found) {
    this.found = found;
    if (this.units) this.sort();
  }

  sort() {
    const { rows, model, content } = this.page;
    const all = this.found ?? Array.from({ length: rows.count }, (_, i) => i);
    const word = this.order.value;
    const k = Number(word.replace(/\D/g, ""));
    const sorted = Array.from(all);
    this.states = null;
    if (word.startsWith("part")) {
      const place = (i) => {
        const own = this.panels.found[i].m[k];
        const { order } = content.parts[k];
        if (model.type !== "states") return -own[order[0] ?? 0];
        const at = order.indexOf(argmax(own));
        return at < 0 ? order.length : at;
      };
      const key = new Map(all.map((i) => [i, place(i)]));
      sorted.sort((a, b) => key.get(a) - key.get(b) || a - b);
      if (model.type === "states") this.states = key;
    } else if (word.startsWith("score")) {
      const key = (i) => (Number.isNaN(this.panels.scores[i][k]) ? -Infinity : this.panels.scores[i][k]);
      sorted.sort((a, b) => key(b) - key(a) || a - b);
    }
    this.rows = sorted;
    this.at.row = inside(this.at.row, Math.max(sorted.length, 1));
    const some = rows.total > rows.count ? ", a sample in which all states occur as often as in the data" : "";
    this.count.textContent = `Showing ${sorted.length.toLocaleString("en")} of ${plural(rows.total, "row")}${some}.`;
    this.draw();
  }

  /* Color of a cell: distance from the column's mean, place among ordered levels, or the level. */
  color(value, d, colors) {
    if (Number.isNaN(value)) return colors.absent;
    const { mean, spread, level, share } = this.units[d];
    if (level) return channels(LEVEL_COLORS[Math.min(level(value), LEVEL_COLORS.length - 1)]);
    const mix = (end, strength) => colors.page.map((from, c) => Math.round(from + strength * (end[c] - from)));
    if (share) return mix(colors.accent, 0.15 + 0.85 * share(value));
    const away = Math.max(-1, Math.min(1, (value - mean) / (2 * spread)));
    return mix(away > 0 ? colors.high : colors.low, Math.abs(away));
  }

  draw() {
    const { content, rows } = this.page;
    this.width = Math.max(CELL_WIDTH, Math.floor(1040 / this.columns.length));
    this.height = Math.max(3, Math.min(18, Math.floor(620 / Math.max(this.rows.length, 1))));
    this.canvas.width = this.width * this.columns.length;
    this.canvas.height = this.band + this.height * Math.max(this.rows.length, 1);
    const context = this.canvas.getContext("2d");
    const colors = Object.fromEntries(["absent", "high", "low", "page", "accent"].map((name) => [name, channels(pageColor(`--${name}`))]));
    this.columns.forEach((d, x) => {
      const k = content.partOf[d];
      context.fillStyle = k < 0 ? "#808080" : content.parts[k].color;
      context.fillRect(x * this.width, 0, this.width, this.band - 2);
    });
    this.rows.forEach((i, y) => {
      const values = rows.row(i);
      this.columns.forEach((d, x) => {
        context.fillStyle = `rgb(${this.color(values[d], d, colors).join(" ")})`;
        context.fillRect(x * this.width, this.band + y * this.height, this.width, this.height);
      });
    });
    /* A line between parts. */
    context.fillStyle = pageColor("--text");
    this.columns.forEach((d, x) => {
      if (x && content.partOf[d] !== content.partOf[this.columns[x - 1]]) context.fillRect(x * this.width - 1, 0, 2, this.canvas.height);
    });
    /* A line between states, where rows are sorted by them. */
    this.rows.forEach((i, y) => {
      if (y && this.states && this.states.get(i) !== this.states.get(this.rows[y - 1])) context.fillRect(0, this.band + y * this.height, this.canvas.width, 1);
    });
    const y = this.rows.indexOf(this.chosen);
    if (y < 0) return;
    context.strokeStyle = pageColor("--text");
    context.lineWidth = 2;
    context.strokeRect(1, this.band + y * this.height, this.canvas.width - 2, this.height);
  }

  /* Lines of a file: the rows shown, in their order, with the states of the parts. */
  lines() {
    const { content, rows, terms, model, partNames } = this.page;
    const states = model.type === "states" ? content.parts.map((_, k) => `state of ${partNames.get(k)}`) : [];
    const lines = this.rows.map((i) => {
      const values = rows.row(i);
      const own = states.map((_, k) => argmax(this.panels.found[i].m[k]));
      return [rows.names[i], ...this.columns.map((d) => terms[d].raw(values[d])), ...own];
    });
    return [["row", ...this.columns.map((d) => content.names[d]), ...states], ...lines];
  }

  markRow(i) {
    this.chosen = i;
    this.search.mark(i);
    this.draw();
  }

  point(event, chosen) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.columns.length);
    const down = ((event.clientY - box.top) / box.height) * this.canvas.height - this.band;
    const y = Math.floor(down / this.height);
    if (x < 0 || y < 0 || x >= this.columns.length || y >= this.rows.length) return;
    this.at = { row: y, column: x };
    this.say(event);
    if (chosen) this.panels.choose(this.rows[y]);
  }

  key(event) {
    if (event.key in ARROWS && this.rows.length) {
      const [down, right] = ARROWS[event.key];
      this.at.row = inside(this.at.row + down, this.rows.length);
      this.at.column = inside(this.at.column + right, this.columns.length);
      if (down) this.markRow(this.rows[this.at.row]);
      this.say();
    } else if ((event.key === "Enter" || event.key === " ") && this.rows.length) {
      this.panels.choose(this.rows[this.at.row]);
    } else return;
    event.preventDefault();
  }

  /* Describe a cell next to the pointer, or next to the cell. */
  say(event = null) {
    const { content, rows, partNames } = this.page;
    const i = this.rows[this.at.row];
    if (i === undefined) return;
    const d = this.columns[this.at.column];
    const k = content.partOf[d];
    const state = k < 0 || this.page.model.type !== "states" ? "" : `, state ${argmax(this.panels.found[i].m[k])}`;
    const text = `${rows.names[i]}, ${content.names[d]}: ${this.page.terms[d].text(rows.row(i)[d])} (${k < 0 ? "no part" : partNames.get(k)}${state})`;
    this.status.textContent = text;
    this.tip.textContent = text;
    this.tip.hidden = false;
    const box = this.canvas.getBoundingClientRect();
    const left = event ? event.clientX : box.left + ((this.at.column + 0.5) / this.columns.length) * box.width;
    const top = event ? event.clientY : box.top + ((this.band + this.at.row * this.height) / this.canvas.height) * box.height;
    const { width, height } = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(left + 14, innerWidth - width - 4))}px`;
    this.tip.style.top = `${Math.max(4, Math.min(top + 14, innerHeight - height - 4))}px`;
  }
}

/* Find a row by its name, or by conditions such as "age > 40". What cannot be read is told in `problem`. */
function matcher(text, { content, terms }) {
  let problem = null;
  const tests = text.split(",").map((piece) => {
    const found = piece.match(/^\s*(.+?)\s*(<=|>=|=|<|>)\s*(\S.*?)\s*$/);
    if (!found) {
      const word = piece.trim().toLowerCase();
      return (name) => name.toLowerCase().includes(word);
    }
    const [, asked, sign, wanted] = found;
    const same = (name) => name.toLowerCase() === asked.toLowerCase();
    const column = content.names.includes(asked) ? content.names.indexOf(asked) : content.names.findIndex(same);
    if (column < 0) {
      const near = content.names.filter((name) => name.toLowerCase().includes(asked.toLowerCase())).slice(0, 3);
      problem = `There is no column "${asked}"${near.length ? `; similar: ${near.join(", ")}` : ""}.`;
      return () => false;
    }
    if (sign === "=" && wanted === "missing") return (_, row) => Number.isNaN(row[column]);
    const { names, ordered } = terms[column];
    if (names && !ordered && sign !== "=") {
      problem = `The levels of ${content.names[column]} have no order; use = instead of ${sign}.`;
      return () => false;
    }
    const value = terms[column].find(wanted);
    if (Number.isNaN(value)) {
      problem = `"${wanted}" is not a value of ${content.names[column]}${names ? `; its levels are ${names.slice(0, 6).join(", ")}${names.length > 6 ? ", …" : ""}` : ""}.`;
      return () => false;
    }
    const compare = { "<": (a) => a < value, ">": (a) => a > value, "<=": (a) => a <= value, ">=": (a) => a >= value, "=": (a) => a === value };
    return (_, row) => compare[sign](row[column]);
  });
  return { matches: (name, row) => tests.every((test) => test(name, row)), problem };
}

/* A list of rows that a search finds, of which one is chosen. */
class RowSearch {
  constructor(page, noun, hint, onchoose, onfind = null) {
    this.page = page;
    this.noun = noun;
    this.onchoose = onchoose;
    this.onfind = onfind;
    this.input = h("input", { type: "search", placeholder: hint, "aria-label": `Find ${noun}s`, oninput: () => this.find() });
    this.status = statusLine();
    this.list = h("div", { class: "found-rows" });
    this.element = h("div", { class: "search" }, this.input, this.status, this.list);
    this.find();
  }

  find() {
    const { rows } = this.page;
    const { matches, problem } = matcher(this.input.value, this.page);
    const found = [];
    for (let i = 0; i < rows.count; i++) if (matches(rows.names[i], rows.row(i))) found.push(i);
    const shown = found.slice(0, 24);
    this.group = new RadioGroup({
      label: `${this.noun}s found`,
      choices: shown.map((i) => ({ content: [rows.names[i]] })),
      onchoose: (at) => this.onchoose(shown[at]),
    });
    this.shown = shown;
    this.list.replaceChildren(this.group.element);
    const some = shown.length < found.length ? `, the first ${shown.length} shown` : "";
    this.status.textContent = problem ?? `${plural(found.length, this.noun)} found${rows.total > rows.count ? ` among the ${rows.count} on this page` : ""}${some}.`;
    this.status.classList.toggle("problem", problem !== null);
    this.mark(this.chosen);
    if (!this.onfind) return;
    /* Rows that are shown elsewhere are listed only for a search. */
    const asked = this.input.value.trim() !== "";
    for (const one of [this.list, this.status]) one.hidden = !asked;
    this.onfind(asked ? found : null);
  }

  mark(i) {
    this.chosen = i;
    const at = this.shown.indexOf(i);
    this.group.mark(at < 0 ? null : at);
  }
}
