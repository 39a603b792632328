// The distribution of latencies over time: one column per step, one row per bucket.

import { h } from "../dom.js";
import { formatMs } from "../format.js";
import { makeFigure } from "./figure.js";
import { drawCursor, drawGrid, drawMissing, drawTimes } from "./axes.js";
import { quantileMs } from "../server/histogram.js";

const N_SHADES = 6;

// Returns the buckets from the first to the last with calls, and one more on each side.
function rangeOf(steps, n_buckets) {
  let [first, last] = [n_buckets, -1];
  for (const step of steps) {
    (step?.latency ?? []).forEach((count, i) => {
      if (count > 0) {
        first = Math.min(first, i);
        last = Math.max(last, i);
      }
    });
  }
  return last < 0 ? null
    : { first: Math.max(first - 1, 0), last: Math.min(last + 1, n_buckets - 1) };
}

function highestRate(steps) {
  return Math.max(0, ...steps.map((step) =>
    step?.latency ? Math.max(...step.latency) / step.seconds : 0));
}

// Returns a scale of latencies from the lower edge of the first bucket to the upper edge of the
// last.
function bucketScale(bounds_us, { first, last }) {
  const bound = (i) => bounds_us[Math.min(i, bounds_us.length - 1)] / 1000;
  const low = Math.log(first > 0 ? bound(first - 1) : bound(0) / 2);
  const high = Math.log(last < bounds_us.length ? bound(last) : bound(last) * 2);
  const ticks = [];
  for (let power = -3; power <= 6; power += 1) {
    if (Math.log(10 ** power) >= low && Math.log(10 ** power) <= high) {
      ticks.push(10 ** power);
    }
  }
  return { ticks, place: (value) => (Math.log(value) - low) / (high - low) };
}

function makeLegend() {
  return h("span", { class: "shades" },
    h("span", { class: "note", text: "few" }),
    ...Array.from({ length: N_SHADES }, (_, i) =>
      h("span", { class: `shade shade-${i}`, "aria-hidden": "true" })),
    h("span", { class: "note", text: "many" }));
}

// `bounds ()` returns the bounds of the buckets in µs.
export function makeHeatMap(scope, cursor, { title, bounds }) {
  const text = (share) => (step) => formatMs(quantileMs(step.latency, bounds(), share));

  function drawCells(context, plot, steps, range, colour) {
    const shades = Array.from({ length: N_SHADES }, (_, i) => colour(`heat-${i}`));
    const most = Math.log1p(highestRate(steps) * 10);
    const height = plot.height / (range.last - range.first + 1);
    steps.forEach((step, x) => {
      for (let i = range.first; step?.latency && i <= range.last; i += 1) {
        if (step.latency[i] > 0) {
          const share = Math.log1p((step.latency[i] / step.seconds) * 10) / most;
          context.fillStyle = shades[Math.min(Math.floor(share * N_SHADES), N_SHADES - 1)];
          context.fillRect(plot.left + x * plot.step, plot.bottom - (i - range.first + 1) * height,
                           Math.max(plot.step - 0.5, 1), Math.max(height - 0.5, 1));
        }
      }
    });
  }

  return makeFigure(scope, cursor, {
    title,
    extra: makeLegend(),
    readings: [
      { name: "p10", mark: "sign-none", text: text(0.1) },
      { name: "p90", mark: "sign-none", text: text(0.9) },
    ],
    draw(context, plot, data, colour, at) {
      const range = rangeOf(data.steps, bounds().length + 1);
      drawMissing(context, plot, data.steps, colour);
      if (range) {
        drawGrid(context, plot, bucketScale(bounds(), range), formatMs, colour);
        drawCells(context, plot, data.steps, range, colour);
      }
      drawTimes(context, plot, data, colour);
      drawCursor(context, plot, at, colour);
    },
  });
}
