/* Inference in models whose parts have states, as the library does it. */

/* Columns of a part with the same likelihood: their positions and units. */
function readColumns(block) {
  const columns = unpack(block.columns);
  const n = columns.length;
  return {
    law: block.law,
    n,
    columns,
    gate: unpack(block.gate, n),
    own: unpack(block.own, n),
    varies: unpack(block.varies, n),
    shift: unpack(block.shift, n),
    scale: unpack(block.scale, n),
    levels: block.levels,
    ordered: block.ordered,
    logged: block.logged,
  };
}

/* Likelihood, levels and part of every column. */
function describeColumns(parts, nColumns) {
  const out = Array.from({ length: nColumns }, () => ({ law: "numbers", levels: null, part: -1 }));
  parts.forEach((part, k) => {
    for (const block of part.blocks) {
      for (let i = 0; i < block.n; i++) {
        const column = out[block.columns[i]];
        column.law = block.law;
        column.levels = block.levels;
        column.counts = block.counts;
        if (block.law === "numbers" && !block.logged) column.scale = block.scale[i];
        if (block.own[i]) column.part = k;
      }
    }
  });
  return out;
}

/* The level nearest to a value, as a number from 0. */
function levelCode(levels, value) {
  let best = 0;
  for (let v = 1; v < levels.length; v++) {
    if (Math.abs(levels[v] - value) < Math.abs(levels[best] - value)) best = v;
  }
  return best;
}

/* The first code by which half of the probability is reached. */
function medianCode(shares) {
  const half = 0.5 * shares.reduce((a, b) => a + b, 0);
  let below = 0;
  for (let code = 0; code < shares.length - 1; code++) {
    below += shares[code];
    if (below >= half) return code;
  }
  return shares.length - 1;
}

/* Variance of Student's t, with at least 2.1 degrees of freedom. */
function variance(spread, df) {
  const safe = Math.max(df, 2.1);
  return spread * spread * (Number.isFinite(safe) ? safe / (safe - 2) : 1);
}

