/* Parts that move on their own: a sketch in which they are dragged. */

class MovingModel {
  constructor(content, nColumns) {
    this.type = "moving";
    const [height, width] = content.shape;
    Object.assign(this, { height, width, nColumns, nStates: content.nStates, most: content.most, canvas: content.canvas });
    this.odds = unpackRows(content.odds, content.odds.shape[1]);
    this.means = unpackRows(content.means, content.odds.shape[1]); /* part after part, state after state */
    this.background = unpack(content.background, nColumns);
    this.shifts = content.shifts; /* [down, right] of the window on the canvas */
    this.shiftShares = content.shiftShares;
    this.stateShares = content.stateShares;
    this.nParts = this.odds.length;
  }

  /* Pixel of a part's canvas that each pixel of the image shows. */
  at(k, places, row, column) {
    return (row + this.most[0] + places[k][0]) * this.canvas[1] + column + this.most[1] + places[k][1];
  }

  /* Expected image of parts at places (shifts) in states, and the share of a part at every pixel. */
  compose(places, states) {
    const values = Float64Array.from(this.background);
    const shares = this.odds.map(() => new Float64Array(this.nColumns));
    for (let pixel = 0; pixel < this.nColumns; pixel++) {
      const row = Math.floor(pixel / this.width);
      const column = pixel % this.width;
      let total = 1;
      for (let k = 0; k < this.nParts; k++) {
        const u = this.at(k, places, row, column);
        const odds = this.odds[k][u];
        values[pixel] += odds * this.means[k * this.nStates + states[k]][u];
        shares[k][pixel] = odds;
        total += odds;
      }
      values[pixel] /= total;
      for (const own of shares) own[pixel] /= total;
    }
    return { values, shares };
  }

  /* Share of places at which a part covers each pixel, relative to the largest. */
  reach(k) {
    const out = new Float64Array(this.nColumns);
    this.shifts.forEach((shift, t) => {
      const places = { [k]: shift };
      for (let pixel = 0; pixel < this.nColumns; pixel++) {
        const odds = this.odds[k][this.at(k, places, Math.floor(pixel / this.width), pixel % this.width)];
        out[pixel] += (this.shiftShares[k][t] * odds) / (1 + odds);
      }
    });
    const top = Math.max(...out) || 1;
    return out.map((share) => share / top);
  }

  /* A place and a state of a part from their priors. */
  sample(k) {
    return { place: this.shifts[sampleIndex(this.shiftShares[k])], state: sampleIndex(this.stateShares[k]) };
  }

  mostLikely(k) {
    return { place: this.shifts[argmax(this.shiftShares[k])], state: argmax(this.stateShares[k]) };
  }
}

function sampleIndex(shares) {
  let left = Math.random() * shares.reduce((a, b) => a + b, 0);
  return Math.max(0, shares.findIndex((share) => (left -= share) < 0));
}

