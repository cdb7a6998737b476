/* Images: the composite sketch, and an image with its parts and hidden pixels. */

class ImagePanels {
  constructor(page) {
    this.page = page;
    const { model, content } = page;
    this.pixels = content.parts.map((_, k) => model.columns.flatMap((column, d) => (content.partOf[d] === k ? [d] : [])));
    this.colors = content.parts.map((part) => channels(part.color));
    this.tint = (at) => {
      const k = content.partOf[at];
      return k < 0 ? null : { color: this.colors[k], strength: 0.45 };
    };
    this.sketch = new Sketch(this);
    const panels = [this.sketch.element];
    if (!content.model.byRow) {
      this.inspector = new Inspector(this);
      panels.push(this.inspector.element);
    }
    this.element = h("div", {}, panels);
  }

  /* A picture of one part of an image. */
  cutout(k, name) {
    return new Cutout(this.page.content.shape, this.page.content.limits, this.pixels[k], name);
  }
}

/* Choose a state for every part and show the resulting image. */
class Sketch {
  constructor(panels) {
    this.panels = panels;
    const { model, content } = panels.page;
    this.model = model;
    this.content = content;
    this.weights = content.classes.map((entry) => entry.share);
    if (!this.weights.length) this.weights = [1];
    this.picture = new Picture(content.shape, content.limits, { class: "big", "aria-label": "The sketch" });
    this.picture.canvas.addEventListener("click", (event) => this.focusPart(event));
    this.status = statusLine();
    this.colored = h("input", { type: "checkbox", onchange: () => this.draw() });
    this.choices = content.parts.map((part, k) => (model.type === "states" ? this.states(part, k) : this.factors(part, k)));
    const heading = newId("sketch");
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "Composite sketch"),
      h(
        "p",
        {},
        model.type === "states"
          ? "Every part is in one of its states. Choose a state for each part to see the resulting image."
          : "Every part has factors. Move them to see the resulting image.",
      ),
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
            h("button", { type: "button", class: "primary", onclick: () => this.sampleAll() }, "Sample"),
            h("button", { type: "button", onclick: () => this.mostLikely() }, model.type === "states" ? "Most likely" : "Average"),
            h("label", { class: "check" }, this.colored, "Show parts"),
          ),
          this.status,
          this.mixer(),
        ),
        h("div", { class: "choices" }, this.choices.map((choice) => choice.element)),
      ),
    );
    this.code = null;
    this.mostLikely();
  }

  /* Weights of the classes. */
  mixer() {
    if (!this.content.classes.length) return null;
    const rows = this.content.classes.map(({ label }, n) => {
      const output = h("output", {}, formatPercent(this.weights[n]));
      const input = h("input", {
        type: "range",
        min: "0",
        max: "100",
        value: String(Math.round(100 * this.weights[n])),
        "aria-label": `Weight of ${label}`,
        oninput: () => {
          this.weights[n] = Number(input.value) / 100;
          this.showWeights();
        },
      });
      const only = h(
        "button",
        { type: "button", class: "small", onclick: () => this.only(n) },
        h("span", { class: "sr" }, "Sample "),
        label,
      );
      return { element: h("li", {}, only, input, output), input, output };
    });
    this.mixRows = rows;
    return h(
      "fieldset",
      { class: "mixer" },
      h("legend", {}, "Mix classes"),
      h("p", { class: "soft" }, "A button samples from its class; the weights mix classes, part by part."),
      h("ul", {}, rows.map((row) => row.element)),
    );
  }

  showWeights() {
    const total = this.weights.reduce((a, b) => a + b, 0) || 1;
    this.mixRows.forEach(({ input, output }, n) => {
      input.value = String(Math.round(100 * this.weights[n]));
      output.textContent = formatPercent(this.weights[n] / total);
    });
  }

  only(n) {
    this.weights = this.weights.map((_, i) => Number(i === n));
    this.showWeights();
    this.sampleAll();
  }

  card(part, k, note, ...body) {
    const heading = newId("part");
    return h(
      "div",
      { class: "card", role: "group", style: { "--part": part.color }, "aria-labelledby": heading },
      h(
        "div",
        { class: "card-head" },
        h("h4", { id: heading }, `Part ${k}`, h("span", { class: "soft" }, ` ${note}`)),
        h("button", { type: "button", class: "small", onclick: () => this.samplePart(k) }, "Sample", h("span", { class: "sr" }, ` part ${k}`)),
      ),
      ...body,
    );
  }

  states(part, k) {
    const pictures = part.order.map((j, i) => {
      const cutout = this.panels.cutout(k, "");
      cutout.canvas.setAttribute("aria-hidden", "true");
      const states = this.content.parts.map((other) => other.order[0] ?? 0);
      states[k] = j;
      cutout.draw(this.model.expect(this.model.certain(states)));
      return {
        content: [cutout.canvas, h("span", { class: "caption" }, `${j}`, h("br"), part.shares[i])],
        name: `State ${j}, ${part.shares[i]}`,
      };
    });
    const group = new RadioGroup({
      label: `States of part ${k}`,
      choices: pictures,
      className: "thumbs",
      onchoose: (i) => this.set(k, part.order[i]),
    });
    const note = `${plural(this.panels.pixels[k].length, "pixel")}, ${plural(part.order.length, "state")}`;
    return {
      element: this.card(part, k, note, group.element),
      show: (state) => {
        const at = part.order.indexOf(state);
        group.mark(at < 0 ? null : at);
      },
      focus: () => (group.buttons[group.chosen ?? 0] ?? this.picture.canvas).focus(),
    };
  }

  factors(part, k) {
    const sliders = part.order.map((j) => {
      const output = h("output", {}, "0.0");
      const input = h("input", {
        type: "range",
        min: "-3",
        max: "3",
        step: "0.1",
        value: "0",
        "aria-label": `Part ${k}, factor ${j}`,
        oninput: () => {
          const own = Float64Array.from(this.code[k]);
          own[j] = Number(input.value);
          this.set(k, own);
        },
      });
      return { j, input, output, element: h("label", { class: "slider" }, h("span", {}, `factor ${j}`), input, output) };
    });
    const note = `${plural(this.panels.pixels[k].length, "pixel")}, ${plural(part.order.length, "factor")}`;
    return {
      element: this.card(part, k, note, h("div", { class: "sliders" }, sliders.map((slider) => slider.element))),
      show: (own) => {
        for (const { j, input, output } of sliders) {
          input.value = String(own[j]);
          output.textContent = fixed(own[j], 1);
        }
      },
      focus: () => sliders[0]?.input.focus(),
    };
  }

  /* Set a part and update the sketch. */
  set(k, own) {
    this.code[k] = own;
    this.draw();
    this.choices[k].show(own);
    this.status.textContent = this.model.type === "states" ? `Part ${k}: state ${own}.` : `Part ${k} moved.`;
  }

  setAll(code, said) {
    this.code = code;
    this.draw();
    this.choices.forEach((choice, k) => choice.show(code[k]));
    this.status.textContent = said;
  }

  samplePart(k) {
    this.set(k, this.model.sample(k, this.weights));
  }

  sampleAll() {
    const anything = this.weights.some((weight) => weight > 0);
    if (!anything) {
      this.status.textContent = "Set the weight of at least one class above 0.";
      return;
    }
    this.setAll(this.choices.map((_, k) => this.model.sample(k, this.weights)), "Sampled every part.");
  }

  mostLikely() {
    const common = (part, k) => (this.model.type === "states" ? (part.order[0] ?? 0) : new Float64Array(this.model.parts[k].size));
    const said = this.model.type === "states" ? "The most common state of every part." : "The average of every part.";
    this.setAll(this.content.parts.map(common), said);
  }

  draw() {
    this.values = this.model.expect(this.model.certain(this.code));
    this.picture.draw(this.values, { tint: this.colored.checked ? this.panels.tint : null });
    if (this.model.type === "states") {
      this.picture.describe(`The sketch: ${this.code.map((state, k) => `part ${k} in state ${state}`).join(", ")}`);
    }
  }

  /* A click on the sketch moves the focus to the part at that pixel. */
  focusPart(event) {
    const at = pixelAt(this.picture, event);
    const k = this.content.partOf[at.row * this.picture.width + at.column];
    if (k >= 0) this.choices[k].focus();
  }
}

