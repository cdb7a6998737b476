/* Texts: parts of the vocabulary, words of each state, documents by state, and a text of the user. */

class TextPanels {
  constructor(page) {
    this.page = page;
    const { model, content, rows } = page;
    this.average = model.parts.map((part) => {
      const [block] = part.blocks;
      const out = new Float64Array(block.n);
      part.logMarginal.forEach((weight, j) => {
        for (let i = 0; i < block.n; i++) out[i] += Math.exp(weight) * block.means[j * block.n + i];
      });
      return out;
    });
    this.states = new StateWords(this);
    const panels = [this.states.element];
    if (!content.model.byRow) {
      this.reader = new TextReader(this);
      panels.push(this.reader.element);
    }
    this.element = h("div", {}, panels);
    this.states.choosePart(0);
    if (this.reader && rows.count) this.reader.show(0);
  }

  /* Words that are more frequent in a state, by their contribution to the divergence from the average. */
  words(k, j, n) {
    const [block] = this.page.model.parts[k].blocks;
    const gain = Float64Array.from({ length: block.n }, (_, i) => {
      const [own, all] = [block.means[j * block.n + i], this.average[k][i]];
      return block.own[i] && own > all ? block.gate[i] * (own * Math.log(own / all) - own + all) : -Infinity;
    });
    return descending(gain)
      .slice(0, n)
      .filter((i) => gain[i] > 0)
      .map((i) => ({ word: this.page.content.names[block.columns[i]], own: block.means[j * block.n + i], times: block.means[j * block.n + i] / this.average[k][i] }));
  }

  /* States of all documents, computed on first use. */
  get posteriors() {
    const { rows, model } = this.page;
    this.found ??= Array.from({ length: rows.count }, (_, i) => model.infer(rows.row(i)).m);
    return this.found;
  }
}

class StateWords {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, rows } = this.page;
    this.body = h("div", { class: "state-body" });
    this.chips = h("div", {});
    this.status = statusLine({ class: "sr" });
    this.parts = new RadioGroup({
      label: "Parts of the vocabulary",
      className: "vocabulary",
      choices: content.parts.map((part, k) => ({
        content: [h("strong", {}, swatch(part.color), `Part ${k}`), h("span", { class: "soft" }, this.preview(k))],
        name: `Part ${k}: ${this.preview(k)}`,
      })),
      onchoose: (k) => this.choosePart(k),
    });
    const heading = newId("words");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "Words that occur together"),
      h("p", {}, `Each part is a set of words whose counts depend on each other; each of its states is a pattern of their counts. Choose a part, then a state${rows.count && !content.model.byRow ? ", and see its words and documents" : ""}.`),
      this.parts.element,
      this.chips,
      this.status,
      this.body,
    );
  }

  /* The most common informative words of a part. */
  preview(k) {
    const order = this.page.content.parts[k].order;
    const gain = new Map();
    for (const j of order) for (const { word, own } of this.panels.words(k, j, 6)) gain.set(word, Math.max(own, gain.get(word) ?? 0));
    return Array.from(gain).sort((a, b) => b[1] - a[1]).slice(0, 6).map(([word]) => word).join(", ") || "no words";
  }

  choosePart(k) {
    this.part = k;
    this.parts.mark(k);
    const { order, shares } = this.page.content.parts[k];
    const group = new RadioGroup({
      label: `States of part ${k}`,
      choices: order.map((j, i) => ({ content: [`state ${j} · ${shares[i]}`] })),
      chosen: 0,
      onchoose: (i) => this.chooseState(order[i]),
    });
    this.chips.replaceChildren(h("div", { class: "buttons" }, group.element));
    if (order.length) this.chooseState(order[0]);
    else this.body.replaceChildren();
  }

  chooseState(j) {
    const { rows, content } = this.page;
    const words = this.panels.words(this.part, j, 24);
    const most = Math.max(...words.map(({ own }) => own), 1e-9);
    const pieces = [
      h(
        "div",
        {},
        h("h4", {}, "More often than elsewhere"),
        words.length
          ? h("ul", { class: "bars words" }, words.map(({ word, own, times }) => h("li", {}, h("span", {}, word), bar(own / most, `${formatNumber(own)} per text, ×${times.toFixed(1)}`))))
          : h("p", { class: "soft" }, "None: in this state the part's words are less frequent."),
      ),
    ];
    if (rows.count && !content.model.byRow) {
      const own = this.panels.posteriors.map((m, i) => ({ i, share: m[this.part][j] })).filter(({ share }) => share >= 0.5);
      own.sort((a, b) => b.share - a.share || a.i - b.i);
      pieces.push(
        h(
          "div",
          {},
          h("h4", {}, `${plural(own.length, "document")} of ${rows.count} here`),
          h(
            "ul",
            { class: "links" },
            own.slice(0, 12).map(({ i, share }) =>
              h("li", {}, h("button", { type: "button", class: "small", onclick: () => this.panels.reader.show(i, true) }, rows.names[i]), h("span", { class: "soft" }, ` ${formatPercent(share)}`)),
            ),
          ),
        ),
      );
    }
    this.body.replaceChildren(...pieces);
    this.status.textContent = `State ${j} of part ${this.part}: ${words.slice(0, 8).map(({ word }) => word).join(", ")}`;
  }
}

