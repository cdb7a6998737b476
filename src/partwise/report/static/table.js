/* Tables: a map of all cells in the order of parts, and one row with its reasons. */

class TablePanels {
  constructor(page) {
    this.page = page;
    const { rows, content } = page;
    const panels = [];
    this.canInfer = !content.model.byRow;
    page.terms = content.names.map((_, d) => new Terms(content.terms[d] ?? {}, page.model.columns[d].levels));
    this.own = content.parts.map((_, k) => content.columnOrder.filter((d) => content.partOf[d] === k));
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
    if (!panels.length) panels.push(h("p", {}, "With gating=\"factorised\" each row has its own gates; use Python to look at rows."));
    this.element = h("div", {}, panels);
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

  choose(i) {
    this.map?.markRow(i);
    this.reader.show(i);
  }
}

/* How a column's numbers are written: levels by name, logarithms as what they are of, days as dates. */
class Terms {
  constructor({ levels, offset, date }, codes) {
    this.codes = codes;
    this.names = levels ?? codes?.map(formatNumber) ?? null;
    this.offset = offset;
    this.date = date;
  }

  /* As the field of a form has it. */
  raw(value) {
    if (Number.isNaN(value)) return "";
    if (this.names) return this.names[levelCode(this.codes, value)];
    if (this.date) return new Date(864e5 * value).toISOString().slice(0, this.date === "date" ? 10 : 16);
    return String(this.offset === undefined ? value : Number((Math.exp(value) - this.offset).toPrecision(12)));
  }

  text(value) {
    if (Number.isNaN(value)) return "missing";
    return this.names || this.date ? this.raw(value) : formatNumber(Number(this.raw(value)));
  }

  /* Back to a number, NaN for what is none. */
  read(text) {
    if (text === "") return NaN;
    if (this.names) return this.codes[this.names.indexOf(text)] ?? NaN;
    if (this.date) return Date.parse(text.length > 10 ? `${text}Z` : text) / 864e5;
    return this.offset === undefined ? Number(text) : Math.log(Number(text) + this.offset);
  }

