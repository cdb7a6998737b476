/* Tables: one row with its states, expected values and anomalous cells. */

/* A value that is this much less likely in its state than the most likely one is marked: 20 times. */
const UNUSUAL = -3;
/* An expected level with a lower probability is shown with it. */
const LIKELY = 0.5;
/* Characters of the narrowest and the widest field of a number. */
const FIELD_WIDTH = [9, 24];

/* Values that near-duplicates give to columns, as the library imputes them, with their spread and the other column. */
function toldByTwins(twins, values) {
  const told = new Map();
  const isKnown = (d) => !Number.isNaN(values[d]);
  for (const { follower, leader, to, spread } of twins) {
    if (told.has(leader) || !isKnown(follower)) continue;
    const value = spread === null ? to.indexOf(values[follower]) : (values[follower] - to[0]) / to[1];
    told.set(leader, { value, spread: spread === null ? 0 : spread / Math.abs(to[1]), by: follower });
  }
  for (const { follower, leader, to, spread } of twins) {
    /* A missing leader that has its value from this very column says nothing new about it. */
    const lead = isKnown(leader) ? values[leader] : isKnown(follower) ? undefined : told.get(leader)?.value;
    if (lead === undefined) continue;
    told.set(follower, { value: spread === null ? to[lead] : to[0] + to[1] * lead, spread: spread ?? 0, by: leader });
  }
  return told;
}

/* Whether a value agrees with its near-duplicate: an unusual one is as far from it as others from their state. */
function isFromTwin(value, told) {
  const away = Math.abs(value - told.value);
  return away <= 1e-9 * (Math.abs(value) + Math.abs(told.value)) || -0.5 * (away / told.spread) ** 2 >= UNUSUAL;
}

