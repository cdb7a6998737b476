/* Inference in models whose parts have factors, as the library does it. */

const MIN_WEIGHT = 1e-4; /* smaller gates do not change the probability of a level */
const MAX_ROUNDS = 20;
const CONVERGED = 1e-3;

/* Probability that a standard Gaussian lies below z. */
function normalBelow(z) {
  return 0.5 * erfc(-z * Math.SQRT1_2);
}

/* Probabilities of ordered levels between ends, of a Gaussian number. */
function levelsOf(mean, variance, ends) {
  const L = ends.length - 1;
  const below = Float64Array.from({ length: L + 1 }, (_, l) =>
    l === 0 ? 0 : l === L ? 1 : normalBelow((ends[l] - mean) / Math.sqrt(variance)),
  );
  return Float64Array.from({ length: L }, (_, l) => below[l + 1] - below[l]);
}

class FactorsModel {
  constructor(content, nColumns) {
    this.type = "factors";
    this.noun = "factor";
    this.nColumns = nColumns;
    this.nParts = content.nParts;
    this.exact = content.exact;
    this.logBeta = content.logBeta;
    this.logClassShare = content.logClassShare;
    this.parts = content.parts.map((part) => {
      const J = part.size;
      const blocks = part.blocks.map((source) => {
        const block = readColumns(source);
        for (const name of ["mean", "cov"]) block[name] = unpackRows(source[name], block.n);
        for (const name of ["precision", "noise", "sure"]) block[name] = unpack(source[name]);
        for (const name of ["ends", "answerEnds"]) if (source[name]) block[name] = unpackRows(source[name]);
        return block;
      });
      const eta = unpackRows(part.eta, J);
      const priors = unpackRows(part.sigma, J * J).map((sigma, n) => {
        const { inverse, logDet } = invert(sigma, J);
        const pull = times(inverse, eta[n]);
        return { inverse, pull, eta: eta[n], sigma, constant: -0.5 * (logDet + dot(pull, eta[n])) };
      });
      return { size: J, blocks, priors };
    });
    this.columns = describeColumns(this.parts, nColumns);
    this.ordinal = this.parts.some((part) => part.blocks.some((block) => block.law === "ordinal"));
    if (this.ordinal) this.combine();
  }

