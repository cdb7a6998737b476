/* The overview of a table: names of parts that can be changed, the map of ties, lists, files. */

/* Names of the parts, as the reader changes them. They are kept by the browser where it allows it. */
class PartNames {
  constructor(parts, title) {
    this.usual = parts.map((part, k) => part.name || `Part ${k}`);
    this.key = `partwise names: ${title}`;
    this.listeners = [];
    this.own = {};
    try {
      this.own = JSON.parse(localStorage.getItem(this.key) ?? "{}");
    } catch {
      /* a page in a sandbox, or opened as a file, may have no storage */
    }
  }

  get(k) {
    return this.own[k] ?? this.usual[k];
  }

  /* The reader's name, or the number. */
  short(k) {
    return this.own[k] ?? `Part ${k}`;
  }

  set(k, name) {
    if (name.trim() && name.trim() !== this.usual[k]) this.own[k] = name.trim();
    else delete this.own[k];
    try {
      localStorage.setItem(this.key, JSON.stringify(this.own));
    } catch {
      /* the name lasts as long as the page is open */
    }
    for (const listener of this.listeners) listener(k);
  }

  /* Show the name of a part in an element, now and after each change. */
  show(element, k, short = false) {
    const update = () => (element.textContent = short ? this.short(k) : this.get(k));
    this.listeners.push((changed) => changed === k && update());
    update();
    return element;
  }
}

/* Text of a CSV file: values with separators, quotes or line ends are quoted. */
function csvText(lines) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return lines.map((line) => line.map(quoted).join(",")).join("\r\n") + "\r\n";
}