/* One row: the state of each part and why, its anomaly score, its imputed values. */
class RowReader {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, model, rows } = this.page;
    this.name = h("h4", {}, "New row");
    this.status = statusLine();
    this.expert = h("input", { type: "checkbox", onchange: () => this.element.classList.toggle("expert", this.expert.checked) });
    this.values = new Float64Array(content.names.length).fill(NaN);
    this.listed = new Map(); /* anomalous cells, while the row is as in the data */
    this.cards = content.parts.map((part, k) => this.card(part.color, k));
    this.cards.forEach((card, k) => (card.element.hidden = !panels.own[k].length));
    if (panels.own[content.parts.length].length) this.cards.push(this.card("#808080", content.parts.length));
    this.classes = h("div", {});
    const heading = newId("row");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "One row"),
      h("p", {}, `The ${model.noun === "state" ? "state" : "factors"} of the row in each part, and what the model expects in each cell. Change or delete a value to see the effect.`),
      h(
        "div",
        { class: "buttons" },
        this.name,
        rows.count ? h("button", { type: "button", class: "small", onclick: () => this.restore() }, "Reset") : null,
        h("label", { class: "check soft" }, this.expert, "for the statistician"),
      ),
      this.status,
      this.classes,
      h("div", { class: "row-parts" }, this.cards.map((card) => card.element)),
    );
    this.infer();
  }

  card(color, k) {
    const lines = this.panels.own[k].map((d) => this.line(d));
    const title = h("span", {});
    const sentence = h("p", { class: "sentence" });
    const score = h("p", { class: "score" });
    /* Roles, since a table in blocks, as on narrow screens, is none to screen readers. */
    const head = h("tr", { role: "row" }, ["column", "value", "expected", "evidence in nats"].map((word, i) => h("th", { scope: "col", role: "columnheader", class: i === 3 ? "nats" : null }, word)));
    const table = (some) => h("table", { role: "table" }, h("thead", { role: "rowgroup" }, head.cloneNode(true)), h("tbody", { role: "rowgroup" }, some.map((line) => line.element)));
    const most = 12;
    return {
      lines,
      title,
      sentence,
      score,
      element: h(
        "section",
        { class: "card", style: { "--part": color } },
        h("h4", {}, k < this.page.content.parts.length ? this.page.partNames.show(h("span", {}), k) : "No part", " ", title),
        sentence,
        score,
        h("div", { class: "wide" }, table(lines.slice(0, most))),
        lines.length > most ? h("details", {}, h("summary", {}, `${plural(lines.length - most, "more column")}`), h("div", { class: "wide" }, table(lines.slice(most)))) : null,
      ),
    };
  }

  /* One column of the row: its value, to be changed, and what is expected of it. */
  line(d) {
    const { content, terms } = this.page;
    const input = terms[d].field({ "aria-label": content.names[d] }, () => {
      this.values[d] = terms[d].read(input.value);
      this.listed = new Map();
      this.fit(input);
      this.infer();
    });
    const expected = h("td", { role: "cell" });
    const evidence = h("td", { role: "cell", class: "nats" });
    return {
      d,
      input,
      expected,
      evidence,
      element: h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, breakable(content.names[d]), this.twinNote(d)), h("td", { role: "cell" }, input), expected, evidence),
    };
  }

  /* Of which columns a column is nearly a copy. */
  twinNote(d) {
    const { names, twins } = this.page.content;
    const others = twins.flatMap(({ follower, leader }) => (follower === d ? [leader] : leader === d ? [follower] : []));
    if (!others.length) return null;
    const some = others.slice(0, 3).map((other) => names[other]).join(", ");
    return h("span", { class: "soft twin" }, breakable(`nearly a copy of ${some}${others.length > 3 ? " and others" : ""}`));
  }

  /* A number's field is as wide as the number, so that no digit or exponent is hidden. */
  fit(input) {
    if (input.type !== "number") return;
    const [least, most] = FIELD_WIDTH;
    input.style.setProperty("width", `${Math.min(Math.max(input.value.length + 2, least), most)}ch`);
  }

  restore() {
    if (this.shown !== undefined) this.show(this.shown);
  }

  show(i) {
    const { rows } = this.page;
    this.shown = i;
    this.name.textContent = rows.names[i];
    this.values = rows.row(i);
    this.listed = this.panels.listed(i);
    for (const card of this.cards) {
      for (const { d, input } of card.lines) {
        input.value = this.page.terms[d].raw(this.values[d]);
        this.fit(input);
      }
    }
    this.infer();
  }

  infer() {
    const { model, content } = this.page;
    const found = model.infer(this.values);
    const filled = model.fill(found);
    const twins = toldByTwins(content.twins, this.values);
    for (const [d, { value }] of twins) if (Number.isNaN(this.values[d])) filled[d] = value;
    const parts = model.explain(this.values, found, this.cards.length);
    const anomalous = [];
    this.cards.forEach((card, k) => {
      const columns = parts[k]?.columns ?? [];
      if (k < content.parts.length && this.describe(card, k, parts[k])) anomalous.push(k);
      const told = new Map(columns.map((one) => [one.column, one]));
      for (const line of card.lines) {
        const one = told.get(line.d);
        const rare = this.listed.get(line.d);
        const twin = twins.get(line.d);
        const chance = one && !twin && one.share < LIKELY ? ` (${formatPercent(one.share)})` : "";
        const isUnusual = twin ? !isFromTwin(this.values[line.d], twin) : Boolean(one) && one.below < UNUSUAL;
        const isMissing = Number.isNaN(this.values[line.d]);
        line.expected.textContent = rare ? rare.expected : this.page.terms[line.d].text(twin?.value ?? (one ? one.expected : filled[line.d])) + chance;
        line.expected.title = rare ? "As in the list of anomalous cells: expected without the help of this cell" : twin ? `Expected from ${content.names[twin.by]}` : "";
        line.expected.classList.toggle("filled", isMissing);
        line.expected.classList.toggle("unusual", Boolean(rare) || (isUnusual && !isMissing));
        line.evidence.textContent = one ? one.evidence.toFixed(2) : "";
      }
    });
    this.filled = filled;
    const missing = this.panels.own.flat().reduce((count, d) => count + Number(Number.isNaN(this.values[d])), 0);
    const rare = Array.from(this.listed.keys(), (d) => content.names[d]);
    this.status.textContent = [
      rare.length ? `Anomalous ${rare.length > 1 ? "cells" : "cell"}: ${rare.join(", ")}.` : "",
      anomalous.length ? `Anomalous ${anomalous.length > 1 ? "parts" : "part"}: ${anomalous.map((k) => this.page.partNames.get(k)).join("; ")}.` : "",
      missing ? `${plural(missing, "cell")} missing; imputed values are underlined.` : "No cell is missing.",
      `Underlined in red: ${content.overview.anomalous?.length ? "anomalous cells, with what the list above expects, and " : ""}values at least 20 times less likely than the most likely one in this state.`,
    ].filter(Boolean).join(" ");
    if (!content.classes.length) return;
    const shares = model.classes(this.values, found);
    this.classes.replaceChildren(...classBars(model, content.classes, shares));
  }

  /* Say the state or the factors of a part, and whether its values are anomalous. */
  describe(card, k, part) {
    const { model, content } = this.page;
    const share = part.logLikelihood === null ? null : this.panels.scoreRank(k, this.panels.anomalyScore(k, part.logLikelihood, this.values));
    const nothing = part.columns.length === 0;
    card.title.replaceChildren(
      model.type === "states"
        ? h("span", { class: "soft" }, `state ${part.state}${part.probability > 0.995 ? "" : `, with a probability of ${formatPercent(part.probability)}`}`)
        : h("span", { class: "soft" }, `factors ${content.parts[k].order.map((j) => fixed(part.factors[j], 2)).join(", ")}`),
    );
    const isAnomalous = share !== null && share >= 0.98 && !nothing;
    card.element.classList.toggle("is-anomalous", isAnomalous);
    card.sentence.textContent = model.type === "states" ? (content.parts[k].sentences?.[part.state] ?? "") : "";
    card.score.replaceChildren(
      nothing ? "All of its values are missing." : share !== null && share >= 0.9 ? `More anomalous than ${share === 1 ? "all other rows" : `${formatPercent(share)} of the rows`} here.` : "",
      part.logLikelihood === null || nothing ? "" : h("span", { class: "nats" }, ` Log-likelihood ${part.logLikelihood.toFixed(2)} nats.`),
    );
    return isAnomalous;
  }
}
