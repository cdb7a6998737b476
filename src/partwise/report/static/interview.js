/* Ratings: questions selected by the model, recommendations and their explanations. */

class RatingsPanels {
  constructor(page) {
    this.page = page;
    const { content, model } = page;
    this.ratings = new Map();
    this.skipped = new Set();
    this.question = h("div", { class: "question" });
    this.answers = h("div", {});
    this.list = h("ol", { class: "recommendations" });
    this.status = statusLine();
    this.search = h("input", { type: "search", placeholder: "Rate something else", "aria-label": "Find an item to rate", oninput: () => this.find() });
    this.matches = h("div", { class: "chips" });
    const asked = newId("questions");
    const wanted = newId("recommended");
    this.element = h(
      "div",
      { class: "two" },
      h(
        "section",
        { class: "panel", "aria-labelledby": asked },
        h("h3", { id: asked }, "A few questions"),
        h("p", {}, "The model asks the most informative questions first. Answer some, and skip what you do not know."),
        this.question,
        h("div", { class: "search" }, this.search, this.matches),
        h("h4", {}, "Your ratings"),
        this.answers,
      ),
      h(
        "section",
        { class: "panel", "aria-labelledby": wanted },
        h("h3", { id: wanted }, "Recommended to you"),
        this.status,
        this.list,
      ),
    );
    this.levels = model.levels;
    this.names = content.names;
    this.update("Recommendations for a user without ratings.");
  }

  rate(item, rating) {
    this.ratings.set(item, rating);
    this.update(`${this.names[item]}: ${rating}.`);
  }

  /* Update everything from the ratings. */
  update(said) {
    this.ask();
    this.showAnswers();
    this.recommend(said);
  }

  scale(item, label) {
    return new RadioGroup({
      label,
      className: "chips scale",
      choices: this.levels.map((level) => ({ content: [String(level)], name: `${level} of ${this.levels[this.levels.length - 1]}` })),
      chosen: this.ratings.has(item) ? this.levels.indexOf(this.ratings.get(item)) : null,
      onchoose: (i) => this.rate(item, this.levels[i]),
    });
  }

  /* Questions have plain buttons, because arrow keys would answer by accident. */
  ask() {
    const item = this.page.model.nextQuestion(this.ratings, this.skipped);
    this.asked = item;
    if (item === null) {
      this.question.replaceChildren(h("p", {}, "There are no more questions."));
      return;
    }
    const heldFocus = this.question.contains(document.activeElement);
    const heading = newId("question");
    const buttons = this.levels.map((level) =>
      h("button", { type: "button", "aria-label": `Rate ${level} of ${this.levels[this.levels.length - 1]}`, onclick: () => this.rate(item, level) }, String(level)),
    );
    this.question.replaceChildren(
      h("p", { id: heading, class: "asked" }, "How do you rate ", h("strong", {}, this.names[item]), "?"),
      h(
        "div",
        { role: "group", "aria-labelledby": heading, class: "buttons" },
        buttons,
        h(
          "button",
          {
            type: "button",
            class: "small",
            onclick: () => {
              this.skipped.add(item);
              this.ask();
            },
          },
          "I do not know it",
        ),
      ),
    );
    if (heldFocus) buttons[0].focus();
  }

  showAnswers() {
    if (!this.ratings.size) {
      this.answers.replaceChildren(h("p", { class: "soft" }, "None yet."));
      return;
    }
    this.answers.replaceChildren(
      h(
        "ul",
        { class: "answers" },
        Array.from(this.ratings, ([item, rating]) =>
          h(
            "li",
            {},
            h("span", {}, this.names[item]),
            h("strong", {}, String(rating)),
            h(
              "button",
              {
                type: "button",
                class: "small",
                "aria-label": `Forget ${this.names[item]}`,
                onclick: () => {
                  this.ratings.delete(item);
                  this.update(`${this.names[item]} forgotten.`);
                },
              },
              "Forget",
            ),
          ),
        ),
      ),
    );
  }

  find() {
    const word = this.search.value.trim().toLowerCase();
    const found = word ? this.names.flatMap((name, d) => (name.toLowerCase().includes(word) ? [d] : [])).slice(0, 8) : [];
    this.matches.replaceChildren(
      ...found.map((item) =>
        h("div", { class: "match" }, h("span", {}, this.names[item]), this.scale(item, `Rating of ${this.names[item]}`).element),
      ),
    );
  }

  recommend(said) {
    const { model } = this.page;
    const best = model.recommend(this.ratings, 8);
    const means = this.ratings.size ? model.leftOut(this.ratings) : null;
    const [low, high] = [this.levels[0], this.levels[this.levels.length - 1]];
    const place = (value) => `${(100 * (value - low)) / (high - low)}%`;
    this.list.replaceChildren(
      ...best.map(({ item, rating, lower, upper }) => {
        const reasons = means ? model.because(this.ratings, item, 2, means).filter(({ effect }) => Math.abs(effect) >= 0.005) : [];
        const alike = model.neighbors(item, 2).map((d) => this.names[d]);
        return h(
          "li",
          {},
          h("div", { class: "title" }, h("strong", {}, this.names[item]), h("span", { class: "rating" }, rating.toFixed(2))),
          h(
            "div",
            { class: "range", "aria-hidden": "true" },
            h("span", { class: "span", style: { left: place(lower), right: `calc(100% - ${place(upper)})` } }),
            h("span", { class: "dot", style: { left: place(rating) } }),
          ),
          h(
            "p",
            { class: "reason" },
            `Between ${lower} and ${upper}. `,
            reasons.length
              ? `Because you gave ${reasons.map((one) => `${this.names[one.item]} ${one.rating} (${one.effect > 0 ? "+" : "−"}${Math.abs(one.effect).toFixed(2)})`).join(" and ")}. `
              : means
                ? "Your ratings say little about it. "
                : "",
            alike.length ? `Rated like ${alike.join(", ")}.` : "",
          ),
        );
      }),
    );
    this.status.textContent = `${said} ${best.length ? `First: ${this.names[best[0].item]}.` : "All items are rated."}`;
  }
}
