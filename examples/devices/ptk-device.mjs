/**
 * A device of Draw and Discard in one file, for browsers and Node 20, without dependencies.
 *
 * It computes to the last bit what docs/proofs/draw_discard.md says; docs/reference/devices.md has the protocol and the
 * rules of a device. Rows stay here. What leaves is one report of noise with a little of them in it.
 *
 *   import { Device } from "./ptk-device.mjs";
 *   const limits = { report_epsilon: 3.5, reports_per_window: 1, reports_in_all: 8, columns: ["hour", "clicked"] };
 *   const device = new Device("https://ptk.example.org", localStorage, { limits });
 *   await device.contribute({ hour: [9, 17], clicked: [1, 0] }, ticketFromTheBackend);
 */

export const FORMAT = "draw-discard/1";
const TEXT_BYTES_MAX = 2 ** 20, COLUMNS_MAX = 1024, CROSSES_MAX = 256, WEIGHTS_MAX = 2 ** 16, CLASSES_MAX = 2 ** 8;
const WEIGHT_MAX = 2 ** 31 - 1, NORM_UNITS = 2 ** 20, ONE = 2 ** 15, FINE = 2 ** 20, ROWS_MAX = 2 ** 13;
const SCORE_MAX = 16, CELL = 2 ** 13, OUTSIDE = -1;
const ASKED_PER_WINDOW = 1, ASKED_IN_ALL = 8; // at most, where nothing was allowed before: a server may say any
const REPORTS_MAX = 10000, PUTS = 3, AHEAD_MS = 3651 * 86400e3;

/** Why a device sends nothing, or what became of what it sent. */
export class DeviceError extends Error {
  /**
   * @param {"not-allowed"|"limit-reached"|"untrusted-answer"|"odometer"|"server-refused"|"no-answer"|"wrong-use"} code
   * @param {string} message
   * @param {object} [told] `counted`: whether a report was counted; `asked`: limits that would do; `problem`: the
   *   server's own code
   */
  constructor(code, message, told = {}) {
    super(message);
    Object.assign(this, { name: "DeviceError", code, counted: false }, told);
  }
}

const untrusted = (message) => new DeviceError("untrusted-answer", message);
const wrongUse = (message) => new DeviceError("wrong-use", message);

// ---------------------------------------------------------------------------------------------- specification

function need(condition, message) {
  if (!condition) throw untrusted(`the device refuses the specification: ${message}`);
}

const isFinite64 = (x) => typeof x === "number" && Number.isFinite(x);
const isWhole = (x, least, most) => Number.isInteger(x) && x >= least && x <= most;
const isName = (x) => typeof x === "string" && /^[A-Za-z][A-Za-z0-9_]{0,62}$/.test(x);
const isWellFormed = (text) => !/\p{Surrogate}/u.test(text);
const utf8 = (text) => new TextEncoder().encode(text);
const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

function hasFields(document, names) {
  return document !== null && typeof document === "object" && !Array.isArray(document)
    && Object.keys(document).sort().join() === [...names].sort().join();
}

/** Read one column: numeric, categorical or hashed. */
function columnOf(document) {
  if (hasFields(document, ["column", "low", "high"])) {
    const { column, low, high } = document;
    need(isName(column) && isFinite64(low) && isFinite64(high), "a numeric column needs a name and finite bounds");
    need(low < high && Number.isFinite(high - low) && high - low >= 2 ** -1022 * 2 ** 24, "the bounds of a column");
    return { kind: "numeric", column, low, high, size: 1 };
  }
  if (hasFields(document, ["column", "values"])) {
    const { column, values } = document;
    need(isName(column) && Array.isArray(values), "a categorical column needs a name and a list of values");
    need(values.length >= 1 && values.length <= WEIGHTS_MAX, "the number of values of a column");
    const type = typeof values[0];
    need(["string", "number", "boolean"].includes(type), "values are texts, integers or booleans");
    need(values.every((value) => typeof value === type), "the values of a column must be of one type");
    need(new Set(values).size === values.length, "the values of a column must be distinct");
    if (type === "number") need(values.every(Number.isSafeInteger), "a value is no exact integer");
    if (type === "string") need(values.every((v) => isWellFormed(v) && utf8(v).length <= 256), "a value is too long");
    return { kind: "categorical", column, values, type, size: values.length,
      codes: new Map(values.map((value, code) => [value, code])) };
  }
  if (hasFields(document, ["column", "hash_buckets"])) {
    const { column, hash_buckets: size } = document;
    need(isName(column) && isWhole(size, 2, WEIGHTS_MAX), "a hashed column needs a name and a number of buckets");
    return { kind: "hashed", column, size };
  }
  return need(false, "a column has fields that this device does not know");
}

/**
 * Read the canonical text of a specification; refuse what is not known here.
 *
 * @param {string} text
 * @returns the fields of the document, and what follows from them: sizes, n_inputs, n_scores, n_weights, limit, reach,
 *   distance and loss
 */
