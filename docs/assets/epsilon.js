// Expected errors of counts, means and medians for rows, keys and epsilon; draws them on the page "What does epsilon buy".
// The formulas are those of docs/epsilon.py, which takes them from ptklib. Nothing is fetched, stored or sent.
(function () {
  "use strict";

  const NORMAL = Math.sqrt(2 / Math.PI); // mean distance from 0, in standard deviations of a normal
  const UNITS = 2 ** 21; // units of the grid in half the width of the bounds
  const BINS = 32;

  // Variance of discrete Laplace noise: a unit moves a number by `sensitivity`, at a cost of `epsilon`.
  function laplaceVariance(sensitivity, epsilon) {
    return 1 / (2 * Math.sinh(epsilon / (2 * sensitivity)) ** 2);
  }

  // What a release of `epsilon` is divided into, by the cube roots of the weights.
  function shares(weights, epsilon) {
    const parts = weights.map(Math.cbrt), total = parts.reduce((a, b) => a + b);
    return parts.map((part) => (epsilon * part) / total);
  }

  // Mean distance from 0 of two independent errors with these variances, of one row and of the noise.
  const miss = (sampling, noise, rows) => NORMAL * Math.sqrt(sampling / rows + noise / (rows * rows));

  // Root mean square of the noise in the count of one key, over the rows of a key.
  function count(rows, keys, epsilon, perUnit) {
    return Math.sqrt(laplaceVariance(perUnit, epsilon)) / (rows / keys);
  }

  // Expected error of the mean of one key, in widths of the bounds, where values are at either bound (the worst).
  function mean(rows, keys, epsilon, perUnit) {
    const [ofCount, ofSum] = shares([1 / 3, 1], epsilon);
    const noise = laplaceVariance(UNITS * perUnit, ofSum) / UNITS ** 2 + laplaceVariance(perUnit, ofCount);
    return Math.min(miss(1, noise, rows / keys) / 2, 1);
  }

  // Expected error of the share of a key's rows below the edge of a bin that the median is read from.
  function median(rows, keys, epsilon, perUnit) {
    const crossed = (BINS ** 2 - 1) / (6 * BINS);
    const [, ofBins] = shares([4 / 3, 4 * crossed], epsilon);
    return Math.min(miss(1 / 4, (BINS / 4) * laplaceVariance(perUnit, ofBins), rows / keys), 1);
  }

  const formulas = { count, mean, median };
  globalThis.epsilonFormulas = formulas;
  if (typeof document === "undefined") return;

  const NAMES = { count: "count", mean: "mean", median: "median" };
  const SIDES = { left: 56, right: 12, top: 12, bottom: 40, width: 640, height: 340 };
  const LEAST = { epsilon: 0.01, error: 0.00001 }, MOST = { epsilon: 10, error: 1 };

  function place(epsilon, error) {
    const across = Math.log(epsilon / LEAST.epsilon) / Math.log(MOST.epsilon / LEAST.epsilon);
    const seen = Math.min(Math.max(error, LEAST.error), MOST.error);
    const up = Math.log(seen / LEAST.error) / Math.log(MOST.error / LEAST.error);
    const { left, right, top, bottom, width, height } = SIDES;
    return [left + across * (width - left - right), height - bottom - up * (height - top - bottom)];
  }

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function axes(drawn) {
    for (const epsilon of [0.01, 0.1, 1, 10]) {
      const [x, y] = place(epsilon, LEAST.error), [, high] = place(epsilon, MOST.error);
      drawn.append(element("line", { x1: x, x2: x, y1: y, y2: high, class: "grid" }));
      drawn.append(element("text", { x, y: y + 16, "text-anchor": "middle" }, String(epsilon)));
    }
    for (const [error, text] of [[0.00001, "0.001 %"], [0.0001, "0.01 %"], [0.001, "0.1 %"], [0.01, "1 %"], [0.1, "10 %"], [1, "100 %"]]) {
      const [x, y] = place(LEAST.epsilon, error), [far] = place(MOST.epsilon, error);
      drawn.append(element("line", { x1: x, x2: far, y1: y, y2: y, class: "grid" }));
      drawn.append(element("text", { x: x - 6, y: y + 4, "text-anchor": "end" }, text));
    }
    const [middle] = place(Math.sqrt(LEAST.epsilon * MOST.epsilon), LEAST.error);
    drawn.append(element("text", { x: middle, y: SIDES.height - 4, "text-anchor": "middle" }, "epsilon"));
  }

  function percent(error) {
    if (error >= 1) return "100 % or more";
    return `${(100 * error).toLocaleString("en", { maximumSignificantDigits: 2 })} %`;
  }

  function draw(page) {
    const asked = {};
    for (const slider of page.querySelectorAll("input[type=range]")) {
      const value = 10 ** Number(slider.value);
      asked[slider.name] = slider.name === "epsilon" ? Number(value.toPrecision(2)) : Math.round(Number(value.toPrecision(2)));
      const shown = asked[slider.name].toLocaleString("en");
      slider.setAttribute("aria-valuetext", shown);
      page.querySelector(`output[data-of=${slider.name}]`).textContent = shown;
    }
    const svg = page.querySelector("#epsilon-plot"), said = [];
    svg.replaceChildren(element("title", {}, "Expected error over epsilon"));
    axes(svg);
    for (const [name, formula] of Object.entries(formulas)) {
      const points = [];
      for (let step = 0; step <= 90; step += 1) {
        const epsilon = LEAST.epsilon * 10 ** (step / 30);
        points.push(place(epsilon, formula(asked.rows, asked.keys, epsilon, asked.unit)).map((at) => at.toFixed(1)).join(","));
      }
      svg.append(element("polyline", { points: points.join(" "), class: name }));
      const error = formula(asked.rows, asked.keys, asked.epsilon, asked.unit), [x, y] = place(asked.epsilon, error);
      svg.append(element("circle", { cx: x, cy: y, r: 5, class: name }));
      page.querySelector(`[data-error=${name}]`).textContent = percent(error);
      said.push(`${NAMES[name]} ${percent(error)}`);
    }
    svg.setAttribute("aria-label", `Expected error at epsilon ${asked.epsilon}: ${said.join(", ")}.`);
  }

  function begin() {
    const page = document.getElementById("epsilon-sliders");
    if (page === null || !page.hidden) return;
    page.hidden = false;
    page.addEventListener("input", () => draw(page));
    draw(page);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
  // The theme may exchange pages without loading this file again.
  if (typeof globalThis.document$?.subscribe === "function") globalThis.document$.subscribe(begin);
})();
