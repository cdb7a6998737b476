/* Entry point: read the data of the page and show the panels for its kind. */

/* Rows of the data, dense or by their entries. */
class Rows {
  constructor(content, nColumns) {
    this.names = content?.names ?? [];
    this.count = this.names.length;
    this.total = content?.total ?? this.count;
    this.positions = content?.positions ?? [];
    this.nColumns = nColumns;
    if (!content) return;
    if (content.cells) this.cells = unpack(content.cells, nColumns);
    else for (const name of ["starts", "columns", "values"]) this[name] = unpack(content[name]);
    this.absent = content.absent ?? NaN;
  }

  row(i) {
    if (this.cells) return this.cells.slice(i * this.nColumns, (i + 1) * this.nColumns);
    const out = new Float64Array(this.nColumns).fill(this.absent);
    for (let at = this.starts[i]; at < this.starts[i + 1]; at++) out[this.columns[at]] = this.values[at];
    return out;
  }
}

const MODELS = { states: StatesModel, factors: FactorsModel, ratings: RatingsModel, moving: MovingModel };
const PANELS = { image: ImagePanels, table: TablePanels, text: TextPanels, ratings: RatingsPanels, moving: MovingPanels };

const holder = document.getElementById("explorer-data");
if (holder) {
  const content = JSON.parse(holder.textContent);
  const nColumns = content.names.length;
  const model = new MODELS[content.model.type](content.model, nColumns);
  const page = { content, model, rows: new Rows(content.rows, nColumns) };
  const panels = new PANELS[content.kind](page);
  document.getElementById("explorer").replaceChildren(panels.element);
  /* Accessible from the browser's console. */
  window.partwise = { ...page, panels };
}