/* Distributions: expected and predictive log density of a value in state j of column i. */
const STATE_LAWS = {
  numbers(block, J) {
    const n = block.n;
    const [mean, precision, constant, spread, df] = ["mean", "precision", "constant", "spread", "df"].map(
      (name) => unpack(block.source[name], n),
    );
    const peak = new Float64Array(J * n); /* log density at the mean */
    const means = new Float64Array(J * n);
    for (let at = 0; at < J * n; at++) {
      means[at] = mean[at] * block.scale[at % n] + block.shift[at % n];
      const half = 0.5 * df[at];
      peak[at] = -Math.log(spread[at]) - HALF_LOG_2PI;
      if (Number.isFinite(half)) {
        peak[at] = logGamma(half + 0.5) - logGamma(half) - 0.5 * Math.log(Math.PI * df[at]);
        peak[at] -= Math.log(spread[at]);
      }
    }
    return {
      means,
      /* Of logarithms, the logarithm of the expectation of exp. */
      growth: block.logged ? means.map((value, at) => value + 0.5 * Math.min(variance(spread[at], df[at]), 1) * block.scale[at % n] ** 2) : null,
      encode: (value, i) => (value - block.shift[i]) / block.scale[i],
      base: (value, i) => -Math.log(block.scale[i]) - (block.logged ? value : 0),
      expected(at, z) {
        const away = z - mean[at];
        return constant[at] - 0.5 * precision[at] * away * away;
      },
      density(at, z) {
        const away = (z - mean[at]) / spread[at];
        const squared = away * away;
        if (!Number.isFinite(df[at])) return peak[at] - 0.5 * squared;
        return peak[at] - 0.5 * (df[at] + 1) * Math.log(1 + squared / df[at]);
      },
    };
  },
  levels(block, J) {
    const { n, levels } = block;
    const V = levels.length;
    const logs = unpack(block.source.logs, n * V);
    const probability = unpack(block.source.probability, n * V);
    const means = new Float64Array(J * n);
    for (let at = 0; at < J * n; at++) {
      let code = 0;
      for (let v = 0; v < V; v++) code += v * probability[at * V + v];
      const below = Math.min(Math.floor(code), Math.max(V - 2, 0));
      means[at] = V < 2 ? levels[0] : levels[below] + (code - below) * (levels[below + 1] - levels[below]);
    }
    return {
      means,
      probability,
      encode: (value) => levelCode(levels, value),
      base: () => 0,
      expected: (at, code) => logs[at * V + code],
      density: (at, code) => Math.log(probability[at * V + code]),
    };
  },
  /* Other distributions: tables over a grid of values, with interpolation. */
  tabulated(block, J) {
    const { n, source } = block;
    const { grid } = source;
    const V = grid.length;
    const [says, density] = ["says", "density"].map((name) => unpack(source[name], n * V));
    const turns = source.up !== undefined; /* angles: the grid is one turn, and means are directions */
    const mean = unpack(source.mean, n);
    const read = (table, at, { places, weights }) => places.reduce((sum, place, a) => sum + weights[a] * table[at * V + place], 0);
    const encode = (value, i) => {
      const z = (value - block.shift[i]) / block.scale[i];
      const turn = grid[V - 1] - grid[0];
      return placesOn(grid, turns ? grid[0] + ((((z - grid[0]) % turn) + turn) % turn) : z, turns);
    };
    return {
      means: Float64Array.from(mean, (value, at) => value * block.scale[at % n] + block.shift[at % n]),
      across: turns ? unpack(source.across, n) : null,
      up: turns ? unpack(source.up, n) : null,
      counts: source.counts,
      encode,
      base: (_, i) => -Math.log(block.scale[i]),
      expected: (at, place) => read(says, at, place),
      density: (at, place) => read(density, at, place),
    };
  },
  counts(block, J) {
    const n = block.n;
    const [shape, rate] = ["shape", "rate"].map((name) => unpack(block.source[name], n));
    /* Of a rate with a Gamma posterior, or of a known rate. */
    const logRate = shape.map((value, at) => (Number.isFinite(rate[at]) ? digamma(value) - Math.log(rate[at]) : Math.log(value)));
    const means = Float64Array.from(shape, (value, at) => (Number.isFinite(rate[at]) ? value / rate[at] : value));
    return {
      means,
      counts: true,
      encode: (value) => value,
      base: (value) => -logGamma(value + 1),
      expected: (at, x) => x * logRate[at] - means[at],
      /* The score of all columns with count 0, which most counts are. */
      nothing: Float64Array.from({ length: J }, (_, j) => {
        let total = 0;
        for (let i = 0; i < n; i++) total -= block.gate[i] * means[j * n + i];
        return total;
      }),
      density(at, x) {
        const r = shape[at];
        if (!Number.isFinite(rate[at])) return (x > 0 ? x * Math.log(r) : 0) - r;
        const grown = x > 0 ? logGamma(x + r) - logGamma(r) : 0;
        return grown - r * Math.log1p(1 / rate[at]) - x * Math.log1p(rate[at]);
      },
    };
  },
};

/* How to read a table over a grid of ascending values: places and their weights, those of the cubic
   through the four nearest points. Beyond the grid, and beside its ends, lines are straight. */
function placesOn(grid, value, turns) {
  const V = grid.length;
  let [low, high] = [0, V - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (grid[middle] <= value) low = middle;
    else high = middle;
  }
  let places = [low, high];
  let xs = [grid[low], grid[high]];
  const beside = low === 0 || high === V - 1;
  if (value !== grid[low] && (turns || !beside)) {
    /* One turn: the first and the last point are the same. */
    const turn = grid[V - 1] - grid[0];
    const [before, after] = [low === 0 ? V - 2 : low - 1, high === V - 1 ? 1 : high + 1];
    places = [before, low, high, after];
    xs = [grid[before] - (low === 0 ? turn : 0), grid[low], grid[high], grid[after] + (high === V - 1 ? turn : 0)];
  }
  const weights = xs.map((x, a) => xs.reduce((product, other, b) => (a === b ? product : (product * (value - other)) / (x - other)), 1));
  return { places, weights };
}

class StatesModel {
  constructor(content, nColumns) {
    this.type = "states";
    this.noun = "state";
    this.nColumns = nColumns;
    this.nParts = content.nParts;
    this.exact = content.exact;
    this.isTable = content.isTable; /* of columns of several kinds */
    this.logBeta = content.logBeta;
    this.logClassShare = content.logClassShare;
    this.parts = content.parts.map((part) => {
      const blocks = part.blocks.map((source) => {
        const block = readColumns(source);
        block.source = source;
        Object.assign(block, STATE_LAWS[block.law](block, part.size));
        delete block.source;
        return block;
      });
      return {
        size: part.size,
        blocks,
        logPrior: unpackRows(part.logPrior, part.size),
        logShare: unpackRows(part.logShare, part.size),
        logMarginal: unpack(part.logMarginal),
      };
    });
    this.columns = describeColumns(this.parts, nColumns);
  }

