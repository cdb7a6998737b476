/* Predictions, questions and explanations for one user, equal to those of the library's Recommender. */

const SLACK = 1e-9; /* tolerance for rounding of probabilities */

/* Smallest level whose cumulative probability is p. */
function levelQuantile(shares, levels, p) {
  let below = 0;
  for (let level = 0; level < levels.length - 1; level++) {
    below += shares[level];
    if (below >= p - SLACK) return levels[level];
  }
  return levels[levels.length - 1];
}

/* A user's states or factors in one model, and predictions for items. */
class Taste {
  constructor(content, levels, nItems, popularity) {
    this.levels = levels;
    this.heard = content.heard;
    this.popularity = popularity;
    this.nItems = nItems;
    this.model = content.model.type === "states" ? new StatesModel(content.model, nItems) : new FactorsModel(content.model, nItems);
    if (content.sets) this.model.sets = content.sets.map((weights) => unpackRows(weights, nItems));
    this.rest = content.rest.map((matrix) => unpack(matrix, matrix.shape[0]));
    content.model.parts.forEach((source, k) => {
      const part = this.model.parts[k];
      const [block] = part.blocks;
      if (!source.blocks[0].answers) return;
      const L = levels.length;
      block.answers = unpack(source.blocks[0].answers, block.n * L);
      block.ratings = Float64Array.from({ length: part.size * block.n }, (_, at) => dot(block.answers.subarray(at * L, (at + 1) * L), levels));
      part.share = unpack(source.share);
    });
  }

  /* Ratings as the model knows them, one number per item, NaN where not rated. */
  values(ratings) {
    const out = new Float64Array(this.nItems).fill(NaN);
    for (const [item, rating] of ratings) out[item] = this.heard[levelCode(this.levels, rating)];
    return out;
  }

  /* Posterior with all ratings, and without each of them in turn. */
  leaveOut(ratings) {
    const values = this.values(ratings);
    const heard = this.model.hear ? this.model.hear(values) : values;
    const total = this.model.evidence(heard);
    if (this.model.withSet) this.model.withSet(total, values);
    const without = Array.from(ratings.keys(), (item) => {
      const alone = new Float64Array(this.nItems).fill(NaN);
      alone[item] = heard[item];
      const own = this.model.evidence(alone);
      return this.model.weigh(total.map((one, k) => one.map((value, at) => value - own[k][at])));
    });
    return [this.model.weigh(total), ...without];
  }

  /* Probability of every level of every item. */
  shares(found) {
    if (this.model.type === "factors") return this.model.levelShares(found);
    const L = this.levels.length;
    const out = Array.from({ length: this.nItems }, () => new Float64Array(L));
    this.model.parts.forEach((part, k) => {
      const [block] = part.blocks;
      for (let j = 0; j < part.size; j++) {
        const m = found.m[k][j];
        for (let i = 0; i < block.n; i++) {
          const shares = out[block.columns[i]];
          for (let l = 0; l < L; l++) shares[l] += block.gate[i] * m * block.answers[(j * block.n + i) * L + l];
        }
      }
    });
    return out;
  }

  /* Expected decrease of the squared error of all predictions if an item's rating becomes known. */
  gains(found, open) {
    const out = new Float64Array(this.nItems);
    this.model.parts.forEach((part, k) => {
      if (this.model.type === "states") this.stateGains(part, k, found, open, out);
      else this.factorGains(part, k, found, open, out);
    });
    return out;
  }

  stateGains(part, k, found, open, out) {
    const [block] = part.blocks;
    const [J, n, L] = [part.size, block.n, this.levels.length];
    const second = Float64Array.from(this.rest[k]);
    for (let i = 0; i < n; i++) {
      const item = block.columns[i];
      if (!block.own[i] || !open[item]) continue;
      for (let a = 0; a < J; a++) {
        const weight = this.popularity[item] * block.ratings[a * n + i];
        for (let b = 0; b < J; b++) second[a * J + b] += weight * block.ratings[b * n + i];
      }
    }
    const m = found.m[k];
    /* Relative to the current expectation: a difference of two squares would lose precision. */
    const pull = times(second, m);
    const now = dot(m, pull);
    const around = second.map((value, at) => value - pull[Math.floor(at / J)] - pull[at % J] + now);
    const joint = new Float64Array(J);
    for (let i = 0; i < n; i++) {
      if (!block.own[i]) continue;
      let after = 0;
      for (let l = 0; l < L; l++) {
        let total = 0;
        for (let j = 0; j < J; j++) total += joint[j] = m[j] * block.answers[(j * n + i) * L + l];
        after += dot(joint, times(around, joint)) / Math.max(total, 1e-300);
      }
      out[block.columns[i]] = after;
    }
  }

