// A chart as a figure: a title, the values at the cursor or the newest values, the drawing, and the
// same figures as a table. The drawing can have the focus. Then arrow keys move the cursor.

import { h, setText } from "../dom.js";
import { formatClock } from "../format.js";
import { layOut } from "./axes.js";
import { makeCanvas } from "./canvas.js";

const N_TABLE_ROWS = 30;

// Makes the values of one step, which appear beside the title.
function makeReadings(readings) {
  const time = h("span", { class: "reading-time" });
  const values = readings.map(() => h("span", { class: "reading-value", text: "–" }));
  return {
    element: h("span", { class: "readings" }, time, ...readings.map(({ name, mark }, i) =>
      h("span", { class: "reading" },
        h("span", { class: `sign ${mark}`, "aria-hidden": "true" }),
        h("span", { class: "reading-name", text: name }), values[i]))),
    say(step, time_text) {
      setText(time, time_text);
      readings.forEach(({ text }, i) => setText(values[i], step ? text(step) : "–"));
    },
  };
}

function makeTable(title, readings, { steps, step_s }) {
  const rows = steps.filter((step) => step !== null).slice(-N_TABLE_ROWS).reverse();
  return h("table", { class: "plain" },
    h("caption", { text: `${title}, steps of ${step_s} s, newest first` }),
    h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Time" }),
      ...readings.map(({ name }) => h("th", { scope: "col", class: "number", text: name })))),
    h("tbody", {}, ...rows.map((step) => h("tr", {},
      h("th", { scope: "row", text: formatClock(step.begin_s) }),
      ...readings.map(({ text }) => h("td", { class: "number", text: text(step) }))))));
}

// Returns the step to which a key moves the cursor from step `at`, or null if the key does not move
// it.
function stepOfKey(key, at, n_steps) {
  const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10,
                  Home: 0, End: n_steps - 1 };
  return key in steps ? Math.min(Math.max(steps[key], 0), n_steps - 1) : null;
}

// `readings`: [{name, mark, text (step)}]. `text` returns the text about a step, and `mark` is the
// class of its sign. `draw (context, plot, data, colour, at)` draws. `at` is the step of the
// cursor, or null. Returns {element, update (data)}. `data` is the result of sumSteps().
export function makeFigure(scope, cursor, { title, note, readings, draw, extra }) {
  let data = null;
  let plot = null;
  const values = makeReadings(readings);
  const table = h("div", { class: "figure-table" });
  const details = h("details", {
    class: "figure-data",
    on: { toggle: () => data && table.replaceChildren(makeTable(title, readings, data)) },
  }, h("summary", { text: "Figures as a table" }), table);
  const canvas = makeCanvas(scope, {
    role: "slider", tabindex: 0, "aria-label": `${title}: a moment in the chart`,
    "aria-orientation": "horizontal", "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0,
    on: {
      keydown: onKey,
      pointermove: (event) => plot && pointAt(plot.step_at(event.offsetX)),
      pointerleave: () => cursor.set(null),
      blur: () => cursor.set(null),
    },
  }, (context, width, height, colour) => {
    if (data) {
      plot = layOut(width, height, data);
      draw(context, plot, data, colour, cursor.stepOf(data));
    }
  });

  function pointAt(at) {
    cursor.set(data.begin_s + (at + 0.5) * data.step_s);
  }

  function stepToSay() {
    return cursor.stepOf(data) ?? Math.max(data.steps.findLastIndex((step) => step !== null), 0);
  }

  function say() {
    const at = stepToSay();
    const step = data.steps[at];
    const time = formatClock(data.begin_s + at * data.step_s);
    const words = readings.map(({ name, text }) => `${name} ${step ? text(step) : "no sample"}`);
    values.say(step, cursor.stepOf(data) === null ? "now" : time);
    canvas.element.setAttribute("aria-valuemax", data.steps.length - 1);
    canvas.element.setAttribute("aria-valuenow", at);
    canvas.element.setAttribute("aria-valuetext", `${time}: ${words.join(", ")}`);
  }

  function onKey(event) {
    const to = data ? stepOfKey(event.key, stepToSay(), data.steps.length) : null;
    if (to !== null) {
      event.preventDefault();
      pointAt(to);
    } else if (event.key === "Escape") {
      cursor.set(null);
    }
  }

  scope.add(cursor.subscribe(() => {
    if (data) {
      say();
      canvas.ask();
    }
  }));

  return {
    element: h("figure", { class: "figure" },
      h("figcaption", { class: "figure-caption" }, h("h2", { text: title }),
        note ? h("span", { class: "note", text: note }) : null, extra, values.element),
      canvas.element, details),
    update(newest) {
      data = newest;
      say();
      canvas.ask();
    },
  };
}
