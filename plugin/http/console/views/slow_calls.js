// The slowest calls, and the time that each of their phases took.

import { h, setText } from "../dom.js";
import { formatClock, formatDay, formatMs, formatText } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { getJson } from "../server/request.js";

const PHASES = [
  { name: "decode", words: "arguments are read" },
  { name: "queue", words: "the call waits for a worker or its turn" },
  { name: "apply", words: "the work of the call" },
  { name: "wait", words: "the call waits for other trainers, or for the disk" },
  { name: "reply", words: "the reply is written and sent" },
];

function phasesText({ phases }) {
  return PHASES.map(({ name }) => `${name} ${formatMs(phases[`${name}_ms`])}`).join(", ");
}

// Draws consecutive bars, each as long as its phase, on a scale from 0 to `longest_ms`.
function fillWaterfall(element, call, longest_ms) {
  if (!element.firstChild) {
    element.append(h("span", { class: "waterfall", role: "img" }, ...PHASES.map(({ name }) =>
      h("span", { class: `phase phase-${name}` }))));
  }
  const waterfall = element.firstChild;
  let begin_ms = 0;
  PHASES.forEach(({ name }, i) => {
    const ms = call.phases[`${name}_ms`] ?? 0;
    waterfall.children[i].style.left = `${(begin_ms / longest_ms) * 100}%`;
    waterfall.children[i].style.width = `${(ms / longest_ms) * 100}%`;
    begin_ms += ms;
  });
  waterfall.setAttribute("aria-label", phasesText(call));
  waterfall.title = phasesText(call);
}

function makeLegend() {
  return h("p", { class: "legend" }, ...PHASES.map(({ name, words }) =>
    h("span", { class: "reading", title: words },
      h("span", { class: `swatch phase-${name}`, "aria-hidden": "true" }),
      h("span", { text: name }))));
}

// Makes a table of the phases of one call, one row each.
function makePhases(call) {
  const all_ms = Math.max(call.duration_ms, 0.001);
  let begin_ms = 0;
  const rows = PHASES.map(({ name, words }) => {
    const ms = call.phases[`${name}_ms`] ?? 0;
    const bar = h("span", { class: `phase phase-${name}` });
    bar.style.left = `${(begin_ms / all_ms) * 100}%`;
    bar.style.width = `${(ms / all_ms) * 100}%`;
    begin_ms += ms;
    return h("tr", {}, h("th", { scope: "row", text: name, title: words }),
      h("td", { class: "wide" }, h("span", { class: "waterfall", "aria-hidden": "true" }, bar)),
      h("td", { class: "number", text: formatMs(call.phases[`${name}_ms`]) }));
  });
  return h("table", { class: "plain phases" }, h("caption", { text: "Phases of the call" }),
    h("tbody", {}, ...rows));
}

function columnsOf(scale) {
  return [
    { id: "method", title: "Method", text: (row) => row.method, isSearched: true, isCode: true,
      width: "17rem" },
    { id: "duration", title: "Duration", text: (row) => formatMs(row.duration_ms),
      value: (row) => row.duration_ms, isNumber: true, width: "6rem" },
    { id: "phases", title: "Phases", text: phasesText, value: (row) => row.duration_ms,
      fill: (cell, row) => fillWaterfall(cell, row, scale.longest_ms), level: 2 },
    { id: "phase", title: "Longest", hint: "the longest phase", text: (row) => row.phase,
      isSearched: true, width: "6rem", level: 2 },
    { id: "principal", title: "Principal", text: (row) => formatText(row.principal),
      isSearched: true, isCode: true, width: "10rem", level: 3 },
    { id: "time", title: "Time", text: (row) => formatClock(row.time_s), value: (row) => row.time_s,
      isNumber: true, width: "6rem", level: 3 },
    { id: "code", title: "Error", text: (row) => formatText(row.code), isSearched: true,
      width: "10rem", level: 3 },
    { id: "peer", title: "Peer", text: (row) => formatText(row.peer), isSearched: true, level: 4 },
    { id: "day", title: "Began", text: (row) => formatDay(row.time_s), level: 4 },
    { id: "trace", title: "Trace", text: (row) => formatText(row.trace_id), isSearched: true,
      level: 4 },
  ];
}

export function slowCallsView(context, scope) {
  const scale = { longest_ms: 1 };
  const off = h("p", { class: "placeholder", hidden: true, text:
    "This server does not time its calls, so it cannot name the slow ones." });
  const grid = makeGrid(scope, {
    label: "Slow calls", noun: "calls", columns: columnsOf(scale), sortBy: "-duration",
    key: (row) => `${row.time_s} ${row.peer} ${row.method} ${row.duration_ms}`,
    empty: "No call has been slow.", details: (row) => [makePhases(row)], tools: [makeLegend()],
  });
  const pane = makePane("Slow calls", { fills: true, note: "Read every 3 s" }, off, grid.element);
  poll(context, scope, 3, (signal) => getJson("/slow", signal), (answer, error) => {
    pane.tell(answer, error);
    if (error === null) {
      off.hidden = answer.is_enabled;
      grid.element.hidden = !answer.is_enabled;
      scale.longest_ms = Math.max(0.001, ...answer.calls.map((call) => call.duration_ms));
      grid.update(answer.calls);
    }
  });
  return pane.element;
}