function downloadCsv(name, lines) {
  const link = h("a", { href: URL.createObjectURL(new Blob([csvText(lines)], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/* Lower half of a matrix of strengths, with names along the diagonal; `space` is that of SVG. */
function tieMap(space, { columns, cells, absent, of_data: ofData }, { names, partOf, parts }) {
  const n = columns.length;
  const strength = unpack(cells, n * n);
  const isAbsent = unpack(absent, n * n);
  const cell = 16;
  const shorten = (name) => (name.length > 26 ? `${name.slice(0, 25)}…` : name);
  /* Room for the names that stand right of the last squares. */
  const room = 8 + Math.max(...columns.map((d, y) => 7 * shorten(names[d]).length - (n - 1 - y) * cell));
  const make = (tag, attributes, ...children) => {
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const shapes = [];
  columns.forEach((d, y) => {
    for (let x = 0; x < y; x++) {
      const size = strength[y * n + x] / 255;
      if (size < 0.04) continue;
      const lacks = isAbsent[y * n + x] > 0;
      const title = make("title", {}, `${names[columns[x]]} and ${names[d]}: ${size.toFixed(2)}${lacks ? ", not in the model" : ""}`);
      const square = { x: x * cell, y: y * cell, width: cell - 1, height: cell - 1 };
      if (!lacks) shapes.push(make("rect", { ...square, "fill-opacity": size.toFixed(2), class: "tie" }, title));
      else {
        /* Ties that the model has not are hatched; the square takes the pointer. */
        const lines = [5, 10, 15, 20, 25].map((at) => `M${x * cell + Math.max(at - 15, 0)} ${y * cell + Math.min(at, 15)}L${x * cell + Math.min(at, 15)} ${y * cell + Math.max(at - 15, 0)}`);
        shapes.push(make("path", { d: lines.join(""), "stroke-opacity": size.toFixed(2), class: "absent-tie" }), make("rect", { ...square, "fill-opacity": 0 }, title));
      }
    }
    const color = partOf[d] < 0 ? "#808080" : parts[partOf[d]].color;
    shapes.push(make("rect", { x: y * cell, y: y * cell, width: cell - 1, height: cell - 1, fill: color }));
    shapes.push(make("text", { x: (y + 1) * cell + 3, y: y * cell + 0.75 * cell }, shorten(names[d])));
  });
  const picture = make("svg", { class: "tie-map", width: n * cell + room, height: n * cell, viewBox: `0 0 ${n * cell + room} ${n * cell}`, role: "img", "aria-label": `Map of the ties of ${n} columns; the list has their names and strengths` }, ...shapes);
  return h("figure", {}, h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Map of ties" }, picture), h("figcaption", {}, `The stronger the color of a square, the stronger the tie between its two columns${ofData ? " in the data, of either sign; hatched where the data have at least 0.3 and the model has none" : ""}. Colors on the diagonal are parts.`));
}

/* Buttons and names in the page's own text. */
class OverviewPanels {
  constructor(page) {
    this.page = page;
    const { content } = page;
    for (const element of document.querySelectorAll("[data-part]")) page.partNames.show(element, Number(element.dataset.part));
    for (const element of document.querySelectorAll("[data-short]")) page.partNames.show(element, Number(element.dataset.short), true);
    for (const button of document.querySelectorAll("[data-more]")) {
      button.addEventListener("click", () => {
        document.getElementById(button.dataset.more).classList.add("all");
        button.hidden = true;
      });
    }
    for (const button of document.querySelectorAll("[data-csv]")) {
      button.addEventListener("click", () => downloadCsv(`${button.dataset.csv}.csv`, this.lines(button.dataset.csv)));
    }
    for (const button of document.querySelectorAll("[data-rename]")) button.addEventListener("click", () => this.rename(button));
    page.partNames.listeners.push(() => this.showOwnNames());
    this.showOwnNames();
    const { ties } = content.overview;
    const place = document.getElementById("tie-map");
    if (place && ties.columns.length > 1) place.replaceChildren(tieMap(place.firstChild.namespaceURI, ties, content));
  }

  /* The line of Python that gives the parts the names of the reader. */
  showOwnNames() {
    const { own } = this.page.partNames;
    const place = document.getElementById("own-names");
    place.hidden = !Object.keys(own).length;
    const names = Object.entries(own).map(([k, name]) => `${k}: ${JSON.stringify(name)}`);
    place.querySelector("code").textContent = `model.set_params(part_names={${names.join(", ")}})`;
  }

  /* A field instead of the name; Enter keeps it, Escape does not. */
  rename(button) {
    const k = Number(button.dataset.rename);
    const { partNames } = this.page;
    const shown = button.parentElement.querySelector("[data-part]");
    const input = h("input", { type: "text", "aria-label": `Name of part ${k}`, value: partNames.get(k) });
    let ended = false; /* removing the field makes it lose the focus */
    const end = (keep) => {
      if (ended) return;
      ended = true;
      if (keep) partNames.set(k, input.value);
      input.replaceWith(shown);
      button.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); /* the button that gets the focus is not pressed by the same key */
      end(event.key === "Enter");
    });
    input.addEventListener("blur", () => end(true));
    shown.replaceWith(input);
    input.select();
    input.focus();
  }

  /* Lines of a file, the head first. */
  lines(what) {
    const { content, partNames } = this.page;
    const { overview, names } = content;
    if (what === "columns") {
      const part = (k) => (k < 0 ? "" : partNames.get(k));
      const lines = overview.columns.map((one) => [one.name, one.kind, one.why, one.missing, one.typical, part(one.part)]);
      return [["column", "kind", "description", "missing", "typical", "part"], ...lines];
    }
    if (what === "ties") {
      const lines = overview.ties.pairs.map(({ a, b, data, strength }) => [names[a], names[b], data?.toFixed(4), strength.toFixed(4)]);
      return [["column", "other column", "in the data", "in the model"], ...lines];
    }
    const cells = overview.anomalous.map((one) => [one.row, names[one.column], one.value, one.expected, one.surprise.toFixed(3)]);
    return [["row", "column", "value", "expected", "surprise in nats"], ...cells];
  }
}
