/* Elements of the page. Text is only set as text, so that data cannot become markup. */

/* An element with attributes, listeners (onclick: ...), styles (style: {...}) and children. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

let identities = 0;
function newId(word) {
  identities += 1;
  return `explorer-${word}-${identities}`; /* distinct from ids of the template */
}

/* A name that may be broken after its underscores, dots and dashes. */
function breakable(name) {
  return name.split(/(?<=[_.\-/])(?=\w)/).flatMap((piece, i) => (i ? [h("wbr"), piece] : [piece]));
}

/* A number with four digits; no more decimals than a column recorded in steps of `step` has, and one for small averages. */
function formatNumber(value, step = 0, commas = false) {
  if (!Number.isFinite(value)) return "missing";
  if (step > 0) {
    const decimals = Math.max(Math.round(-Math.log10(step)), Math.abs(value) < 100 ? 1 : 0);
    const rounded = Number(value.toFixed(decimals));
    if (rounded || Math.abs(value) < 0.01 * step) return formatNumber(rounded || 0, 0, commas);
  }
  const size = Math.abs(value);
  if (commas && size >= 1000 && size < 1e12) return Math.round(value).toLocaleString("en");
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toPrecision(4);
  return String(Number(value.toPrecision(4)));
}

/* A fixed number of decimals, without minus zero. */
function fixed(value, digits) {
  return (Number(value.toFixed(digits)) || 0).toFixed(digits);
}

function formatPercent(share) {
  if (share > 0 && share < 0.01) return "<1 %";
  if (share < 1 && share > 0.99) return ">99 %";
  return `${Math.round(100 * share)} %`;
}

function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/* A line that a screen reader announces when it changes. */
function statusLine(attributes = {}) {
  return h("p", { role: "status", "aria-live": "polite", class: "status", ...attributes });
}

function swatch(color) {
  return h("span", { class: "swatch", "aria-hidden": "true", style: { background: color } });
}

/* A share as a bar with its number; screen readers read the number. */
function bar(share, text = formatPercent(share)) {
  const filled = `${Math.max(0, Math.min(100, 100 * share)).toFixed(1)}%`;
  return h(
    "span",
    { class: "bar" },
    h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", style: { width: filled } })),
    h("span", { class: "number" }, text),
  );
}

/* Probabilities of the classes, as bars. */
function classBars(model, classes, shares) {
  return [
    h("h4", {}, model.exact ? "Its class" : "Its class, approximately"),
    h("ul", { class: "bars" }, classes.map(({ label }, n) => h("li", {}, h("span", {}, label), bar(shares[n])))),
  ];
}

/* One of several choices; arrow keys move, as in any group of radio buttons. */
class RadioGroup {
  constructor({ label, labelledby, choices, chosen = null, className = "chips", onchoose }) {
    this.onchoose = onchoose;
    this.buttons = choices.map(({ content, name, title }, i) =>
      h(
        "button",
        {
          type: "button",
          role: "radio",
          "aria-checked": "false",
          "aria-label": name,
          title,
          tabindex: "-1",
          onclick: () => this.choose(i, true),
        },
        content,
      ),
    );
    this.element = h(
      "div",
      { role: "radiogroup", class: className, "aria-label": label, "aria-labelledby": labelledby, onkeydown: (event) => this.key(event) },
      this.buttons,
    );
    this.mark(chosen);
  }

  /* Mark a choice without calling onchoose. */
  mark(chosen) {
    this.chosen = chosen;
    this.buttons.forEach((button, i) => {
      button.setAttribute("aria-checked", String(i === chosen));
      button.tabIndex = i === (chosen ?? 0) ? 0 : -1;
    });
  }

  choose(i, told) {
    this.mark(i);
    if (told) this.onchoose(i);
  }

  key(event) {
    const last = this.buttons.length - 1;
    const at = Math.max(this.buttons.indexOf(document.activeElement), 0);
    const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = (steps[event.key] + last + 1) % (last + 1);
    this.buttons[next].focus();
    this.choose(next, true);
  }
}

/* Rows and columns that arrow keys move by. */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/* A number kept between 0 and below a size. */
function inside(place, size) {
  return Math.max(0, Math.min(size - 1, place));
}

/* Colors of the page, which differ between light and dark. */
function pageColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* Red, green and blue of a color written as #rrggbb. */
function channels(color) {
  return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

const MISSING = [230, 159, 0];

/* A picture of values on a canvas, one pixel per value; NaN in the color of missing values. */
class Picture {
  constructor(shape, limits, attributes = {}) {
    [this.height, this.width] = shape;
    this.limits = limits;
    this.canvas = h("canvas", { width: this.width, height: this.height, role: "img", ...attributes });
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(this.width, this.height);
  }

  describe(text) {
    this.canvas.setAttribute("aria-label", text);
  }

  /* tint(pixel) may return a color and its strength; a pixel is transparent if show(pixel) is false. */
  draw(values, { tint = null, show = null } = {}) {
    const [low, high] = this.limits;
    const data = this.image.data;
    for (let at = 0; at < values.length; at++) {
      let color = MISSING;
      if (!Number.isNaN(values[at])) {
        const gray = Math.round(255 * Math.max(0, Math.min(1, (values[at] - low) / (high - low))));
        color = [gray, gray, gray];
      }
      const over = tint?.(at);
      for (let c = 0; c < 3; c++) {
        data[4 * at + c] = over ? Math.round(color[c] + over.strength * (over.color[c] - color[c])) : color[c];
      }
      data[4 * at + 3] = show && !show(at) ? 0 : 255;
    }
    this.context.putImageData(this.image, 0, 0);
  }
}

/* A part of a picture: its pixels, cropped to their bounding box. */
class Cutout {
  constructor(shape, limits, pixels, name) {
    const width = shape[1];
    const rows = pixels.map((at) => Math.floor(at / width));
    const columns = pixels.map((at) => at % width);
    this.top = pixels.length ? Math.min(...rows) : 0;
    this.left = pixels.length ? Math.min(...columns) : 0;
    const size = pixels.length ? [Math.max(...rows) - this.top + 1, Math.max(...columns) - this.left + 1] : [1, 1];
    this.picture = new Picture(size, limits, { "aria-label": name });
    this.canvas = this.picture.canvas;
    this.places = pixels.map((_, i) => (rows[i] - this.top) * size[1] + columns[i] - this.left);
    this.pixels = pixels;
  }

  draw(values) {
    const cut = new Float64Array(this.picture.width * this.picture.height).fill(NaN);
    const own = new Set(this.places);
    this.places.forEach((place, i) => (cut[place] = values[this.pixels[i]]));
    this.picture.draw(cut, { show: (at) => own.has(at) });
  }
}