export function parseSpecification(text) {
  need(typeof text === "string" && utf8(text).length <= TEXT_BYTES_MAX, "its text is too long");
  let document;
  try {
    document = JSON.parse(text);
  } catch {
    need(false, "it is no JSON");
  }
  need(hasFields(document, ["clip", "crosses", "delta", "epsilon", "features", "format", "grid_bits", "k", "label",
    "learning_rate", "link", "max_norm", "noise"]), "its fields are not those that are known here");
  const s = { ...document };
  need(s.format === FORMAT, `its format is not ${FORMAT}`);
  need(["linear", "logistic", "softmax"].includes(s.link), "its link is not known");
  need(["l1", "l2", "coordinate"].includes(s.clip), "its clip is not known");
  need(["laplace", "gaussian"].includes(s.noise), "its noise is not known");
  need(Array.isArray(s.features) && isWhole(s.features.length, 1, COLUMNS_MAX), "the number of its columns");
  s.features = s.features.map(columnOf);
  s.label = columnOf(s.label);
  need(s.label.kind === (s.link === "softmax" ? "categorical" : "numeric"), "its label is of another kind");
  if (s.link === "softmax") need(isWhole(s.label.size, 2, CLASSES_MAX), "the number of its classes");
  if (s.link === "logistic") need(s.label.low === 0 && s.label.high === 1, "the bounds of its label");
  const names = [...s.features, s.label].map((one) => one.column.toLowerCase());
  need(new Set(names).size === names.length, "two columns have one name");
  const sizes = new Map(s.features.map((f) => [f.column, f.size]));
  need(Array.isArray(s.crosses) && s.crosses.length <= CROSSES_MAX, "the number of its crosses");
  for (const cross of s.crosses) {
    need(Array.isArray(cross) && isWhole(cross.length, 2, 3), "a cross has two or three columns");
    need(cross.every((name) => typeof name === "string" && sizes.has(name)), "a cross names another column");
    need(new Set(cross).size === cross.length, "a cross names a column twice");
  }
  need(new Set(s.crosses.map((cross) => [...cross].sort().join())).size === s.crosses.length, "a cross is there twice");
  need(isFinite64(s.epsilon) && s.epsilon >= 1e-6 && s.epsilon <= 10, "its epsilon");
  need(isFinite64(s.delta) && s.delta >= 0 && s.delta < 0.01 && !(s.delta > 0 && s.delta < 2 ** -1022), "its delta");
  need((s.noise === "gaussian") === (s.delta > 0), "its delta and its noise do not go together");
  for (const name of ["max_norm", "learning_rate"]) {
    need(isFinite64(s[name]) && s[name] >= 2 ** -20 && s[name] <= 2 ** 20, `its ${name}`);
  }
  need(isWhole(s.k, 1, 1000) && isWhole(s.grid_bits, 8, 30), "its k or its grid_bits");
  s.sizes = [1, ...s.features.map((f) => f.size), ...s.crosses.map((c) => product(c.map((name) => sizes.get(name))))];
  s.n_inputs = s.sizes.reduce((a, b) => a + b, 0);
  s.n_scores = s.link === "softmax" ? s.label.size : 1;
  s.n_weights = s.n_inputs * s.n_scores;
  need(s.n_weights <= WEIGHTS_MAX, "it has too many weights");
  s.limit = Math.floor(s.max_norm * NORM_UNITS);
  s.reach = Number(BigInt(Math.floor(s.learning_rate * 2 ** s.grid_bits + 0.5)) * BigInt(s.limit) / BigInt(NORM_UNITS));
  need(s.reach >= 2 ** 10 && s.reach <= 2 ** 30, "its steps are too short or too long for its grid");
  s.distance = s.clip === "l2" && s.noise === "laplace"
    ? Number(isqrt(4n * BigInt(s.reach) ** 2n * BigInt(s.n_weights))) : 2 * s.reach;
  s.noise_scale = s.noise === "laplace" ? laplaceScale(s.distance, s.epsilon)
    : discreteScale(gaussianMultiplier(s.epsilon, s.delta) * s.distance);
  const variance = s.noise === "laplace" ? 0.5 / Math.sinh(0.5 / s.noise_scale) ** 2 : s.noise_scale ** 2;
  need(8 * Math.sqrt(s.k * variance / 2) <= WEIGHT_MAX, "its weights have no room for the noise");
  s.loss = wholeLoss(s);
  s.columns = [...s.features, s.label].map((one) => one.column);
  need(canonicalText(s) === text, "its text is not in canonical form");
  return Object.freeze(s);
}

/** Write a specification as Python does: a field that is given twice, or in another order, gives another text. */
function canonicalText(s) {
  const column = (one) => one.kind === "numeric"
    ? `{"column":"${one.column}","high":${pythonFloat(one.high)},"low":${pythonFloat(one.low)}}`
    : one.kind === "hashed" ? `{"column":"${one.column}","hash_buckets":${one.size}}`
    : `{"column":"${one.column}","values":${JSON.stringify(one.values)}}`;
  return `{"clip":"${s.clip}","crosses":${JSON.stringify(s.crosses)},"delta":${pythonFloat(s.delta)}`
    + `,"epsilon":${pythonFloat(s.epsilon)},"features":[${s.features.map(column).join()}],"format":"${FORMAT}"`
    + `,"grid_bits":${s.grid_bits},"k":${s.k},"label":${column(s.label)}`
    + `,"learning_rate":${pythonFloat(s.learning_rate)},"link":"${s.link}","max_norm":${pythonFloat(s.max_norm)}`
    + `,"noise":"${s.noise}"}`;
}