  /* Visit each observed entry of a part: visit(block, i, encoded value, value). */
  eachEntry(part, values, visit) {
    for (const block of part.blocks) {
      for (let i = 0; i < block.n; i++) {
        const value = values[block.columns[i]];
        if (!Number.isNaN(value)) visit(block, i, block.encode(value, i), value);
      }
    }
  }

  /* Scores of the states of every part, sum_d o g E[log p]. */
  evidence(values) {
    return this.parts.map((part) => {
      const score = new Float64Array(part.size);
      for (const { n, columns, gate, nothing, encode, expected } of part.blocks) {
        if (nothing) for (let j = 0; j < part.size; j++) score[j] += nothing[j];
        for (let i = 0; i < n; i++) {
          const value = values[columns[i]];
          if (nothing ? value === 0 : Number.isNaN(value)) continue;
          const x = encode(value, i);
          for (let j = 0; j < part.size; j++) {
            const at = j * n + i;
            const said = Number.isNaN(value) ? 0 : expected(at, x);
            score[j] += gate[i] * (nothing ? said - expected(at, 0) : said);
          }
        }
      }
      return score;
    });
  }

  /* Posterior of the states of every part, and of the classes, from these scores. */
  weigh(evidence) {
    const totals = this.parts.map((part, k) =>
      part.logPrior.map((prior) => logSumExp(prior.map((b, j) => b + evidence[k][j]))),
    );
    const z = softmax(this.logBeta.map((b, n) => totals.reduce((sum, total) => sum + total[n], b)));
    const m = this.parts.map((part, k) => {
      const out = new Float64Array(part.size);
      part.logPrior.forEach((prior, n) => {
        for (let j = 0; j < part.size; j++) out[j] += z[n] * Math.exp(prior[j] + evidence[k][j] - totals[k][n]);
      });
      return out;
    });
    return { m, z };
  }

  /* Posterior of a row's states; missing values (NaN) are ignored. */
  infer(values) {
    return this.weigh(this.evidence(values));
  }

  /* A posterior with given states; the background has one state. */
  certain(states) {
    const m = this.parts.map((part, k) => {
      const own = new Float64Array(part.size);
      own[k < this.nParts ? states[k] : 0] = 1;
      return own;
    });
    return { m, z: null };
  }

  /* Mixture of a column's states: the sum over parts and states of g m value(block, place). */
  mix(found, value, width = () => 1) {
    const out = new Array(this.nColumns).fill(null);
    this.parts.forEach((part, k) => {
      for (const block of part.blocks) {
        const V = width(block);
        for (let i = 0; i < block.n; i++) {
          const total = (out[block.columns[i]] ??= new Float64Array(V));
          for (let j = 0; j < part.size; j++) {
            const weight = block.gate[i] * found.m[k][j];
            if (weight > 0) for (let v = 0; v < V; v++) total[v] += weight * value(block, j * block.n + i, v);
          }
        }
      }
    });
    return out;
  }

  /* Expected row; of a table of several kinds, the imputed values. */
  expect(found) {
    if (this.isTable) return this.fill(found);
    const out = Float64Array.from(this.mix(found, (block, at) => block.means[at]), (one) => one?.[0] ?? 0);
    return this.turn(found, out);
  }

  /* Replace means of angles by mean directions. */
  turn(found, out) {
    if (!this.parts.some((part) => part.blocks.some((block) => block.up))) return out;
    const [across, up] = ["across", "up"].map((name) => this.mix(found, (block, at) => block[name]?.[at] ?? 0));
    for (const part of this.parts) {
      for (const { up: turns, n, columns, shift, scale } of part.blocks) {
        for (let i = 0; turns && i < n; i++) out[columns[i]] = Math.atan2(up[columns[i]][0], across[columns[i]][0]) * scale[i] + shift[i];
      }
    }
    return out;
  }