  field(attributes, onchange) {
    if (!this.names) return h("input", { ...attributes, type: this.date ?? "number", step: "any", placeholder: "missing", oninput: onchange });
    const options = ["", ...this.names].map((name) => h("option", { value: name }, name || "missing"));
    return h("select", { ...attributes, onchange }, options);
  }
}

const MOST_LABELS = 16;

class HeatMap {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, rows, model } = this.page;
    this.columns = content.columnOrder;
    this.at = { row: 0, column: 0 };
    this.status = statusLine();
    this.order = h(
      "select",
      { "aria-label": "Order of the rows", onchange: () => this.sort() },
      h("option", { value: "given" }, "their place in the data"),
      content.parts.map((_, k) => h("option", { value: `part${k}` }, `${model.noun === "state" ? "state" : "first factor"} of part ${k}`)),
      panels.sorted[0] ? content.parts.map((_, k) => h("option", { value: `score${k}` }, `anomaly score of part ${k}`)) : null,
    );
    this.width = Math.max(3, Math.floor(1040 / this.columns.length));
    this.height = Math.max(3, Math.min(16, Math.floor(900 / rows.count)));
    this.band = 10;
    this.canvas = h("canvas", {
      class: "heat",
      width: this.width * this.columns.length,
      height: this.band + this.height * rows.count,
      tabindex: "0",
      role: "application",
      "aria-label": `Heat map of ${plural(rows.count, "row")} and ${plural(this.columns.length, "column")}. Arrow keys move over the cells, enter explains the row.`,
    });
    this.canvas.addEventListener("click", (event) => this.point(event, true));
    this.canvas.addEventListener("pointermove", (event) => this.point(event, false));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.say());
    const heading = newId("map");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "The table"),
      h("p", {}, "Columns stand by part (the band on top), rows in an order of your choice. Red is above a column's mean, blue below, orange is missing. Choose a row to see what it is made of."),
      h("div", { class: "buttons" }, h("span", { "aria-hidden": "true" }, "Rows by"), this.order),
      h("div", { class: "heat-holder" }, this.labels(), this.canvas),
      this.status,
    );
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.chosen = 0;
    this.units = this.measure();
    this.order.value = "part0";
    this.sort();
  }

  /* Mean and standard deviation of every column here. */
  measure() {
    const { rows, content } = this.page;
    const all = Array.from({ length: rows.count }, (_, i) => rows.row(i));
    return content.names.map((_, d) => {
      const seen = all.map((row) => row[d]).filter((value) => !Number.isNaN(value));
      const mean = seen.reduce((a, b) => a + b, 0) / Math.max(seen.length, 1);
      const variance = seen.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(seen.length, 1);
      return { mean, spread: Math.sqrt(variance) || 1 };
    });
  }

  /* Names above the columns, where there is room for them. */
  labels() {
    if (this.columns.length > MOST_LABELS) return null;
    const names = this.columns.map((d) => h("span", {}, this.page.content.names[d]));
    return h("div", { class: "heat-labels", "aria-hidden": "true", style: { "--columns": names.length } }, names);
  }

  sort() {
    const { rows, model, content } = this.page;
    const all = Array.from({ length: rows.count }, (_, i) => i);
    const word = this.order.value;
    const k = Number(word.replace(/\D/g, ""));
    if (word.startsWith("part")) {
      const place = (i) => {
        const own = this.panels.found[i].m[k];
        return model.type === "states" ? content.parts[k].order.indexOf(argmax(own)) : -own[content.parts[k].order[0] ?? 0];
      };
      const key = all.map(place);
      all.sort((a, b) => key[a] - key[b] || a - b);
    } else if (word.startsWith("score")) {
      const key = all.map((i) => this.panels.scores[i][k]).map((one) => (Number.isNaN(one) ? -Infinity : one));
      all.sort((a, b) => key[b] - key[a] || a - b);
    }
    this.rows = all;
    this.draw();
  }

  /* Color of a cell: how far it is from its column's mean. */
  color(value, d, colors) {
    if (Number.isNaN(value)) return colors.missing;
    const { mean, spread } = this.units[d];
    const away = Math.max(-1, Math.min(1, (value - mean) / (2 * spread)));
    const end = away > 0 ? colors.high : colors.low;
    return colors.page.map((from, c) => Math.round(from + Math.abs(away) * (end[c] - from)));
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const colors = Object.fromEntries(["missing", "high", "low", "page"].map((name) => [name, channels(pageColor(`--${name}`))]));
    const { content, rows } = this.page;
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
    /* Parts are set apart by a line. */
    context.fillStyle = pageColor("--page");
    this.columns.forEach((d, x) => {
      if (x && content.partOf[d] !== content.partOf[this.columns[x - 1]]) context.fillRect(x * this.width, 0, 1, this.canvas.height);
    });
    const y = this.rows.indexOf(this.chosen);
    context.strokeStyle = pageColor("--text");
    context.lineWidth = 2;
    context.strokeRect(1, this.band + y * this.height, this.canvas.width - 2, this.height);
  }

  markRow(i) {
    this.chosen = i;
    this.draw();
  }

  point(event, chosen) {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * this.columns.length);
    const down = ((event.clientY - box.top) / box.height) * this.canvas.height - this.band;
    const y = Math.floor(down / this.height);
    if (x < 0 || y < 0 || x >= this.columns.length || y >= this.rows.length) return;
    this.at = { row: y, column: x };
    this.say();
    if (chosen) this.panels.choose(this.rows[y]);
  }

  key(event) {
    if (event.key in ARROWS) {
      const [down, right] = ARROWS[event.key];
      this.at.row = inside(this.at.row + down, this.rows.length);
      this.at.column = inside(this.at.column + right, this.columns.length);
      if (down) this.markRow(this.rows[this.at.row]);
      this.say();
    } else if (event.key === "Enter" || event.key === " ") {
      this.panels.choose(this.rows[this.at.row]);
    } else return;
    event.preventDefault();
  }

  say() {
    const { content, rows } = this.page;
    const i = this.rows[this.at.row];
    const d = this.columns[this.at.column];
    const k = content.partOf[d];
    this.status.textContent = `${rows.names[i]}, ${content.names[d]} (${k < 0 ? "background" : `part ${k}`}): ${this.page.terms[d].text(rows.row(i)[d])}`;
  }
}

/* Find a row by its name, or by conditions such as "age > 40". */
function matcher(text, { content, terms }) {
  const tests = text.split(",").map((piece) => {
    const found = piece.match(/^\s*(.+?)\s*(<=|>=|=|<|>)\s*(\S.*?)\s*$/);
    const column = found ? content.names.indexOf(found[1]) : -1;
    if (column < 0) {
      const word = piece.trim().toLowerCase();
      return (name) => name.toLowerCase().includes(word);
    }
    const [, , sign, wanted] = found;
    const value = terms[column].read(wanted);
    const compare = { "<": (a) => a < value, ">": (a) => a > value, "<=": (a) => a <= value, ">=": (a) => a >= value, "=": (a) => a === value };
    if (sign === "=" && wanted === "missing") return (_, row) => Number.isNaN(row[column]);
    return (_, row) => compare[sign](row[column]);
  });
  return (name, row) => tests.every((test) => test(name, row));
}

/* A list of rows that a search finds, of which one is chosen. */
class RowSearch {
  constructor(page, noun, hint, onchoose) {
    this.page = page;
    this.noun = noun;
    this.onchoose = onchoose;
    this.input = h("input", { type: "search", placeholder: hint, "aria-label": `Find ${noun}s`, oninput: () => this.find() });
    this.status = statusLine();
    this.list = h("div", { class: "found-rows" });
    this.element = h("div", { class: "search" }, this.input, this.status, this.list);
    this.find();
  }

  find() {
    const { rows } = this.page;
    const matches = matcher(this.input.value, this.page);
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
    this.status.textContent = `${plural(found.length, this.noun)} found${shown.length < found.length ? `, the first ${shown.length} shown` : ""}.`;
    this.mark(this.chosen);
  }

  mark(i) {
    this.chosen = i;
    const at = this.shown.indexOf(i);
    this.group.mark(at < 0 ? null : at);
  }
}