function pythonFloat(x) {
  if (x === 0) return "0.0"; // -0, too
  const [, sign, digits, exponent] = /^(-?)([\d.]+)e([+-]\d+)$/.exec(x.toExponential());
  const plain = digits.replace(".", ""), power = Number(exponent);
  if (power < -4 || power >= 16) {
    return `${sign}${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${plain}`;
  const padded = plain.padEnd(power + 1, "0");
  return `${sign}${padded.slice(0, power + 1)}.${padded.slice(power + 1) || "0"}`;
}

/** SHA-256 of a text in UTF-8, in hexadecimal digits. */
export async function digestOf(text) {
  const octets = new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(text)));
  return Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join("");
}

// ------------------------------------------------------------------------------------------------ noise scale

/** A positive float64 as the fraction that it is. */
function fraction(x) {
  let denominator = 1n, value = x;
  while (!Number.isInteger(value)) {
    value *= 2;
    denominator *= 2n;
  }
  return [BigInt(value), denominator];
}

function nextUp(x) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  view.setBigUint64(0, view.getBigUint64(0) + 1n);
  return view.getFloat64(0);
}

function isqrt(n) {
  if (n < 2n) return n;
  let x = BigInt(Math.floor(Math.sqrt(Number(n))));
  while (x * x > n) x -= 1n;
  while ((x + 1n) * (x + 1n) <= n) x += 1n;
  return x;
}

/** The least float64 b with distance / b <= epsilon, compared as fractions. */
function laplaceScale(distance, epsilon) {
  const [en, ed] = fraction(epsilon);
  let scale = distance / epsilon;
  for (;;) {
    const [n, d] = fraction(scale);
    if (n * en >= BigInt(distance) * d * ed) return scale;
    scale = nextUp(scale);
  }
}

/** exp(x * x) times the complementary error function of x >= 0. */
function scaledErfc(x) {
  if (x < 2) {
    let term = x, sum = x; // erf(x) = 2 / sqrt(pi) exp(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all terms are positive
    for (let n = 1; term > sum * 1e-18; n += 1) {
      term *= 2 * x * x / (2 * n + 1);
      sum += term;
    }
    return Math.exp(x * x) - 2 / Math.sqrt(Math.PI) * sum;
  }
  let tail = x; // the continued fraction x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))
  for (let n = 200; n >= 1; n -= 1) tail = x + n / 2 / tail;
  return 1 / (Math.sqrt(Math.PI) * tail);
}

/** exp(shift) times the chance that a normal number is below z. */
function normalBelow(z, shift) {
  const x = Math.abs(z) / Math.SQRT2, tail = 0.5 * scaledErfc(x) * Math.exp(shift - x * x);
  return z < 0 ? tail : Math.exp(shift) - tail;
}

/** An upper bound of the delta of Gaussian noise (Balle, Wang 2018, Theorem 8); 1e-11 is more than float64 errs. */
function profileDelta(multiplier, epsilon) {
  const near = 1 / (2 * multiplier), far = epsilon * multiplier;
  const more = normalBelow(near - far, 0), less = normalBelow(-near - far, epsilon);
  return Math.max(more - less + 1e-11 * (more + less), 0) * (1 + 1e-11);
}

function gaussianMultiplier(epsilon, delta) {
  const enough = (noise) => profileDelta(noise, epsilon - 1e-15) <= delta * (1 - 1e-11);
  let low = 1e-3, high = 1;
  while (!enough(high)) [low, high] = [high, 2 * high];
  while (high / low > 1 + 1e-9) {
    const middle = Math.sqrt(low * high);
    if (enough(middle)) high = middle; else low = middle;
  }
  return high * (1 + 1e-11);
}

/** Discrete noise hides as much as continuous noise if its variance is larger by 3: docs/proofs/discrete-gaussian.md. */
const discreteScale = (scale) => Math.sqrt(scale * scale + 3) * (1 + 1e-12);

/** What a whole report loses; of Gaussian noise on clipped coordinates by its zCDP bound, which is an upper one. */
function wholeLoss(s) {
  if (s.clip !== "coordinate") return { epsilon: s.epsilon, delta: s.delta };
  if (s.noise === "laplace") {
    return { epsilon: 2 * s.reach * s.n_weights / s.noise_scale * (1 + 1e-15), delta: 0 };
  }
  const rho = (2 * s.reach * Math.sqrt(s.n_weights) / s.noise_scale) ** 2 / 2;
  return { epsilon: (rho + 2 * Math.sqrt(rho * Math.log(1 / s.delta))) * (1 + 1e-12), delta: s.delta };
}

// ---------------------------------------------------------------------------------------------- exact noise

/** Uniform whole numbers from the system's generator. */
class Coins {
  constructor() {
    this.words = new Uint32Array(2 ** 12);
    this.at = this.words.length;
  }

  word() {
    if (this.at === this.words.length) {
      crypto.getRandomValues(this.words);
      this.at = 0;
    }
    const word = this.words[this.at];
    this.words[this.at++] = 0; // no word is used twice
    return word;
  }

  /** One of 0, ..., n - 1, each with exactly the same probability. */
  below(n) {
    let words = 1, span = 2n ** 32n;
    for (; span < n << 32n; span <<= 32n) words += 1;
    const even = span - span % n; // what is from here on is drawn again
    for (;;) {
      let drawn = 0n;
      for (let i = 0; i < words; i += 1) drawn = drawn << 32n | BigInt(this.word());
      if (drawn < even) return drawn % n;
    }
  }

  /** True with probability exp(-n / d), for whole numbers n >= 0 and d > 0. */
  exponential(n, d) {
    for (; n > d; n -= d) if (!this.exponential(1n, 1n)) return false;
    let k = 1n;
    while (this.below(d * k) < n) k += 1n;
    return k % 2n === 1n;
  }

