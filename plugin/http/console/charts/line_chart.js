// A chart of lines over time.

import { makeFigure } from "./figure.js";
import { drawCursor, drawGrid, drawMissing, drawTimes } from "./axes.js";
import { linearScale, logScale } from "./scale.js";

// `lines`: [{name, value (step), colour, dash, isFilled}]. A value may be null. `scale`: "linear",
// "count" or "bytes", all of which start at 0, or "log".
export function makeLineChart(scope, cursor, { title, note, lines, format, scale = "linear" }) {
  function scaleOf(steps) {
    const values = lines.flatMap(({ value }) => steps.map((step) => step && value(step)))
      .filter((value) => typeof value === "number" && (scale !== "log" || value > 0));
    if (scale !== "log") {
      return linearScale(Math.max(0, ...values), scale);
    }
    const [lowest, highest] = values.length > 0 ? [Math.min(...values), Math.max(...values)]
      : [0.1, 10];
    return logScale(lowest, highest);
  }

  function points(line, plot, steps, axis) {
    return steps.map((step, i) => {
      const value = step ? line.value(step) : null;
      return typeof value === "number" ? [plot.x(i), plot.y(axis.place(value))] : null;
    });
  }

  // Traces a line. A point between gaps becomes a short stroke.
  function trace(context, all) {
    let isOpen = false;
    all.forEach((point, i) => {
      if (point && !isOpen && !all[i + 1]) {
        context.moveTo(point[0] - 1.5, point[1]);
        context.lineTo(point[0] + 1.5, point[1]);
      } else if (point && !isOpen) {
        context.moveTo(...point);
      } else if (point) {
        context.lineTo(...point);
      }
      isOpen = point !== null;
    });
  }

  // Fills one area for each run of points without a gap.
  function fillBelow(context, all, plot) {
    context.globalAlpha = 0.12;
    context.beginPath();
    all.forEach((point, i) => {
      if (point && !all[i - 1]) {
        context.moveTo(point[0], plot.bottom);
      }
      if (point) {
        context.lineTo(...point);
      }
      if (point && !all[i + 1]) {
        context.lineTo(point[0], plot.bottom);
        context.closePath();
      }
    });
    context.fill();
    context.globalAlpha = 1;
  }

  function drawLine(context, line, plot, steps, axis, colour) {
    const all = points(line, plot, steps, axis);
    context.strokeStyle = colour(line.colour);
    context.fillStyle = colour(line.colour);
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.setLineDash(line.dash ?? []);
    if (line.isFilled) {
      fillBelow(context, all, plot);
    }
    context.beginPath();
    trace(context, all);
    context.stroke();
    context.setLineDash([]);
    return all;
  }

  function drawDot(context, point, colour, line) {
    if (point) {
      context.fillStyle = colour(line.colour);
      context.beginPath();
      context.arc(point[0], point[1], 3, 0, 2 * Math.PI);
      context.fill();
    }
  }

  return makeFigure(scope, cursor, {
    title,
    note,
    readings: lines.map(({ name, value, colour, dash }) => ({
      name, mark: `sign-${colour}${dash ? " sign-dash" : ""}`, text: (step) => format(value(step)),
    })),
    draw(context, plot, { steps, ...time }, colour, at) {
      const axis = scaleOf(steps);
      drawMissing(context, plot, steps, colour);
      drawGrid(context, plot, axis, format, colour);
      drawTimes(context, plot, { steps, ...time }, colour);
      drawCursor(context, plot, at, colour);
      for (const line of lines) {
        const all = drawLine(context, line, plot, steps, axis, colour);
        if (at !== null) {
          drawDot(context, all[at], colour, line);
        }
      }
    },
  });
}