/* Row and column of the pixel under a pointer. */
function pixelAt(picture, event) {
  const box = picture.canvas.getBoundingClientRect();
  const place = (share, size) => inside(Math.floor(share * size), size);
  return {
    row: place((event.clientY - box.top) / box.height, picture.height),
    column: place((event.clientX - box.left) / box.width, picture.width),
  };
}

/* An image of the data or from a file: its parts, and the imputed pixels. */
class Inspector {
  constructor(panels) {
    this.panels = panels;
    const { model, content, rows } = panels.page;
    Object.assign(this, { model, content, rows });
    const [height, width] = content.shape;
    this.hidden = new Uint8Array(height * width);
    this.cursor = { row: Math.floor(height / 2), column: Math.floor(width / 2), shown: false };
    this.original = new Picture(content.shape, content.limits, {
      class: "big paint",
      tabindex: "0",
      role: "application",
      "aria-label": "The image. Arrow keys move the brush, space hides what is under it, delete shows it again.",
    });
    this.completed = new Picture(content.shape, content.limits, { class: "big", "aria-label": "The image completed" });
    this.expected = new Picture(content.shape, content.limits, { class: "big", "aria-label": "The model's version of the image" });
    this.brush = h("input", { type: "range", min: "1", max: String(Math.max(2, Math.floor(Math.min(height, width) / 3))), value: String(Math.max(1, Math.round(width / 8))) });
    this.listen();
    this.status = statusLine();
    this.results = h("div", { class: "parts-found" });
    this.classes = h("div", {});
    this.cutouts = content.parts.map((_, k) => panels.cutout(k, `Part ${k} of the image`));
    const heading = newId("image");
    const upload = h("input", { type: "file", accept: "image/*", class: "sr", onchange: () => this.upload(upload) });
    this.element = h(
      "section",
      { class: "panel", "aria-labelledby": heading },
      h("h3", { id: heading }, "An image and its parts"),
      h("p", {}, `Choose an image${rows.count ? " of the data" : ""}, or upload one, to see its parts. Paint over it to hide a region: the model imputes it from the rest.`),
      this.examples(),
      h(
        "div",
        { class: "buttons" },
        h("label", { class: "button" }, "Your own image…", upload),
        h("button", { type: "button", onclick: () => this.show(panels.sketch.values, "The sketch.") }, "The sketch above"),
      ),
      h(
        "div",
        { class: "trio" },
        h("figure", {}, this.original.canvas, h("figcaption", {}, "image: paint to hide")),
        h("figure", {}, this.completed.canvas, h("figcaption", {}, "completed")),
        h("figure", {}, this.expected.canvas, h("figcaption", {}, "reconstructed")),
      ),
      h(
        "div",
        { class: "buttons" },
        h("label", { class: "slider" }, h("span", {}, "Brush"), this.brush),
        ...[
          ["top", (row) => row < height / 2],
          ["bottom", (row) => row >= height / 2],
          ["left", (row, column) => column < width / 2],
          ["right", (row, column) => column >= width / 2],
        ].map(([name, chosen]) =>
          h("button", { type: "button", class: "small", onclick: () => this.hide(chosen, `The ${name} half is hidden.`) }, `Hide ${name}`),
        ),
        h("button", { type: "button", class: "small", onclick: () => this.hide(() => false, "Nothing is hidden.") }, "Show all"),
      ),
      this.status,
      this.results,
      this.classes,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => this.take() }, "Take its parts into the sketch")),
    );
    if (rows.count) this.pick(0);
    else this.show(panels.sketch.values, "The sketch.");
  }

  examples() {
    if (!this.rows.count) return null;
    const choices = this.rows.names.map((name, i) => {
      const picture = new Picture(this.content.shape, this.content.limits, { "aria-hidden": "true" });
      picture.draw(this.rows.row(i));
      return { content: [picture.canvas], name, title: name };
    });
    this.strip = new RadioGroup({ label: "Images of the data", choices, className: "thumbs strip-scroll", chosen: 0, onchoose: (i) => this.pick(i) });
    return this.strip.element;
  }

  pick(i) {
    this.strip.mark(i);
    this.show(this.rows.row(i), `${this.rows.names[i]}.`);
  }

  show(values, said) {
    this.values = Float64Array.from(values);
    this.infer(said);
  }

  hide(chosen, said) {
    const width = this.content.shape[1];
    this.hidden = this.hidden.map((_, at) => Number(chosen(Math.floor(at / width), at % width)));
    this.infer(said);
  }

  /* Hide or show a square of pixels around one. */
  dab({ row, column }, hidden) {
    const size = Number(this.brush.value);
    const [height, width] = this.content.shape;
    const from = (middle) => middle - Math.floor((size - 1) / 2);
    for (let r = from(row); r < from(row) + size; r++) {
      for (let c = from(column); c < from(column) + size; c++) {
        if (r >= 0 && r < height && c >= 0 && c < width) this.hidden[r * width + c] = hidden;
      }
    }
  }

  listen() {
    const { canvas } = this.original;
    let painting = false;
    const paint = (event) => {
      this.dab(pixelAt(this.original, event), event.shiftKey ? 0 : 1);
      this.infer(null);
    };
    canvas.addEventListener("pointerdown", (event) => {
      painting = true;
      canvas.setPointerCapture(event.pointerId);
      paint(event);
    });
    canvas.addEventListener("pointermove", (event) => painting && paint(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => {
        painting = false;
        this.say();
      });
    }
    canvas.addEventListener("focus", () => this.showCursor(canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => this.showCursor(false));
    canvas.addEventListener("keydown", (event) => {
      const [height, width] = this.content.shape;
      if (event.key in ARROWS) {
        const [down, right] = ARROWS[event.key];
        this.cursor.row = inside(this.cursor.row + down, height);
        this.cursor.column = inside(this.cursor.column + right, width);
        this.showCursor(true);
      } else if (event.key === " " || event.key === "Delete" || event.key === "Backspace") {
        this.dab(this.cursor, Number(event.key === " "));
        this.infer(null);
        this.say();
      } else return;
      event.preventDefault();
    });
  }

  showCursor(shown) {
    this.cursor.shown = shown;
    this.drawOriginal();
  }

  say() {
    const hidden = this.hidden.reduce((a, b) => a + b, 0);
    this.status.textContent = `${plural(hidden, "pixel")} hidden. ${this.summary}`;
  }

  /* The image, NaN where it is hidden. */
  seen() {
    return this.values.map((value, at) => (this.hidden[at] ? NaN : value));
  }

  drawOriginal() {
    const width = this.content.shape[1];
    const at = this.cursor.row * width + this.cursor.column;
    const accent = channels(pageColor("--accent"));
    this.original.draw(this.seen(), { tint: (pixel) => (this.cursor.shown && pixel === at ? { color: accent, strength: 1 } : null) });
  }

  infer(said) {
    const seen = this.seen();
    this.found = this.model.infer(seen);
    const expected = this.model.expect(this.found);
    const filled = this.model.fill(this.found);
    this.drawOriginal();
    this.result = seen.map((value, at) => (Number.isNaN(value) ? filled[at] : value));
    this.completed.draw(this.result);
    this.expected.draw(expected);
    this.describe(seen, expected);
    if (said !== null) this.status.textContent = `${said} ${this.summary}`;
  }

  describe(seen, expected) {
    const parts = this.model.explain(seen, this.found);
    const items = parts.map((part, k) => {
      this.cutouts[k].draw(expected);
      const observed = this.panels.pixels[k].filter((at) => !Number.isNaN(seen[at])).length;
      const share = observed ? part.logLikelihood / observed : null;
      return h(
        "li",
        { class: "found", style: { "--part": this.content.parts[k].color } },
        this.cutouts[k].canvas,
        h("strong", {}, `Part ${k}`),
        this.model.type === "states"
          ? [h("span", {}, `state ${part.state}`), bar(part.probability)]
          : h("span", {}, Array.from(this.content.parts[k].order.slice(0, 3), (j) => fixed(part.factors[j], 1)).join(", ")),
        h("span", { class: "soft" }, share === null ? "hidden" : `${fixed(share, 2)} nats per pixel`),
      );
    });
    this.results.replaceChildren(h("ul", { class: "found-list" }, items));
    this.summary =
      this.model.type === "states" ? `States: ${parts.map((part) => part.state).join(", ")}.` : "";
    if (!this.content.classes.length) return;
    const shares = this.model.classes(seen, this.found);
    this.classes.replaceChildren(...classBars(this.model, this.content.classes, shares));
    this.summary += ` Class: ${this.content.classes[argmax(shares)].label}.`;
  }

  take() {
    const code = this.found.m.slice(0, this.model.nParts).map((own) => (this.model.type === "states" ? argmax(own) : own));
    this.panels.sketch.setAll(code, "The image's parts are in the sketch.");
    this.panels.sketch.element.scrollIntoView({ block: "start" });
  }

  /* Read a file as a gray image of the right size, cropped to its middle. */
  async upload(input) {
    const [file] = input.files;
    if (!file) return;
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      this.status.textContent = `${file.name} is not an image that this browser can read; choose a PNG or JPEG file.`;
      return;
    }
    const [height, width] = this.content.shape;
    const context = h("canvas", { width, height }).getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, width, height);
    context.imageSmoothingQuality = "high";
    const scale = Math.max(width / bitmap.width, height / bitmap.height);
    const [w, t] = [bitmap.width * scale, bitmap.height * scale];
    context.drawImage(bitmap, (width - w) / 2, (height - t) / 2, w, t);
    const { data } = context.getImageData(0, 0, width, height);
    const [low, high] = this.content.limits;
    const values = Float64Array.from({ length: width * height }, (_, at) => {
      const gray = (0.299 * data[4 * at] + 0.587 * data[4 * at + 1] + 0.114 * data[4 * at + 2]) / 255;
      const value = low + gray * (high - low);
      const { levels, counts } = this.model.columns[at];
      return levels ? levels[levelCode(levels, value)] : counts ? Math.max(0, Math.round(value)) : value;
    });
    this.strip?.mark(null);
    this.show(values, `${file.name}.`);
  }
}