/* One row: the state of each part and why, its anomaly score, its imputed values. */
class RowReader {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, model, rows } = this.page;
    this.name = h("h4", {}, "New row");
    this.status = statusLine();
    this.search = rows.count ? new RowSearch(this.page, "row", "name, or column > 3, column = missing", (i) => panels.choose(i)) : null;
    this.values = new Float64Array(content.names.length).fill(NaN);
    this.cards = content.parts.map((part, k) => this.card(part, k));
    this.classes = h("div", {});
    const heading = newId("row");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "One row"),
      h("p", {}, `What the model sees in a row, part by part. Change a value, or empty it, and see what follows. Support is the evidence of a value for the ${model.noun === "state" ? "state" : "factors"}, in nats.`),
      this.search?.element,
      h("div", { class: "buttons" }, this.name, rows.count ? h("button", { type: "button", class: "small", onclick: () => this.restore() }, "Reset") : null),
      this.status,
      this.classes,
      h("div", { class: "row-parts" }, this.cards.map((card) => card.element)),
    );
    this.infer();
  }

  card(part, k) {
    const lines = this.panels.own[k].map((d) => this.line(d));
    const title = h("span", {});
    const score = h("p", { class: "score" });
    const head = h("tr", {}, ["column", "value", "expected", "evidence"].map((word) => h("th", { scope: "col" }, word)));
    const table = (some) => h("table", {}, h("thead", {}, head.cloneNode(true)), h("tbody", {}, some.map((line) => line.element)));
    const most = 12;
    return {
      lines,
      title,
      score,
      element: h(
        "section",
        { class: "card", style: { "--part": part.color } },
        h("h4", {}, `Part ${k} `, title),
        score,
        h("div", { class: "wide" }, table(lines.slice(0, most))),
        lines.length > most ? h("details", {}, h("summary", {}, `${lines.length - most} more columns`), h("div", { class: "wide" }, table(lines.slice(most)))) : null,
      ),
    };
  }

  /* One column of the row: its value, to be changed, and what is expected of it. */
  line(d) {
    const { content, terms } = this.page;
    const input = terms[d].field({ "aria-label": content.names[d] }, () => {
      this.values[d] = terms[d].read(input.value);
      this.infer();
    });
    const expected = h("td", {});
    const evidence = h("td", {});
    return {
      d,
      input,
      expected,
      evidence,
      element: h("tr", {}, h("th", { scope: "row" }, content.names[d]), h("td", {}, input), expected, evidence),
    };
  }

  restore() {
    if (this.shown !== undefined) this.show(this.shown);
  }

  show(i) {
    const { rows } = this.page;
    this.shown = i;
    this.search?.mark(i);
    this.name.textContent = rows.names[i];
    this.values = rows.row(i);
    for (const card of this.cards) {
      for (const { d, input } of card.lines) input.value = this.page.terms[d].raw(this.values[d]);
    }
    this.infer();
  }

  infer() {
    const { model, content } = this.page;
    const found = model.infer(this.values);
    const filled = model.fill(found);
    const parts = model.explain(this.values, found);
    const anomalous = [];
    parts.forEach((part, k) => {
      const card = this.cards[k];
      const share = part.logLikelihood === null ? null : this.panels.scoreRank(k, this.panels.anomalyScore(k, part.logLikelihood, this.values));
      const nothing = part.columns.length === 0;
      card.title.replaceChildren(
        model.type === "states"
          ? h("span", { class: "soft" }, `state ${part.state}, ${formatPercent(part.probability)}`)
          : h("span", { class: "soft" }, `factors ${content.parts[k].order.map((j) => fixed(part.factors[j], 2)).join(", ")}`),
      );
      const isAnomalous = share !== null && share >= 0.98 && !nothing;
      if (isAnomalous) anomalous.push(k);
      card.element.classList.toggle("is-anomalous", isAnomalous);
      card.score.textContent = nothing
        ? "All of its values are missing."
        : part.logLikelihood === null
          ? ""
          : `Log-likelihood ${part.logLikelihood.toFixed(2)} nats${share === null ? "" : `, more anomalous than ${formatPercent(share)} of the rows here`}`;
      const told = new Map(part.columns.map((one) => [one.column, one]));
      for (const line of card.lines) {
        const one = told.get(line.d);
        line.expected.textContent = this.page.terms[line.d].text(one ? one.expected : filled[line.d]);
        line.expected.classList.toggle("filled", !one);
        line.evidence.textContent = one ? one.evidence.toFixed(2) : "";
      }
    });
    this.filled = filled;
    const missing = this.values.reduce((count, value) => count + Number(Number.isNaN(value)), 0);
    this.status.textContent = `${anomalous.length ? `Anomalous: ${anomalous.map((k) => `part ${k}`).join(", ")}. ` : ""}${missing ? `${plural(missing, "cell")} missing; imputed values are underlined.` : "No cell is missing."}`;
    if (!content.classes.length) return;
    const shares = model.classes(this.values, found);
    this.classes.replaceChildren(...classBars(model, content.classes, shares));
  }
}