  /** A whole number x with probability proportional to exp(-|x| d / n): noise of the scale n / d. */
  laplace(n, d) {
    for (;;) {
      const rest = this.below(n);
      if (!this.exponential(rest, n)) continue;
      let whole = 0n;
      while (this.exponential(1n, 1n)) whole += 1n;
      const size = (rest + n * whole) / d, negative = this.below(2n) === 1n;
      if (!(negative && size === 0n)) return negative ? -size : size;
    }
  }

  /** A whole number x with probability proportional to exp(-x^2 d^2 / (2 n^2)): noise of the scale n / d. */
  gaussian(n, d) {
    const t = n / d + 1n, variance = n * n, parts = d * d; // the variance is variance / parts
    for (;;) {
      const drawn = this.laplace(t, 1n), size = drawn < 0n ? -drawn : drawn, apart = size * t * parts - variance;
      if (this.exponential(apart * apart, 2n * variance * parts * t * t)) return drawn;
    }
  }
}

/**
 * Exact noise, by the samplers of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
 *
 * Only whole numbers are compared, so that each value has the probability of the law. The law is that of
 * ptklib.mechanisms, which draws in another way.
 *
 * @param {"laplace"|"gaussian"} noise
 * @param {number} scale
 * @param {number} n
 * @returns {bigint[]}
 */
export function exactNoise(noise, scale, n) {
  const coins = new Coins(), [numerator, denominator] = fraction(scale);
  return Array.from({ length: n }, () => coins[noise](numerator, denominator));
}

// ------------------------------------------------------------------------------------------------------- rows

/** An entry as a number; NaN for what is missing or is no number. */
function numberOf(entry) {
  if (typeof entry === "number") return entry;
  if (typeof entry === "boolean") return entry ? 1 : 0;
  if (typeof entry !== "bigint") return NaN;
  const number = Number(entry);
  return Number.isFinite(number) ? number : NaN;
}

/** Where a number is between the bounds, in whole units; NaN if there is none. */
function shareOf(column, entry, units) {
  const number = Math.min(Math.max(numberOf(entry), column.low), column.high);
  return Math.floor((number - column.low) / (column.high - column.low) * units + 0.5);
}

function codeOf(column, entry) {
  if (column.kind === "hashed") return bucketOf(entry, column.size);
  if (column.type === "number" && typeof entry === "bigint") entry = numberOf(entry);
  return typeof entry === column.type ? column.codes.get(entry) ?? OUTSIDE : OUTSIDE;
}

const WORD = 2n ** 64n - 1n;

function mixed(z) { // the finaliser of SplitMix64
  z = (z ^ z >> 30n) * 0xBF58476D1CE4E5B9n & WORD;
  z = (z ^ z >> 27n) * 0x94D049BB133111EBn & WORD;
  return z ^ z >> 31n;
}

function bucketOf(entry, buckets) {
  if (typeof entry === "string") {
    const octets = utf8(entry);
    return isWellFormed(entry) && octets.length <= 1024 ? Number(blake2b64(octets) % BigInt(buckets)) : OUTSIDE;
  }
  if (typeof entry === "boolean") entry = entry ? 1 : 0;
  if (typeof entry === "number" && Number.isInteger(entry) && Math.abs(entry) < 2 ** 63) entry = BigInt(entry);
  if (typeof entry !== "bigint") return OUTSIDE;
  return Number(mixed(entry & WORD ^ mixed(0x9E3779B97F4A7C15n)) % BigInt(buckets));
}