  /* Mean and precision of each column's latent number, where several parts may share the column. */
  combine() {
    this.latent = Array.from({ length: this.nColumns }, () => ({ total: 0, offset: 0, terms: [], ends: null }));
    this.parts.forEach((part, k) => {
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          const one = this.latent[block.columns[i]];
          const weight = block.gate[i] * block.precision[i];
          one.total += weight;
          one.offset += weight * block.mean[part.size][i];
          one.terms.push({ k, weight, w: Float64Array.from({ length: part.size }, (_, j) => block.mean[j][i]) });
          one.ends = block.ends[i];
          one.levels = block.levels;
        }
      }
    });
    for (const one of this.latent) one.offset /= one.total;
  }

  /* Statistics of a part's entries: linear terms b, then precisions A, in one row of J + J J numbers. */
  addEntry(part, block, i, x, weight, tau, wide, out) {
    const J = part.size;
    const away = tau * (x - block.mean[J][i]);
    const last = (J * (J + 1)) / 2;
    for (let a = 0; a < J; a++) {
      const w = block.mean[a][i];
      out[a] += weight * (away * w - (wide ? block.cov[last + a][i] : 0));
      for (let b = 0; b < J; b++) {
        const pair = a > b ? (a * (a + 1)) / 2 + b : (b * (b + 1)) / 2 + a;
        out[J + a * J + b] += weight * (tau * w * block.mean[b][i] + (wide ? block.cov[pair][i] : 0));
      }
    }
  }

  encode(block, i, value) {
    return block.law === "ordinal" ? value : (value - block.shift[i]) / block.scale[i];
  }

  /* Statistics of numbers for the factors of every part; of ordered levels, of their latent numbers. */
  evidence(values) {
    return this.parts.map((part) => {
      const out = new Float64Array(part.size * (part.size + 1));
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          const value = values[block.columns[i]];
          if (Number.isNaN(value)) continue;
          const x = this.encode(block, i, value);
          this.addEntry(part, block, i, x, block.gate[i], block.precision[i], true, out);
        }
      }
      return out;
    });
  }

  /* The evidence, in place, with what the set of observed columns says about the factors: its weights are in `sets`. */
  withSet(evidence, values) {
    if (!this.sets) return evidence;
    const seen = Array.from(values.keys()).filter((d) => !Number.isNaN(values[d]));
    this.parts.forEach((part, k) => {
      for (let j = 0; j < part.size; j++) for (const d of seen) evidence[k][j] += this.sets[k][j][d] / Math.sqrt(seen.length);
    });
    return evidence;
  }

  /* Gaussian posterior of a part's factors in every class. */
  gaussians(part, evidence) {
    const J = part.size;
    return part.priors.map((prior) => {
      const precision = prior.inverse.map((value, at) => value + evidence[J + at]);
      const { inverse: cov, logDet } = invert(precision, J);
      const pull = prior.pull.map((value, j) => value + evidence[j]);
      const mean = times(cov, pull);
      return { mean, cov, logZ: prior.constant + 0.5 * (dot(pull, mean) - logDet) };
    });
  }

  /* Posterior of factors, their means and second moments, and of the classes. */
  weigh(evidence) {
    const found = this.parts.map((part, k) => this.gaussians(part, evidence[k]));
    const z = softmax(this.logBeta.map((b, n) => found.reduce((sum, one) => sum + one[n].logZ, b)));
    const m = [];
    const second = [];
    this.parts.forEach((part, k) => {
      const J = part.size;
      const mean = new Float64Array(J);
      const moment = new Float64Array(J * J);
      found[k].forEach((one, n) => {
        for (let a = 0; a < J; a++) {
          mean[a] += z[n] * one.mean[a];
          for (let b = 0; b < J; b++) moment[a * J + b] += z[n] * (one.mean[a] * one.mean[b] + one.cov[a * J + b]);
        }
      });
      m.push(mean);
      second.push(moment);
    });
    return { m, second, z };
  }

  infer(values) {
    return this.weigh(this.withSet(this.evidence(this.hear(values)), values));
  }

  /* A posterior with given factors. */
  certain(factors) {
    const m = this.parts.map((part, k) => (k < this.nParts ? Float64Array.from(factors[k]) : new Float64Array(0)));
    const second = m.map((mean) => {
      const J = mean.length;
      return Float64Array.from({ length: J * J }, (_, at) => mean[Math.floor(at / J)] * mean[at % J]);
    });
    return { m, second, z: null };
  }

  /* Numbers as they are; of ordered levels the latent numbers, after some iterations. */
  hear(values) {
    if (!this.ordinal) return values;
    const latent = new Float64Array(this.nColumns).fill(NaN);
    const seen = [];
    for (let d = 0; d < this.nColumns; d++) if (!Number.isNaN(values[d])) seen.push(d);
    const nobody = this.parts.map((part) => new Float64Array(part.size));
    for (const d of seen) latent[d] = this.number(d, values[d], nobody);
    if (this.logBeta.length > 1) {
      for (let round = 0; round < MAX_ROUNDS; round++) {
        const { m } = this.weigh(this.withSet(this.evidence(latent), values));
        for (const d of seen) latent[d] = this.number(d, values[d], m);
      }
      return latent;
    }
    /* The covariance of the factors does not depend on the numbers, only the linear terms do. */
    const evidence = this.withSet(this.evidence(latent), values);
    const covs = this.parts.map((part, k) => this.gaussians(part, evidence[k])[0].cov);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const m = covs.map((cov, k) => times(cov, evidence[k].subarray(0, this.parts[k].size)));
      let moved = 0;
      for (const d of seen) {
        const { total, terms } = this.latent[d];
        const change = this.number(d, values[d], m) - latent[d];
        latent[d] += change;
        moved = Math.max(moved, Math.abs(change) * Math.sqrt(total));
        for (const { k, weight, w } of terms) for (let j = 0; j < w.length; j++) evidence[k][j] += weight * change * w[j];
      }
      if (moved < CONVERGED) break;
    }
    return latent;
  }

  /* Expected latent number of a column at a level, given factor means. */
  number(d, value, m) {
    const { total, offset, terms, ends, levels } = this.latent[d];
    let mean = offset;
    for (const { k, weight, w } of terms) mean += (weight / total) * dot(w, m[k]);
    const root = Math.sqrt(total);
    const code = levelCode(levels, value);
    return mean + intervalMean((ends[code] - mean) * root, (ends[code + 1] - mean) * root) / root;
  }

  /* Mean and variance of a new entry of column i of a block, in model units. */
  moments(part, block, i, m, second) {
    const J = part.size;
    let away = 0;
    let spread = 1 + block.cov[(J * (J + 1)) / 2 + J][i];
    let reach = 0;
    for (let a = 0; a < J; a++) {
      away += block.mean[a][i] * m[a];
      spread += 2 * block.cov[(J * (J + 1)) / 2 + a][i] * m[a];
      for (let b = 0; b < J; b++) {
        const pair = a > b ? (a * (a + 1)) / 2 + b : (b * (b + 1)) / 2 + a;
        spread += block.cov[pair][i] * second[a * J + b];
        reach += block.mean[a][i] * block.mean[b][i] * second[a * J + b];
      }
    }
    const variance = Math.max(block.noise[i] * spread + reach - away * away, 1e-12);
    return { mean: block.mean[J][i] + away, variance };
  }

  /* Probability of every level of every column, one array per column. */
  levelShares(found) {
    const out = new Array(this.nColumns).fill(null);
    const totals = new Float64Array(this.nColumns);
    this.parts.forEach((part, k) => {
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          if (block.gate[i] <= MIN_WEIGHT) continue;
          const { mean, variance } = this.moments(part, block, i, found.m[k], found.second[k]);
          const d = block.columns[i];
          const shares = levelsOf(mean, variance, (block.answerEnds ?? block.ends)[i]);
          out[d] ??= new Float64Array(shares.length);
          totals[d] += block.gate[i];
          for (let level = 0; level < shares.length; level++) out[d][level] += block.gate[i] * shares[level];
        }
      }
    });
    out.forEach((shares, d) => shares?.forEach((value, level) => (shares[level] = value / totals[d])));
    return out;
  }

  /* Expected row; of ordered levels the mean level. */
  expect(found) {
    if (this.ordinal) {
      return Float64Array.from(this.levelShares(found), (shares, d) => dot(shares, this.columns[d].levels));
    }
    const out = new Float64Array(this.nColumns);
    this.parts.forEach((part, k) => {
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          let value = block.mean[part.size][i];
          for (let j = 0; j < part.size; j++) value += block.mean[j][i] * found.m[k][j];
          out[block.columns[i]] += block.gate[i] * (value * block.scale[i] + block.shift[i]);
        }
      }
    });
    return out;
  }

  /* Imputed values: expectations of numbers, the median of ordered levels. */
  fill(found) {
    if (!this.ordinal) return this.expect(found);
    return Float64Array.from(this.levelShares(found), (shares, d) => levelQuantile(shares, this.columns[d].levels, 0.5));
  }

  /* Log-likelihood of a part's own entries in every class; null for ordered levels. */
  classLikelihoods(part, values) {
    const evidence = new Float64Array(part.size * (part.size + 1));
    let constant = 0;
    for (const block of part.blocks) {
      for (let i = 0; i < block.n; i++) {
        const value = values[block.columns[i]];
        if (!block.own[i] || Number.isNaN(value)) continue;
        const x = this.encode(block, i, value);
        const tau = 1 / block.sure[i];
        const away = x - block.mean[part.size][i];
        constant += 0.5 * (Math.log(tau) - tau * away * away) - HALF_LOG_2PI - Math.log(block.scale[i]);
        this.addEntry(part, block, i, x, 1, tau, false, evidence);
      }
    }
    return this.gaussians(part, evidence).map(({ logZ }) => logZ + constant);
  }

  partLikelihoods(values) {
    if (this.ordinal) return null;
    return this.parts
      .slice(0, this.nParts)
      .map((part) => logSumExp(this.classLikelihoods(part, values).map((value, n) => value + this.logClassShare[n])));
  }

  likelihood(values) {
    if (!this.exact || this.ordinal) return null;
    const joint = Array.from(this.logClassShare);
    for (const part of this.parts) this.classLikelihoods(part, values).forEach((value, n) => (joint[n] += value));
    return { logLikelihood: logSumExp(joint), classes: softmax(joint) };
  }

  classes(values, found) {
    return this.likelihood(values)?.classes ?? found.z;
  }

  /* Of every part: its factors, and the columns that support them, the strongest first; after them the background, if asked for. */
  explain(values, found = this.infer(values), nParts = this.nParts) {
    const likelihoods = this.partLikelihoods(values);
    return this.parts.slice(0, nParts).map((part, k) => {
      const columns = [];
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          const column = block.columns[i];
          const value = values[column];
          if (!block.own[i] || !block.varies[i] || Number.isNaN(value)) continue;
          let expected = block.mean[part.size][i];
          let broad = block.noise[i];
          for (let j = 0; j < part.size; j++) {
            expected += block.mean[j][i] * found.m[k][j];
            broad += block.mean[j][i] ** 2;
          }
          if (this.ordinal) {
            const code = levelCode(block.levels, value);
            const near = levelsOf(expected, block.noise[i], block.ends[i]);
            const far = levelsOf(block.mean[part.size][i], broad, block.ends[i]);
            const evidence = Math.log(near[code] + 1e-300) - Math.log(far[code] + 1e-300);
            columns.push({ column, value, expected: dot(near, block.levels), evidence });
            continue;
          }
          const x = this.encode(block, i, value);
          const near = (x - expected) ** 2 / block.noise[i];
          const far = (x - block.mean[part.size][i]) ** 2 / broad;
          const evidence = 0.5 * (Math.log(broad / block.noise[i]) - near + far);
          columns.push({ column, value, expected: expected * block.scale[i] + block.shift[i], evidence });
        }
      }
      columns.sort((a, b) => b.evidence - a.evidence || a.column - b.column);
      return { part: k, factors: found.m[k], logLikelihood: likelihoods?.[k] ?? null, columns };
    });
  }

  /* Sample the factors of a part from a mixture of the classes' priors. */
  sample(k, classWeights) {
    const { eta, sigma } = this.parts[k].priors[choose(classWeights)];
    const J = this.parts[k].size;
    const L = cholesky(sigma, J);
    const z = Array.from({ length: J }, normal);
    return eta.map((mean, i) => mean + dot(L.subarray(i * J, (i + 1) * J), z));
  }
}
