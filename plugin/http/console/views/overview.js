// The state of the server: figures of the last seconds, conditions that need attention, and the
// last hour.

import { makeHeatMap } from "../charts/heat_map.js";
import { makeLineChart } from "../charts/line_chart.js";
import { h, setText } from "../dom.js";
import { formatByteRate, formatBytes, formatCount, formatMs, formatNumber, formatRate, splitUnit }
  from "../format.js";
import { quantileMs, mergeCounts } from "../server/histogram.js";
import { heldBytes, sumSteps } from "../server/history.js";
import { onSample, poll } from "../server/poll.js";
import { getJson } from "../server/request.js";
import { makeAttention } from "./attention.js";

const N_STEPS = 120;
const SPANS = [
  { name: "2 min", step_s: 1 }, { name: "10 min", step_s: 5 }, { name: "1 h", step_s: 30 },
];
const RECENT_S = 10;

let span = SPANS[0];  // stays when the user leaves the view

function makeTile(name, hint) {
  const value = h("span", { text: "–" });
  const unit = h("span", { class: "unit" });
  return {
    element: h("div", { class: "tile" }, h("dt", { text: name, title: hint }),
      h("dd", {}, value, unit)),
    set(text) {
      const [number, unit_text] = splitUnit(text);
      setText(value, number);
      setText(unit, unit_text === "" ? "" : ` ${unit_text}`);
    },
  };
}

function makeSpanSwitch(onChange) {
  return h("fieldset", { class: "switch" }, h("legend", { class: "hidden", text: "Time shown" }),
    ...SPANS.map((each) => {
      const input = h("input", { type: "radio", name: "span", on: {
        change() {
          span = each;
          onChange();
        },
      } });
      input.checked = each === span;
      return h("label", {}, input, h("span", { text: each.name }));
    }));
}

function recentFigures(history) {
  const samples = history.newest(RECENT_S);
  const sum = (field) => samples.reduce((total, sample) => total + sample[field], 0);
  const seconds = sum("interval_s");
  const latency = samples.reduce((counts, sample) => mergeCounts(counts, sample.latency), null);
  const quantile = (share) => formatMs(quantileMs(latency, history.bounds_us, share));
  return {
    calls: formatRate(sum("calls") / seconds),
    failures: formatRate(sum("failures") / seconds),
    p50: quantile(0.5),
    p95: quantile(0.95),
    p99: quantile(0.99),
    received: formatByteRate(sum("received_bytes") / seconds),
    sent: formatByteRate(sum("sent_bytes") / seconds),
    in_flight: formatCount(history.last.in_flight),
    connections: formatCount(history.last.connections),
    memory: formatBytes(heldBytes(history.last)),
  };
}

function makeTiles() {
  const tiles = {
    calls: makeTile("Calls", "requests that were answered, mean of 10 s"),
    failures: makeTile("Failures", "requests that failed or were refused, mean of 10 s"),
    p50: makeTile("p50", "half of the calls of 10 s took less; from buckets"),
    p95: makeTile("p95", "95 of 100 calls of 10 s took less; from buckets"),
    p99: makeTile("p99", "99 of 100 calls of 10 s took less; from buckets"),
    received: makeTile("Received", "bytes of requests, mean of 10 s"),
    sent: makeTile("Sent", "bytes of replies, mean of 10 s"),
    in_flight: makeTile("In flight", "calls that are not answered yet"),
    connections: makeTile("Connections", "open connections"),
    memory: makeTile("Memory", "what clients make the server hold"),
  };
  return {
    element: h("dl", { class: "tiles", "aria-label": "Figures of the last 10 seconds" },
      ...Object.values(tiles).map(({ element }) => element)),
    update(history) {
      for (const [name, text] of Object.entries(recentFigures(history))) {
        tiles[name].set(text);
      }
    },
  };
}

function makeCharts({ history, cursor }, scope) {
  const bounds = () => history.bounds_us;
  const quantile = (share) => (step) => quantileMs(step.latency, bounds(), share);
  const rate = (field) => (step) => step[field] / step.seconds;
  return [
    makeLineChart(scope, cursor, {
      title: "Calls", format: formatRate, lines: [
        { name: "answered", colour: "first", isFilled: true, value: rate("calls") },
        { name: "failed", colour: "bad", dash: [4, 3], value: rate("failures") },
      ],
    }),
    makeLineChart(scope, cursor, {
      title: "Latency", format: formatMs, scale: "log", lines: [
        { name: "p50", colour: "low", value: quantile(0.5) },
        { name: "p95", colour: "middle", dash: [6, 3], value: quantile(0.95) },
        { name: "p99", colour: "high", value: quantile(0.99) },
      ],
    }),
    makeHeatMap(scope, cursor, { title: "Calls by latency", bounds }),
    makeLineChart(scope, cursor, {
      title: "Bytes", format: formatByteRate, scale: "bytes", lines: [
        { name: "received", colour: "first", value: rate("received_bytes") },
        { name: "sent", colour: "second", dash: [6, 3], value: rate("sent_bytes") },
      ],
    }),
    makeLineChart(scope, cursor, {
      title: "In flight", note: "highest of each step", format: formatNumber, scale: "count",
      lines: [
        { name: "calls", colour: "first", isFilled: true, value: (step) => step.in_flight },
      ],
    }),
    makeLineChart(scope, cursor, {
      title: "Memory", format: formatBytes, scale: "bytes", lines: [
        { name: "held", colour: "third", isFilled: true, value: (step) => step.held_bytes },
      ],
    }),
  ];
}

export function overviewView(context, scope) {
  const tiles = makeTiles();
  const charts = makeCharts(context, scope);
  const attention = makeAttention();
  const placeholder = h("p", { class: "placeholder", text: "Waiting for the first sample" });
  const body = h("div", { class: "overview", hidden: true },
    attention.element, tiles.element,
    h("div", { class: "charts" }, ...charts.map(({ element }) => element)));

  function show(history) {
    const data = sumSteps(history, N_STEPS, span.step_s);
    placeholder.hidden = true;
    body.hidden = false;
    tiles.update(history);
    attention.takeSample(history);
    charts.forEach((chart) => chart.update(data));
  }

  onSample(context, scope, show);
  poll(context, scope, 5, (signal) => getJson("/status", signal),
    (status) => status && attention.takeStatus(status));
  return h("section", { class: "pane", "aria-label": "Overview" },
    h("div", { class: "pane-head" }, h("h1", { text: "Overview" }),
      makeSpanSwitch(() => context.history.last && show(context.history))),
    placeholder, body);
}