/* A document, or any text: the state of each part and the words that determine it. */
class TextReader {
  constructor(panels) {
    this.panels = panels;
    this.page = panels.page;
    const { content, rows } = this.page;
    this.page.terms = content.names.map(() => new Terms({}, { levels: null }));
    this.places = new Map(content.names.map((name, d) => [name.toLowerCase(), d]));
    this.name = h("h4", {}, "A text");
    this.status = statusLine();
    this.parts = h("div", { class: "row-parts" });
    this.search = rows.count ? new RowSearch(this.page, "document", "words of a title", (i) => this.show(i)) : null;
    this.area = h("textarea", { rows: "4", "aria-label": "Your own text", placeholder: "Or paste your own text", oninput: () => this.read() });
    const heading = newId("text");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "One document"),
      this.search?.element,
      this.area,
      this.name,
      this.status,
      this.parts,
    );
    this.values = new Float64Array(content.names.length);
  }

  show(i, move = false) {
    const { rows } = this.page;
    this.name.textContent = rows.names[i];
    this.search?.mark(i);
    this.values = rows.row(i);
    this.infer();
    if (move) this.element.scrollIntoView({ block: "start" });
  }

  /* Count the known words of what was typed. */
  read() {
    const words = this.area.value.toLowerCase().match(/[\p{L}\p{N}'_-]+/gu) ?? [];
    this.values = new Float64Array(this.places.size);
    let known = 0;
    for (const word of words) {
      const d = this.places.get(word);
      if (d === undefined) continue;
      this.values[d] += 1;
      known += 1;
    }
    this.name.textContent = "Your text";
    this.infer(`${known} of ${plural(words.length, "word")} are in the vocabulary.`);
  }

  infer(said = "") {
    const { model, content } = this.page;
    const found = model.infer(this.values);
    const parts = model.explain(this.values, found);
    this.status.textContent = `${said} States: ${parts.map((part) => part.state).join(", ")}.`.trim();
    this.parts.replaceChildren(
      ...parts.map((part, k) => {
        const present = part.columns.filter((one) => one.value > 0 && one.evidence > 0).slice(0, 10);
        return h(
          "section",
          { class: "card", style: { "--part": content.parts[k].color } },
          h("h4", {}, `Part ${k} `, h("span", { class: "soft" }, `state ${part.state}, ${formatPercent(part.probability)}`)),
          h("p", { class: "score" }, `Log-likelihood ${part.logLikelihood.toFixed(1)} nats`),
          present.length
            ? h("ul", { class: "names" }, present.map((one) => h("li", {}, `${content.names[one.column]} ${one.value}×`)))
            : h("p", { class: "soft" }, "No word supports this state; the absence of others does."),
        );
      }),
    );
  }
}