const BLAKE_IV = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
const BLAKE_ORDER = ["0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "9057fae24ac7861d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0"]
  .map((line) => [...line].map((digit) => parseInt(digit, 16)));
const BLAKE_MIXES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

/** BLAKE2b with a digest of 8 bytes and a salt of zeros, as a number. */
function blake2b64(octets) {
  const h = [...BLAKE_IV], rotated = (x, n) => (x >> n | x << 64n - n) & WORD;
  h[0] ^= 0x01010008n;
  const blocks = Math.max(1, Math.ceil(octets.length / 128)), padded = new Uint8Array(128 * blocks);
  padded.set(octets);
  const view = new DataView(padded.buffer);
  for (let block = 0; block < blocks; block += 1) {
    const m = Array.from({ length: 16 }, (_, i) => view.getBigUint64(128 * block + 8 * i, true));
    const v = [...h, ...BLAKE_IV], last = block === blocks - 1;
    v[12] ^= BigInt(last ? octets.length : 128 * (block + 1));
    if (last) v[14] ^= WORD;
    for (let round = 0; round < 12; round += 1) {
      const order = BLAKE_ORDER[round % 10];
      BLAKE_MIXES.forEach(([a, b, c, d], i) => {
        v[a] = v[a] + v[b] + m[order[2 * i]] & WORD;
        v[d] = rotated(v[d] ^ v[a], 32n);
        v[c] = v[c] + v[d] & WORD;
        v[b] = rotated(v[b] ^ v[c], 24n);
        v[a] = v[a] + v[b] + m[order[2 * i + 1]] & WORD;
        v[d] = rotated(v[d] ^ v[a], 16n);
        v[c] = v[c] + v[d] & WORD;
        v[b] = rotated(v[b] ^ v[c], 63n);
      });
    }
    for (let i = 0; i < 8; i += 1) h[i] ^= v[i] ^ v[i + 8];
  }
  return h[0];
}

/**
 * The first 8,192 rows that have a label, as whole numbers: which weights each uses and how much of them.
 *
 * @param s a specification
 * @param {Object<string, Array>} rows columns by name, of one length
 * @returns {{places: number[][], values: number[][], labels: number[]}}
 */
export function encodeRows(s, rows) {
  const lengths = s.columns.map((name) => {
    if (!Object.hasOwn(rows, name) || !Array.isArray(rows[name])) throw wrongUse(`the rows have no column ${name}`);
    return rows[name].length;
  });
  if (new Set(lengths).size > 1) throw wrongUse("the columns have different lengths");
  const starts = [];
  s.sizes.reduce((start, size) => (starts.push(start), start + size), 0);
  const byName = new Map(s.features.map((feature) => [feature.column, feature]));
  const encoded = { places: [], values: [], labels: [] };
  for (let row = 0; row < lengths[0] && encoded.labels.length < ROWS_MAX; row += 1) {
    const target = rows[s.label.column][row];
    const label = s.link === "softmax" ? codeOf(s.label, target) : shareOf(s.label, target, FINE);
    if (Number.isNaN(label) || label === OUTSIDE) continue;
    const places = [0], values = [ONE], codes = new Map(), numbers = new Map();
    const use = (start, value) => {
      places.push(start);
      values.push(value);
    };
    s.features.forEach((feature, i) => {
      const entry = rows[feature.column][row];
      if (feature.kind === "numeric") {
        numbers.set(feature.column, shareOf(feature, entry, ONE) || 0);
        use(starts[i + 1], numbers.get(feature.column));
      } else {
        codes.set(feature.column, codeOf(feature, entry));
        if (codes.get(feature.column) !== OUTSIDE) use(starts[i + 1] + codes.get(feature.column), ONE);
      }
    });
    s.crosses.forEach((cross, i) => {
      if (cross.some((name) => codes.get(name) === OUTSIDE)) return;
      let code = 0, value = ONE;
      for (const name of cross) {
        if (codes.has(name)) code = code * byName.get(name).size + codes.get(name);
        else value = Math.floor((value * numbers.get(name) + ONE / 2) / ONE);
      }
      use(starts[i + 1 + s.features.length] + code, value);
    });
    encoded.places.push(places);
    encoded.values.push(values);
    encoded.labels.push(label);
  }
  return encoded;
}

// ----------------------------------------------------------------------------------------------------- update

const cells = 128 * SCORE_MAX;
const LOGISTIC = Array.from({ length: 2 * cells + 2 }, (_, i) => Math.round(FINE / (1 + Math.exp(SCORE_MAX - i / 128))));
const EXPONENTIAL = Array.from({ length: cells + 2 }, (_, i) => Math.round(2 ** 24 * Math.exp(-i / 128)));

/** A function between two entries of its table, rounded. */
function chord(table, at) {
  const rest = at % CELL, cell = (at - rest) / CELL;
  return Math.floor((table[cell] * (CELL - rest) + table[cell + 1] * rest + CELL / 2) / CELL);
}

const clamped = (x, low, high) => (x < low ? low : x > high ? high : x);
const quotient = (a, b) => (a - a % b) / b; // towards zero, exact below 2^53

/** The predicted label, or the probability of each class, in units of 2^-20; scores are BigInts. */
function predicted(s, scores) {
  const most = SCORE_MAX * FINE;
  if (s.link === "linear") return [Number(clamped(scores[0], BigInt(-FINE), BigInt(2 * FINE)))];
  if (s.link === "logistic") return [chord(LOGISTIC, Number(clamped(scores[0], BigInt(-most), BigInt(most))) + most)];
  const highest = scores.reduce((a, b) => (a > b ? a : b));
  const parts = scores.map((score) => chord(EXPONENTIAL, Number(clamped(highest - score, 0n, BigInt(most)))));
  const total = parts.reduce((a, b) => a + b, 0);
  return parts.map((part) => quotient(2 * FINE * part + total, 2 * total));
}

/** The mean gradient over encoded rows, in units of 2^-20; `instance` is an Int32Array. */
export function meanGradient(s, instance, encoded) {
  const sums = new Array(s.n_weights).fill(0), n = encoded.labels.length, shift = BigInt(s.grid_bits - 5);
  for (let row = 0; row < n; row += 1) {
    const places = encoded.places[row], values = encoded.values[row], scores = [];
    for (let score = 0; score < s.n_scores; score += 1) {
      const first = score * s.n_inputs; // a product is below 2^46, and 128 of them below 2^53
      let sum = 0n, part = 0;
      places.forEach((place, i) => {
        part += instance[first + place] * values[i];
        if (i % 64 === 63) [sum, part] = [sum + BigInt(part), 0];
      });
      scores.push(sum + BigInt(part) >> shift);
    }
    predicted(s, scores).forEach((prediction, score) => {
      const label = s.link !== "softmax" ? encoded.labels[row] : encoded.labels[row] === score ? FINE : 0;
      places.forEach((place, i) => {
        sums[score * s.n_inputs + place] += (prediction - label) * values[i];
      });
    });
  }
  return sums.map((sum) => quotient(sum, Math.max(n, 1) * ONE) + 0);
}

/** Learning rate times clipped gradient, in whole units of the grid. */
export function clippedStep(s, gradient) {
  if (s.clip === "coordinate") return gradient.map((m) => quotient(s.reach * clamped(m, -s.limit, s.limit), s.limit) + 0);
  let norm = gradient.reduce((sum, m) => sum + Math.abs(m), 0);
  if (s.clip === "l2") {
    const squares = gradient.reduce((sum, m) => sum + BigInt(m) * BigInt(m), 0n), root = isqrt(squares);
    norm = Number(root * root < squares ? root + 1n : root);
  }
  return gradient.map((m) => quotient(s.reach * m, Math.max(norm, s.limit)) + 0);
}

/** The instance after one noisy step on encoded rows: all that leaves the device. An Int32Array. */
export function makeReport(s, instance, encoded) {
  const step = clippedStep(s, meanGradient(s, instance, encoded));
  return reportOf(instance, step, exactNoise(s.noise, s.noise_scale, s.n_weights));
}

/** Instance minus step plus noise (BigInts), within 32 bits. */
export function reportOf(instance, step, noise) {
  const most = BigInt(WEIGHT_MAX);
  return Int32Array.from(noise, (drawn, j) => Number(clamped(BigInt(instance[j] - step[j]) + drawn, -most, most)));
}

// --------------------------------------------------------------------------------------------------- odometer

const ODOMETER = "ptk-odometer-js/1";
const LIMITS = { report_delta: 0, window_seconds: 3600 };

function checkLimits(limits) {
  const l = { ...LIMITS, ...limits };
  const good = hasFields(l, ["report_epsilon", "report_delta", "reports_per_window", "reports_in_all", "columns",
    "window_seconds"]) && isFinite64(l.report_epsilon) && l.report_epsilon >= 0 && isFinite64(l.report_delta)
    && l.report_delta >= 0 && l.report_delta < 1 && isWhole(l.reports_per_window, 0, 2 ** 31)
    && isWhole(l.reports_in_all, 0, 2 ** 31) && isWhole(l.window_seconds, 0, 366 * 86400)
    && Array.isArray(l.columns) && l.columns.every(isName);
  if (!good) throw wrongUse("limits need report_epsilon, reports_per_window, reports_in_all and columns");
  return { ...l, columns: [...new Set(l.columns)].sort() };
}

let turn = Promise.resolve();

/** Run one piece of work after another: in this page, and with Web Locks in all pages of its origin. */
function alone(work) {
  const locks = globalThis.navigator?.locks;
  const run = () => (locks ? locks.request("ptk-odometer", work) : work());
  const result = turn.then(run);
  turn = result.catch(() => {});
  return result;
}

/**
 * What a device has lost so far, in a storage of the app: an object with getItem(key) and setItem(key, text), which
 * may return promises. On return of setItem the text must be durable.
 *
 * A text that is missing, damaged or older than its mark is refused. Whoever takes both away begins an odometer that
 * knows less.
 */
export class Odometer {
  constructor(storage) {
    this.storage = storage;
  }

  /** What is kept: number, limits, reports. */
  async read() {
    const text = await this.storage.getItem("ptk-odometer"), mark = await this.storage.getItem("ptk-odometer-mark");
    if (text === null || text === undefined) {
      if (mark) throw new DeviceError("odometer", "the odometer is missing: restore it, or losses are forgotten");
      return { format: ODOMETER, number: 0, previous: "", limits: null, reports: [] };
    }
    let record = null;
    try {
      record = JSON.parse(text);
    } catch { /* refused below */ }
    const [number, digest] = (mark ?? "0 ").split(" ");
    const whole = record !== null && hasFields(record, ["format", "number", "previous", "limits", "reports"])
      && record.format === ODOMETER && Array.isArray(record.reports);
    const marked = whole && record.number === Number(number) && await digestOf(text) === digest;
    // written, and the page was closed before it was marked: nothing was sent
    const ahead = whole && record.number === Number(number) + 1 && record.previous === digest;
    if (!marked && !ahead) throw new DeviceError("odometer", "the odometer is damaged, or older than it was");
    return record;
  }

  async #write(record) {
    const before = record.number ? await this.storage.getItem("ptk-odometer") : "";
    const previous = before ? await digestOf(before) : "";
    const text = JSON.stringify({ ...record, number: record.number + 1, previous });
    if (record.number) await this.storage.setItem("ptk-odometer-mark", `${record.number} ${previous}`);
    await this.storage.setItem("ptk-odometer", text);
    await this.storage.setItem("ptk-odometer-mark", `${record.number + 1} ${await digestOf(text)}`);
  }

  /** Keep what the person allows from now on. */
  allow(limits) {
    return alone(async () => this.#write({ ...await this.read(), limits: checkLimits(limits) }));
  }

  /** Allow what a report needs beyond the limits that are kept now, and no more. */
  widen(report, columns) {
    return alone(async () => {
      const record = await this.read();
      await this.#write({ ...record, limits: widened(record.limits, report, columns) });
    });
  }

  /** Do as `allow`, where nobody was asked yet. */
  begin(limits) {
    return alone(async () => {
      const record = await this.read();
      if (record.limits === null) await this.#write({ ...record, limits: checkLimits(limits) });
    });
  }

  /** Throw unless one more report may be sent. */
  async check(report, columns) {
    refuseBeyond(await this.read(), report, columns);
  }

  /** Count a report: afterwards it may be sent. */
  spend(report, columns) {
    return alone(async () => {
      const record = await this.read();
      refuseBeyond(record, report, columns);
      await this.#write({ ...record, reports: [...record.reports, report] });
    });
  }

  /** Reports, epsilon and delta in all, by basic composition. */
  async inAll() {
    const { reports } = await this.read();
    const sum = (name) => reports.reduce((total, one) => total + one[name], 0);
    return { reports: reports.length, epsilon: sum("epsilon"), delta: sum("delta") };
  }
}

/** The least limits above those given that a report is within; where none are given, few reports of those of the stream. */
function widened(limits, report, columns) {
  const { reports_per_window, reports_in_all } = report.limits;
  const kept = limits ?? checkLimits({ report_epsilon: report.epsilon, columns: [],
    reports_per_window: Math.min(reports_per_window, ASKED_PER_WINDOW), reports_in_all: Math.min(reports_in_all, ASKED_IN_ALL) });
  return { ...kept, report_epsilon: Math.max(kept.report_epsilon, report.epsilon),
    report_delta: Math.max(kept.report_delta, report.delta), columns: [...new Set([...kept.columns, ...columns])].sort() };
}

/** The rules of a device; docs/reference/devices.md gives the reason of each. */
function refuseBeyond({ limits, reports }, report, columns) {
  const told = report.limits, asked = widened(limits, report, columns);
  const reached = (message, forGood) => new DeviceError("limit-reached", message, { forGood });
  const notAllowed = (message) => new DeviceError("not-allowed", message, { asked });
  if (limits === null) throw notAllowed("nothing is allowed yet on this device");
  if (report.epsilon > limits.report_epsilon || report.delta > limits.report_delta) {
    throw notAllowed(`a report would lose epsilon ${report.epsilon} and delta ${report.delta}, more than is allowed`);
  }
  const more = columns.filter((name) => !limits.columns.includes(name));
  if (more.length) throw notAllowed(`the specification names columns that are not allowed: ${more.join(", ")}`);
  if (report.epsilon > told.report_epsilon) {
    throw untrusted("the specification loses more than the stream says that a report loses");
  }
  const own = reports.filter((one) => one.server === report.server && one.stream === report.stream);
  const same = (a, b) => ["report_epsilon", "reports_per_window", "reports_in_all"].every((name) => a[name] === b[name]);
  if (own.some((one) => !same(one.limits, told))) throw untrusted("the stream has told other limits before");
  const last = own.reduce((a, b) => (a === null || b.window > a.window ? b : a), null);
  if (last !== null) {
    if (report.window < last.window) throw untrusted("the windows of the stream went back");
    const ends = Date.parse(last.window_ends);
    if (report.window === last.window && Date.parse(report.window_ends) !== ends) {
      throw untrusted("a window of the stream has another end than before");
    }
    if (report.window > last.window && Date.parse(report.at) < ends) {
      throw reached("the window before has not ended by this device's clock", false);
    }
  }
  if (reports.length >= Math.min(limits.reports_in_all, REPORTS_MAX)) {
    throw reached("all reports that this device allows are used up", true);
  }
  if (own.length >= told.reports_in_all) {
    throw reached("all reports that the stream takes from a device are used up", true);
  }
  const inWindow = own.filter((one) => one.window === report.window).length;
  const since = Date.parse(report.at) - 1000 * limits.window_seconds;
  const lately = reports.filter((one) => Date.parse(one.at) > since).length; // also those that a clock ahead dated later
  if (inWindow >= Math.min(told.reports_per_window, limits.reports_per_window) || lately >= limits.reports_per_window) {
    throw reached("all reports of this window are used up", false);
  }
}

// ----------------------------------------------------------------------------------------------------- device

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isTold = (text) => typeof text === "string" && /^[A-Za-z0-9_.:/-]{1,200}$/.test(text);

/** A time in ISO 8601 with its offset, to whole seconds, in UTC. */
function moment(text) {
  const time = typeof text === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : NaN;
  if (Number.isNaN(time)) throw untrusted("a time must be written in ISO 8601 with its offset");
  return new Date(Math.floor(time / 1000) * 1000).toISOString();
}

/** How much longer than usual a report may take to compute: from public numbers alone, those of the most rows. */
export const paces = (s) => Math.max(1, Math.ceil(ROWS_MAX * s.sizes.length * s.n_scores / 2 ** 24));

/** One device of a person, which contributes to models of a server. */
export class Device {
  /**
   * @param {string} url https://host[:port][/path]; http is for loopback alone
   * @param {object} storage of the odometer
   * @param {object} [options] limits: what the person allows, used where the storage keeps none; tickets: a function
   *   that returns a ticket; ask: a function that is told of a specification that asks for more, and returns true to
   *   allow it; timeoutSeconds; paceSeconds: draw and put are sent so long after the answer before, or a multiple of
   *   it, which is fixed before the rows are read: nobody sees how long the device computed
   */
  constructor(url, storage, { limits = null, tickets, ask, timeoutSeconds = 30, paceSeconds = 1 } = {}) {
    const parsed = new URL(url), host = parsed.hostname;
    const loopback = host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
    if ((parsed.protocol !== "https:" && !(parsed.protocol === "http:" && loopback))
      || parsed.username || parsed.password || parsed.search || parsed.hash) {
      throw wrongUse("the URL of a server is https://host[:port][/path]; http is for loopback alone");
    }
    this.server = parsed.origin + parsed.pathname.replace(/\/+$/, "");
    this.odometer = new Odometer(storage);
    this.options = { limits: limits && checkLimits(limits), tickets, ask, timeoutSeconds, paceSeconds };
  }

  /** Keep what the person allows from now on. */
  allow(limits) {
    return this.odometer.allow(limits);
  }

  /** Send one report on rows, columns by name; return what the odometer keeps of it. */
  async contribute(rows, ticket) {
    const { limits, tickets, ask, paceSeconds } = this.options;
    ticket ??= await tickets?.();
    if (typeof ticket !== "string" || !/^[A-Za-z0-9_=-]{1,512}$/.test(ticket)) throw wrongUse("give a ticket");
    if (limits) await this.odometer.begin(limits);
    const offer = await this.#offer(ticket);
    let started = performance.now();
    const { parsed: s, ...planned } = offer;
    try {
      await this.odometer.check(planned, s.columns);
    } catch (error) {
      if (error.code !== "not-allowed" || !ask || await ask(error) !== true) throw error;
      await this.odometer.widen(planned, s.columns);
      await this.odometer.check(planned, s.columns);
    }
    const encoded = encodeRows(s, rows);
    await this.#untilNextTick(started, s);
    const drawn = await this.#request("POST", "/v1/device/draw", ticket, 4 * s.n_weights, new Uint8Array());
    started = performance.now();
    if (drawn.digest !== planned.specification) throw untrusted("the drawn instance belongs to another specification");
    if (drawn.body.length !== 4 * s.n_weights) throw untrusted("the drawn instance has another length");
    const read = new DataView(drawn.body.buffer, drawn.body.byteOffset);
    const instance = Int32Array.from({ length: s.n_weights }, (_, j) => read.getInt32(4 * j, true));
    const body = new Uint8Array(4 * s.n_weights), written = new DataView(body.buffer);
    makeReport(s, instance, encoded).forEach((weight, j) => written.setInt32(4 * j, weight, true));
    await this.#untilNextTick(started, s);
    await this.odometer.spend(planned, s.columns);
    for (let attempt = 1; ; attempt += 1) { // the same report, so that it loses nothing more
      try {
        await this.#request("POST", "/v1/device/put", ticket, 0, body);
        return planned;
      } catch (error) {
        if (attempt > 1 && error.problem === "ticket-used") return planned; // it had arrived before
        error.counted = true;
        if (error.code !== "no-answer" || attempt === PUTS) throw error;
      }
      await pause(1000 * paceSeconds);
    }
  }

  async #offer(ticket) {
    const answer = await this.#request("GET", "/v1/device/specification", ticket, 2 * TEXT_BYTES_MAX + 2 ** 14);
    let told = null;
    try {
      told = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(answer.body));
    } catch { /* refused below */ }
    if (told === null || typeof told !== "object" || typeof told.specification !== "string") {
      throw untrusted("the answer has no specification");
    }
    if (await digestOf(told.specification) !== told.digest) throw untrusted("the specification has another digest");
    const parsed = parseSpecification(told.specification), l = told.limits, w = told.window;
    const good = isTold(told.stream) && isTold(told.ptk) && isWhole(w?.number, 0, 2 ** 53)
      && hasFields(l, ["report_epsilon", "reports_per_window", "reports_in_all"]) && isFinite64(l.report_epsilon)
      && l.report_epsilon >= 0 && isWhole(l.reports_per_window, 0, 2 ** 31) && isWhole(l.reports_in_all, 0, 2 ** 31);
    if (!good) throw untrusted("names, window or limits of the answer cannot be used");
    const ends = moment(w.ends);
    if (Date.parse(ends) > Date.now() + AHEAD_MS) throw untrusted("the window ends more than ten years from now");
    return { ...parsed.loss, at: moment(new Date().toISOString()), server: this.server, stream: told.stream,
      ptk: told.ptk, window: w.number, window_ends: ends, limits: l, specification: told.digest, parsed };
  }

  async #request(method, path, ticket, most, body) {
    const headers = { Authorization: `Ticket ${ticket}` };
    if (body) headers["Content-Type"] = "application/octet-stream";
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), 1000 * this.options.timeoutSeconds);
    try {
      const response = await fetch(this.server + path, { method, headers, body, redirect: "error", credentials: "omit",
        cache: "no-store", referrerPolicy: "no-referrer", signal: stop.signal });
      const received = await bodyOf(response, response.ok ? most : 2 ** 16);
      if (response.ok) return { body: received, digest: response.headers.get("Ptk-Specification") };
      if (response.status < 400 || response.status >= 500 || [408, 429].includes(response.status)) {
        throw new DeviceError("no-answer", `the server does not answer now (status ${response.status})`);
      }
      let problem = "without-a-code";
      try {
        const { code } = JSON.parse(new TextDecoder().decode(received));
        if (typeof code === "string" && /^[a-z][a-z-]{0,39}$/.test(code)) problem = code;
      } catch { /* has no code */ }
      throw new DeviceError("server-refused", `the server refused: ${problem} (${response.status})`, { problem });
    } catch (error) {
      if (error instanceof DeviceError) throw error;
      throw new DeviceError("no-answer", "the server gave no answer that a device takes");
    } finally {
      clearTimeout(timer);
    }
  }

  #untilNextTick(started, s) {
    const pace = 1000 * this.options.paceSeconds * paces(s);
    return pace ? pause(pace - (performance.now() - started) % pace) : undefined;
  }
}

async function bodyOf(response, most) {
  const parts = [];
  let length = 0;
  for (const reader = response.body?.getReader(); reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      await reader.cancel();
      throw untrusted(`the server answered with more than ${most} bytes`);
    }
    parts.push(value);
  }
  const whole = new Uint8Array(length);
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
