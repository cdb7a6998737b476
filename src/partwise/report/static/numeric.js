/* Numbers: arrays that Python packed as base64, and the special functions that densities need. */

const NUMBER_KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array, u1: Uint8Array };

/* Read a packed array as doubles; a single value of a row is repeated to its width. */
function unpack(packed, width = null) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const flat = new NUMBER_KINDS[packed.kind](bytes.buffer);
  const last = packed.shape[packed.shape.length - 1];
  if (width === null || packed.shape.length < 2 || last === width) return Float64Array.from(flat);
  const rows = packed.shape[0];
  const out = new Float64Array(rows * width);
  for (let j = 0; j < rows; j++) out.fill(flat[j], j * width, (j + 1) * width);
  return out;
}

/* The rows of a packed matrix. */
function unpackRows(packed, width = packed.shape[1]) {
  const flat = unpack(packed, width);
  return Array.from({ length: packed.shape[0] }, (_, i) => flat.subarray(i * width, (i + 1) * width));
}

function logSumExp(values) {
  let top = -Infinity;
  for (const value of values) if (value > top) top = value;
  if (top === -Infinity) return top;
  let total = 0;
  for (const value of values) total += Math.exp(value - top);
  return top + Math.log(total);
}

function softmax(values) {
  const total = logSumExp(values);
  return Float64Array.from(values, (value) => Math.exp(value - total));
}

function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/* Places of values, the largest first. */
function descending(values) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b);
}

const HALF_LOG_2PI = 0.5 * Math.log(2 * Math.PI);

/* Log of the Gamma function: the argument is moved up, and Stirling's series taken there. */
function logGamma(x) {
  let product = 1;
  while (x < 12) {
    product *= x;
    x += 1;
  }
  const q = 1 / (x * x);
  const series = (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q / 1188)))) / x;
  return (x - 0.5) * Math.log(x) - x + HALF_LOG_2PI + series - Math.log(product);
}

/* Derivative of the log of the Gamma function, in the same way. */
function digamma(x) {
  let moved = 0;
  while (x < 12) {
    moved += 1 / x;
    x += 1;
  }
  const q = 1 / (x * x);
  return Math.log(x) - 0.5 / x - q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q / 132)))) - moved;
}

/* Complementary error function: its series near 0, a continued fraction farther out. */
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  if (x < 2.5) {
    let term = x;
    let total = x;
    for (let n = 1; Math.abs(term) > 1e-17 * total; n++) {
      term *= (-x * x) / n;
      total += term / (2 * n + 1);
      if (n > 200) break;
    }
    return 1 - (2 / Math.sqrt(Math.PI)) * total;
  }
  if (x > 27) return 0;
  let fraction = x;
  for (let n = 60; n > 0; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (fraction * Math.sqrt(Math.PI));
}

/* Mean of a standard Gaussian between two ends. */
function intervalMean(a, b) {
  if (a > 0) return -intervalMean(-b, -a); /* by the smaller tail, which keeps its digits */
  const share = 0.5 * (erfc(-b * Math.SQRT1_2) - erfc(-a * Math.SQRT1_2));
  if (share >= 1e-290) {
    const density = (z) => Math.exp(-0.5 * z * z - HALF_LOG_2PI);
    return (density(a) - density(b)) / share;
  }
  /* Far in the tail the density decays exponentially from the nearer end. */
  const t = Math.max(-b, 1);
  const width = b - a;
  if (t * width <= 1e-6) return b - 0.5 * width;
  return b - 1 / t + (width * Math.exp(-t * width)) / -Math.expm1(-t * width);
}

/* Lower triangular root of a symmetric positive definite matrix, (J, J) in one row. */
function cholesky(matrix, J) {
  const L = new Float64Array(J * J);
  for (let i = 0; i < J; i++) {
    for (let j = 0; j <= i; j++) {
      let value = matrix[i * J + j];
      for (let k = 0; k < j; k++) value -= L[i * J + k] * L[j * J + k];
      L[i * J + j] = i === j ? Math.sqrt(value) : value / L[j * J + j];
    }
  }
  return L;
}

/* Inverse and log determinant of such a matrix. */
function invert(matrix, J) {
  const L = cholesky(matrix, J);
  let logDet = 0;
  for (let i = 0; i < J; i++) logDet += 2 * Math.log(L[i * J + i]);
  const root = new Float64Array(J * J); /* of the inverse: L^-1 */
  for (let j = 0; j < J; j++) {
    root[j * J + j] = 1 / L[j * J + j];
    for (let i = j + 1; i < J; i++) {
      let value = 0;
      for (let k = j; k < i; k++) value -= L[i * J + k] * root[k * J + j];
      root[i * J + j] = value / L[i * J + i];
    }
  }
  const inverse = new Float64Array(J * J);
  for (let i = 0; i < J; i++) {
    for (let j = 0; j <= i; j++) {
      let value = 0;
      for (let k = i; k < J; k++) value += root[k * J + i] * root[k * J + j];
      inverse[i * J + j] = inverse[j * J + i] = value;
    }
  }
  return { inverse, logDet };
}

/* A symmetric (or any square) matrix times a vector. */
function times(matrix, vector) {
  const J = vector.length;
  const out = new Float64Array(J);
  for (let i = 0; i < J; i++) for (let j = 0; j < J; j++) out[i] += matrix[i * J + j] * vector[j];
  return out;
}

function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

/* A sample from the standard normal distribution. */
function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

/* One of several choices, by their weights. */
function choose(weights) {
  let left = Math.random() * weights.reduce((a, b) => a + b, 0);
  for (let i = 0; i < weights.length; i++) {
    left -= weights[i];
    if (left < 0) return i;
  }
  return weights.length - 1;
}