  factorGains(part, k, found, open, out) {
    const [block] = part.blocks;
    const J = part.size;
    const cov = found.second[k].map((value, at) => value - found.m[k][Math.floor(at / J)] * found.m[k][at % J]);
    const second = Float64Array.from(this.rest[k]);
    const loadings = Array.from({ length: block.n }, (_, i) => Float64Array.from({ length: J }, (_, j) => block.mean[j][i] * block.scale[i]));
    loadings.forEach((w, i) => {
      const item = block.columns[i];
      if (!block.own[i] || !open[item]) return;
      for (let a = 0; a < J; a++) for (let b = 0; b < J; b++) second[a * J + b] += this.popularity[item] * w[a] * w[b];
    });
    loadings.forEach((w, i) => {
      if (!block.own[i]) return;
      const reach = times(cov, w);
      out[block.columns[i]] = dot(reach, times(second, reach)) / (dot(w, reach) + block.noise[i] * block.scale[i] ** 2);
    });
  }

  /* Similarity of an item to the others of its part. */
  likeness(item) {
    const k = this.model.columns[item].part;
    const part = this.model.parts[k];
    const [block] = part.blocks;
    const vectors = new Map();
    for (let i = 0; i < block.n; i++) {
      if (!block.own[i]) continue;
      let vector = Float64Array.from({ length: part.size }, (_, j) => (block.ratings ? block.ratings[j * block.n + i] : block.mean[j][i]));
      if (block.ratings) {
        const average = dot(part.share, vector);
        vector = vector.map((value, j) => Math.sqrt(part.share[j]) * (value - average));
      }
      vectors.set(block.columns[i], vector);
    }
    const length = (v) => Math.max(Math.sqrt(dot(v, v)), 1e-12);
    const own = vectors.get(item);
    return new Map(Array.from(vectors, ([d, v]) => [d, dot(v, own) / (length(v) * length(own))]));
  }
}

class RatingsModel {
  constructor(content, nItems) {
    this.type = "ratings";
    this.levels = content.levels;
    this.coverage = content.coverage;
    this.nItems = nItems;
    this.counts = unpack(content.counts);
    const popularity = unpack(content.popularity);
    this.tastes = content.members.map((member) => new Taste(member, this.levels, nItems, popularity));
  }

  /* Probability of every level of every item, for ratings given as a Map of item to rating. */
  shares(ratings) {
    const each = this.tastes.map((taste) => taste.shares(taste.model.infer(taste.values(ratings))));
    return each[0].map((first, d) => first.map((_, l) => each.reduce((sum, one) => sum + one[d][l], 0) / each.length));
  }

  /* Items not rated yet, the highest expected rating first, with an interval. */
  recommend(ratings, n) {
    const shares = this.shares(ratings);
    const means = Float64Array.from(shares, (one, d) =>
      ratings.has(d) || this.counts[d] < 1 ? -Infinity : dot(one, this.levels),
    );
    const tail = 0.5 * (1 - this.coverage);
    return descending(means)
      .slice(0, n)
      .filter((item) => Number.isFinite(means[item]))
      .map((item) => ({
        item,
        rating: means[item],
        lower: levelQuantile(shares[item], this.levels, tail),
        upper: levelQuantile(shares[item], this.levels, 1 - tail),
      }));
  }

  /* Expected gain of asking about each item; for several models, relative to the largest of each. */
  gains(ratings) {
    const open = Array.from({ length: this.nItems }, (_, d) => !ratings.has(d));
    const each = this.tastes.map((taste) => taste.gains(taste.model.infer(taste.values(ratings)), open));
    if (each.length === 1) return each[0];
    const largest = each.map((own) => own.reduce((top, value, d) => (open[d] ? Math.max(top, value) : top), 1e-300));
    return each[0].map((_, d) => each.reduce((sum, own, i) => sum + own[d] / largest[i], 0) / each.length);
  }

  /* The item with the most informative rating, weighted by its number of ratings; null if none is left. */
  nextQuestion(ratings, skipped = new Set()) {
    const gains = this.gains(ratings);
    let best = null;
    for (let d = 0; d < this.nItems; d++) {
      if (ratings.has(d) || skipped.has(d)) continue;
      if (best === null || gains[d] * this.counts[d] > gains[best] * this.counts[best]) best = d;
    }
    return best;
  }

  /* Expected ratings of all items: with all ratings, then without each. */
  leftOut(ratings) {
    const each = this.tastes.map((taste) =>
      taste.leaveOut(ratings).map((found) => taste.shares(found).map((shares) => dot(shares, this.levels))),
    );
    return each[0].map((means, i) => means.map((_, d) => each.reduce((sum, own) => sum + own[i][d], 0) / each.length));
  }

  /* Ratings of other items with the largest effect on the prediction of an item: its mean minus the mean without each. */
  because(ratings, item, n, means = this.leftOut(ratings)) {
    const effects = Array.from(ratings, ([other, rating], i) => ({
      item: other,
      rating,
      effect: means[0][item] - means[i + 1][item],
    }));
    /* Differences below a millionth are rounding. */
    const size = (one) => Math.round(1e6 * Math.abs(one.effect));
    const others = effects.filter((one) => one.item !== item);
    return others.sort((a, b) => size(b) - size(a) || a.item - b.item).slice(0, n);
  }

  /* Items of the same part with the most similar ratings. */
  neighbors(item, n) {
    const likeness = this.tastes[0].likeness(item);
    likeness.delete(item);
    return Array.from(likeness).sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, n).map(([d]) => d);
  }
}
