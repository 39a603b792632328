// Samples of the last hour, and their sums over steps of time.

import { mergeCounts } from "./histogram.js";

const N_SAMPLES = 3600;
const N_WITH_LISTS = 61;  // newest samples, which keep their methods and tables

export class History {
  hello = null;
  samples = [];          // oldest first
  #listeners = new Set();

  setHello(hello) {
    this.hello = hello;
    this.#tell();
  }

  add(sample) {
    this.samples.push(sample);
    if (this.samples.length > N_SAMPLES) {
      this.samples.shift();
    }
    const aged = this.samples.at(-N_WITH_LISTS - 1);
    if (aged) {
      aged.methods = [];
      aged.tables = [];
    }
    this.#tell();
  }

  get last() {
    return this.samples.at(-1) ?? null;
  }

  get bounds_us() {
    return this.hello?.latency_bounds_us ?? [];
  }

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // Returns the newest samples, which lie within `seconds` of the last one.
  newest(seconds) {
    const from = (this.last?.time_s ?? 0) - seconds;
    let first = this.samples.length;
    while (first > 0 && this.samples[first - 1].time_s > from) {
      first -= 1;
    }
    return this.samples.slice(first);
  }

  #tell() {
    for (const listener of [...this.#listeners]) {
      listener(this);
    }
  }
}

// Returns the memory that clients make the server hold. The first budget is the parent of all
// others.
export function heldBytes(sample) {
  return Object.values(sample.budgets)[0] ?? null;
}

const SUMS = ["calls", "failures", "received_bytes", "sent_bytes"];

function emptyStep(begin_s) {
  return {
    begin_s, seconds: 0, calls: 0, failures: 0, received_bytes: 0, sent_bytes: 0, latency: null,
    connections: 0, in_flight: 0, held_bytes: null, durability: null,
  };
}

function addSample(step, sample) {
  step.seconds += sample.interval_s;
  for (const name of SUMS) {
    step[name] += sample[name];
  }
  step.latency = mergeCounts(step.latency, sample.latency);
  step.in_flight = Math.max(step.in_flight, sample.in_flight);
  step.connections = sample.connections;
  step.held_bytes = heldBytes(sample);
  step.durability = sample.durability;
}

// Returns sums over `n_steps` steps of `step_s` seconds, or null for a step without a sample. The
// last step contains the last sample. Steps begin at multiples of their length, so that a step does
// not change after its end.
export function sumSteps(history, n_steps, step_s) {
  const steps = new Array(n_steps).fill(null);
  const last = Math.floor((history.last?.time_s ?? 0) / step_s);
  for (const sample of history.newest(n_steps * step_s)) {
    const at = Math.floor(sample.time_s / step_s) - last + n_steps - 1;
    const begin_s = (last - n_steps + 1 + at) * step_s;
    if (at >= 0) {
      steps[at] ??= emptyStep(begin_s);
      addSample(steps[at], sample);
    }
    // Samples are not exactly a second apart, so this one may cover the end of an empty step.
    if (at > 0 && steps[at - 1] === null && sample.time_s - sample.interval_s < begin_s) {
      steps[at - 1] = emptyStep(begin_s - step_s);
      addSample(steps[at - 1], sample);
    }
  }
  return { steps, step_s, begin_s: (last - n_steps + 1) * step_s };
}
