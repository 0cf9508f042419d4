// Does what a test asks of the JavaScript client: one JSON document in, one out.
import { readFileSync } from "node:fs";

import * as client from "../../examples/devices/ptk-device.mjs";

const told = (error) => ({
  code: error.code ?? "crashed", message: error.message, counted: error.counted, asked: error.asked,
  problem: error.problem, forGood: error.forGood,
});

const calls = {
  async parse(texts) {
    return Promise.all(texts.map(async (text) => {
      try {
        const s = client.parseSpecification(text);
        return { digest: await client.digestOf(text), n_weights: s.n_weights, limit: s.limit, reach: s.reach,
          distance: s.distance, noise_scale: s.noise_scale, loss: s.loss };
      } catch (error) {
        return told(error);
      }
    }));
  },

  compute(cases) {
    return cases.map(({ specification, rows, integers, instance, noise }) => {
      for (const [name, places] of Object.entries(integers ?? {})) {
        for (const [place, digits] of Object.entries(places)) rows[name][place] = BigInt(digits);
      }
      const s = client.parseSpecification(specification), encoded = client.encodeRows(s, rows);
      const inputs = encoded.places.map((places, row) => {
        const dense = new Array(s.n_inputs).fill(0);
        places.forEach((place, i) => { dense[place] += encoded.values[row][i]; });
        return dense;
      });
      const gradient = client.meanGradient(s, Int32Array.from(instance), encoded);
      const step = client.clippedStep(s, gradient), found = { inputs, labels: encoded.labels, gradient, step };
      if (noise) found.report = [...client.reportOf(Int32Array.from(instance), step, noise.map(BigInt))];
      return found;
    });
  },

  paces(texts) {
    return texts.map((text) => client.paces(client.parseSpecification(text)));
  },

  noise({ noise, scale, n }) {
    return client.exactNoise(noise, scale, n).map(Number);
  },

  report({ specification, rows, instance }) {
    const s = client.parseSpecification(specification);
    return [...client.makeReport(s, Int32Array.from(instance), client.encodeRows(s, rows))];
  },

  // Contribute once for each entry of `times`, with the storage that is left by the one before.
  async contribute({ url, stored, rows, tickets, limits, options, allow, agree }) {
    const storage = {
      getItem: (key) => stored[key] ?? null,
      setItem: (key, text) => { stored[key] = text; },
    };
    const ask = agree === undefined ? undefined : () => agree;
    const device = new client.Device(url, storage, { limits, paceSeconds: 0, timeoutSeconds: 5, ask, ...options });
    const results = [];
    if (allow) await device.allow(allow);
    for (const ticket of tickets) {
      try {
        results.push({ kept: await device.contribute(rows, ticket) });
      } catch (error) {
        results.push(told(error));
      }
    }
    let inAll = null;
    try {
      inAll = await device.odometer.inAll();
    } catch (error) {
      inAll = told(error);
    }
    return { results, stored, inAll };
  },
};

const { call, given } = JSON.parse(readFileSync(0, "utf8"));
let answer;
try {
  answer = { result: await calls[call](given) };
} catch (error) {
  answer = { error: told(error) };
}
process.stdout.write(JSON.stringify(answer));