class MovingPanels {
  constructor(page) {
    const { model, content } = page;
    Object.assign(this, { model, content });
    this.colors = content.parts.map((part) => channels(part.color));
    this.chosen = 0;
    this.picture = new Picture([model.height, model.width], content.limits, {
      class: "big paint",
      tabindex: "0",
      role: "application",
    });
    this.status = statusLine();
    this.where = h("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    this.listen();
    const heading = newId("sketch");
    this.cards = content.parts.map((part, k) => this.card(part, k));
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "Composite sketch"),
      h("p", {}, "Drag a part to move it, or choose one and use the arrow keys. Color shows where the chosen part may go: the stronger, the more likely."),
      h(
        "div",
        { class: "studio" },
        h(
          "div",
          { class: "stage" },
          h("div", { class: "stage-view" }, this.picture.canvas),
          h(
            "div",
            { class: "buttons" },
            h("button", { type: "button", class: "primary", onclick: () => this.setAll((k) => model.sample(k), "Sampled every part.") }, "Sample"),
            h("button", { type: "button", onclick: () => this.mostLikely() }, "Most likely"),
            h("label", { class: "check" }, this.where, "Show where it may go"),
          ),
          this.status,
        ),
        h("div", { class: "choices" }, this.cards.map((card) => card.element)),
      ),
    );
    this.mostLikely();
  }

  /* States of a part, as it looks alone. */
  card(part, k) {
    const { model, content } = this;
    const choose = () => this.choose(k);
    const states = part.shares.map((share, j) => {
      const cut = new Picture([model.height, model.width], content.limits, { "aria-hidden": "true" });
      const likely = model.mostLikely(k).place;
      const own = Float64Array.from({ length: model.nColumns }, (_, pixel) => {
        const u = model.at(k, { [k]: likely }, Math.floor(pixel / model.width), pixel % model.width);
        return model.odds[k][u] > 1 ? model.means[k * model.nStates + j][u] : NaN;
      });
      cut.draw(own, { show: (at) => !Number.isNaN(own[at]) });
      return { content: [cut.canvas, h("span", { class: "caption" }, `${j}`, h("br"), share)], name: `State ${j}, ${share}` };
    });
    const group = new RadioGroup({
      label: `States of ${part.name}`,
      choices: states,
      className: "thumbs",
      onchoose: (j) => {
        this.states[k] = j;
        this.choose(k);
      },
    });
    const heading = newId("part");
    const button = h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: choose }, "Move", h("span", { class: "sr" }, ` ${part.name}`));
    const element = h(
      "div",
      { class: "card", role: "group", style: { "--part": part.color }, "aria-labelledby": heading },
      h("div", { class: "card-head" }, h("h4", { id: heading }, part.name), button),
      group.element,
    );
    return { element, group, button };
  }

  choose(k) {
    this.chosen = k;
    this.draw();
    this.status.textContent = this.described(k);
  }

  described(k) {
    const [down, right] = this.places[k].map((shift) => -shift);
    return `${this.content.parts[k].name}: state ${this.states[k]}, moved ${down} down and ${right} to the right.`;
  }

  setAll(make, said) {
    const found = this.content.parts.map((_, k) => make(k));
    this.places = found.map(({ place }) => [...place]);
    this.states = found.map(({ state }) => state);
    this.draw();
    this.status.textContent = said;
  }

  mostLikely() {
    this.setAll((k) => this.model.mostLikely(k), "Every part at its most common place.");
  }

  /* Move the chosen part by whole pixels, as far as it may go. */
  move(down, right) {
    const most = this.model.most;
    const from = this.places[this.chosen];
    const to = [down, right].map((step, i) => Math.max(-most[i], Math.min(most[i], from[i] - step)));
    this.places[this.chosen] = to;
    this.draw();
    const ends = to[0] !== from[0] - down || to[1] !== from[1] - right;
    this.status.textContent = this.described(this.chosen) + (ends ? " It goes no further." : "");
  }

  listen() {
    const { canvas } = this.picture;
    canvas.style.setProperty("touch-action", "none");
    canvas.addEventListener("pointerdown", (event) => {
      const at = pixelAt(this.picture, event);
      const pixel = at.row * this.model.width + at.column;
      const shares = this.found.shares.map((own) => own[pixel]);
      if (Math.max(...shares) > 0.2) this.choose(argmax(shares));
      this.grip = { at, place: [...this.places[this.chosen]] };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.grip) return;
      const at = pixelAt(this.picture, event);
      this.places[this.chosen] = [...this.grip.place];
      this.move(at.row - this.grip.at.row, at.column - this.grip.at.column);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.grip = null));
    canvas.addEventListener("keydown", (event) => {
      if (!(event.key in ARROWS)) return;
      event.preventDefault();
      this.move(...ARROWS[event.key]);
    });
  }

  draw() {
    this.found = this.model.compose(this.places, this.states);
    const reach = this.where.checked ? this.model.reach(this.chosen) : null;
    const color = this.colors[this.chosen];
    this.picture.draw(this.found.values, { tint: reach && ((at) => ({ color, strength: 0.45 * reach[at] })) });
    this.cards.forEach(({ group, button }, k) => {
      group.mark(this.states[k]);
      button.setAttribute("aria-pressed", String(k === this.chosen));
    });
    this.picture.describe(`The sketch. Arrow keys move ${this.content.parts[this.chosen].name}.`);
  }
}
