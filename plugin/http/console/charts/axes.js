// Common parts of all charts of figures over time: margins, grid, times, missing samples.

import { formatClock, formatMinutes, formatTick } from "../format.js";
import { timeTicks } from "./scale.js";

const LEFT = 64;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;

// Returns the area of the figures. `data` is the result of sumSteps().
export function layOut(width, height, data) {
  const { steps, step_s, begin_s } = data;
  const plot = {
    left: LEFT, top: TOP, width: Math.max(width - LEFT - RIGHT, 10),
    height: Math.max(height - TOP - BOTTOM, 10),
  };
  plot.right = plot.left + plot.width;
  plot.bottom = plot.top + plot.height;
  plot.step = plot.width / steps.length;
  plot.x = (at) => plot.left + (at + 0.5) * plot.step;
  plot.x_of_time = (time_s) => plot.left + ((time_s - begin_s) / step_s) * plot.step;
  plot.y = (place) => plot.bottom - place * plot.height;
  plot.step_at = (x) => Math.min(Math.max(Math.floor((x - plot.left) / plot.step), 0),
                                 steps.length - 1);
  return plot;
}

export function drawTimes(context, plot, data, colour) {
  const end_s = data.begin_s + data.steps.length * data.step_s;
  const { ticks, isShort } = timeTicks(data.begin_s, end_s, plot.width / (64 + 8));
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("line");
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const time of ticks) {
    const x = Math.round(plot.x_of_time(time)) + 0.5;
    const text = isShort ? formatClock(time) : formatMinutes(time);
    const half = context.measureText(text).width / 2;
    context.beginPath();
    context.moveTo(x, plot.bottom);
    context.lineTo(x, plot.bottom + 4);
    context.stroke();
    if (x - half >= 0 && x + half <= plot.right + RIGHT) {
      context.fillText(text, x, plot.bottom + 6);
    }
  }
}

export function drawGrid(context, plot, scale, format, colour) {
  context.strokeStyle = colour("line");
  context.fillStyle = colour("muted");
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of scale.ticks) {
    const y = Math.round(plot.y(scale.place(value))) + 0.5;
    context.beginPath();
    context.moveTo(plot.left, y);
    context.lineTo(plot.right, y);
    context.stroke();
    context.fillText(formatTick(format(value)), plot.left - 6, y);
  }
}

// Marks steps without samples after the first step with samples: the connection was lost, or the
// server paused.
export function drawMissing(context, plot, steps, colour) {
  const first = steps.findIndex((step) => step !== null);
  if (first < 0) {
    return;
  }
  context.fillStyle = colour("missing");
  for (let i = first; i < steps.length; i += 1) {
    if (steps[i] === null) {
      context.fillRect(plot.left + i * plot.step, plot.top, plot.step + 0.5, plot.height);
    }
  }
}

export function drawCursor(context, plot, at, colour) {
  if (at !== null) {
    const x = Math.round(plot.x(at)) + 0.5;
    context.strokeStyle = colour("line-strong");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, plot.top);
    context.lineTo(x, plot.bottom);
    context.stroke();
  }
}
