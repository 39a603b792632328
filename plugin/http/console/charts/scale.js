// The conversion from figures to pixels, and the ticks of an axis.

// Returns a scale from 0 with steps of 1, 2 or 5 times a power of ten up to `highest`. The steps of
// "bytes" are powers of two. Steps of "bytes" and of "count" are at least 1.
export function linearScale(highest, kind) {
  const isBytes = kind === "bytes";
  const top = Math.max(highest, kind === "linear" ? 0 : 4) || 1;
  const base = isBytes ? 2 : 10;
  const power = base ** Math.floor(Math.log(top / 4) / Math.log(base));
  const step = (isBytes ? [1, 2, 4] : [1, 2, 5, 10]).map((each) => each * power)
    .find((each) => top / each <= 4.5) ?? power * base;
  const end = Math.ceil(top / step) * step;
  const ticks = [];
  for (let value = 0; value <= end * 1.0001; value += step) {
    ticks.push(value);
  }
  return { ticks, place: (value) => value / end };
}

// Returns a logarithmic scale from `lowest` to `highest`, both above 0. The ticks are powers of
// ten.
export function logScale(lowest, highest) {
  const low = Math.floor(Math.log10(lowest) * 2) / 2;
  const high = Math.max(Math.ceil(Math.log10(highest) * 2) / 2, low + 1);
  const ticks = [];
  for (let power = Math.ceil(low); power <= high; power += 1) {
    ticks.push(10 ** power);
  }
  return {
    ticks,
    place: (value) => Math.min(Math.max((Math.log10(value) - low) / (high - low), 0), 1),
  };
}

const TIME_STEPS_S = [10, 15, 30, 60, 120, 300, 600, 900];

// Returns at most `n_most` times between both, at multiples of a round step.
export function timeTicks(begin_s, end_s, n_most) {
  const step = TIME_STEPS_S.find((each) => (end_s - begin_s) / each <= n_most) ?? 1800;
  const ticks = [];
  for (let time = Math.ceil(begin_s / step) * step; time <= end_s; time += step) {
    ticks.push(time);
  }
  return { ticks, isShort: step < 60 };
}