  /* Imputed values: expectations of numbers and counts, the most likely level or, of ordered levels,
     the median; of logarithms the logarithm of the expectation. */
  fill(found) {
    const value = (block, at, v) =>
      block.probability ? block.probability[at * block.levels.length + v] : block.growth ? Math.exp(block.growth[at]) : block.means[at];
    const mixed = this.mix(found, value, (block) => (block.probability ? block.levels.length : 1));
    const out = new Float64Array(this.nColumns);
    for (const part of this.parts) {
      for (const block of part.blocks) {
        for (let i = 0; i < block.n; i++) {
          const one = mixed[block.columns[i]];
          out[block.columns[i]] = !block.probability
            ? block.growth
              ? Math.log(one[0])
              : one[0]
            : block.levels[block.ordered ? medianCode(one) : argmax(one)];
        }
      }
    }
    return this.turn(found, out);
  }

  /* Log density of a part's own entries under each of its states, and their base measure. */
  densities(part, values) {
    const density = new Float64Array(part.size);
    let base = 0;
    this.eachEntry(part, values, (block, i, x, value) => {
      if (!block.own[i]) return;
      base += block.base(value, i);
      for (let j = 0; j < part.size; j++) density[j] += block.density(j * block.n + i, x);
    });
    return { density, base };
  }

  /* Log-likelihood of every part's entries, states summed out. */
  partLikelihoods(values) {
    return this.parts.slice(0, this.nParts).map((part) => {
      const { density, base } = this.densities(part, values);
      return base + logSumExp(density.map((value, j) => value + part.logMarginal[j]));
    });
  }

  /* Log-likelihood of the row and probabilities of its classes; null where columns share parts. */
  likelihood(values) {
    if (!this.exact) return null;
    const joint = Array.from(this.logClassShare);
    for (const part of this.parts) {
      const { density, base } = this.densities(part, values);
      part.logShare.forEach((prior, n) => {
        joint[n] += base + logSumExp(density.map((value, j) => value + prior[j]));
      });
    }
    return { logLikelihood: logSumExp(joint), classes: softmax(joint) };
  }

  /* Probabilities of the classes: exact if possible, otherwise those of the variational posterior. */
  classes(values, found) {
    return this.likelihood(values)?.classes ?? found.z;
  }

  /* Of every part: its state, and the columns that support it, the strongest first; after them the background, if asked for. */
  explain(values, found = this.infer(values), nParts = this.nParts) {
    const likelihoods = this.partLikelihoods(values);
    return this.parts.slice(0, nParts).map((part, k) => {
      const state = argmax(found.m[k]);
      const columns = [];
      this.eachEntry(part, values, (block, i, x, value) => {
        if (!block.own[i] || !block.varies[i]) return;
        const density = Array.from({ length: part.size }, (_, j) => block.density(j * block.n + i, x));
        const average = logSumExp(density.map((one, j) => one + part.logMarginal[j]));
        const at = state * block.n + i;
        const expected = this.expectedIn(block, at);
        const most = this.highest(block, at, i, block.growth ? block.means[at] : expected);
        const V = block.levels?.length ?? 0;
        const share = block.probability ? Math.max(...block.probability.subarray(at * V, (at + 1) * V)) : 1;
        const own = density[state] + (block.counts ? block.base(value, i) : 0);
        columns.push({ column: block.columns[i], value, expected, evidence: density[state] - average, below: Math.min(own - most, 0), share });
      });
      columns.sort((a, b) => b.evidence - a.evidence || a.column - b.column);
      return { part: k, state, probability: found.m[k][state], logLikelihood: likelihoods[k] ?? null, columns };
    });
  }

  /* Log density of about the most likely value of a column in one state. */
  highest(block, at, i, expected) {
    const likely = block.counts ? Math.floor(expected) : expected;
    return block.density(at, block.encode(likely, i)) + (block.counts ? block.base(likely, i) : 0);
  }

  /* Expected value of a column in one state; of a table's levels the most likely, of logarithms that of the expectation. */
  expectedIn(block, at) {
    if (!this.isTable || !block.probability) return (block.growth ?? block.means)[at];
    const V = block.levels.length;
    return block.levels[argmax(block.probability.subarray(at * V, (at + 1) * V))];
  }

  /* Sample the state of a part from a mixture of the classes' priors. */
  sample(k, classWeights) {
    return choose(Array.from(this.parts[k].logShare[choose(classWeights)], Math.exp));
  }
}
