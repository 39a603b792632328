// Calls of the last minute by method.

import { h, setText } from "../dom.js";
import { formatCount, formatMs, formatPercent, formatRate } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makeBar, setBar } from "../page/bar.js";
import { makePane } from "../page/pane.js";
import { onSample } from "../server/poll.js";

const MINUTE_S = 60;
const RECENT_S = 10;

function addMethod(all, method, isRecent) {
  const row = all.get(method.name) ?? {
    name: method.name, calls: 0, recent: 0, failures: 0, p50_ms: null, p99_ms: null,
    highest_p99_ms: null,
  };
  row.calls += method.calls;
  row.recent += isRecent ? method.calls : 0;
  row.failures += method.failures;
  row.p50_ms = method.p50_ms ?? row.p50_ms;
  row.p99_ms = method.p99_ms ?? row.p99_ms;
  if (method.p99_ms !== null) {
    row.highest_p99_ms = Math.max(row.highest_p99_ms ?? 0, method.p99_ms);
  }
  all.set(method.name, row);
}

// Returns the rows by method, from the samples of the last minute.
function rowsOf(history) {
  const all = new Map();
  const recent_s = history.last.time_s - RECENT_S;
  let seconds = 0;
  for (const sample of history.newest(MINUTE_S)) {
    const isRecent = sample.time_s > recent_s;
    seconds += isRecent ? sample.interval_s : 0;
    sample.methods.forEach((method) => addMethod(all, method, isRecent));
  }
  const rows = [...all.values()];
  const total = rows.reduce((sum, row) => sum + row.calls, 0);
  for (const row of rows) {
    row.rate = row.recent / seconds;
    row.share = total > 0 ? row.calls / total : 0;
  }
  return rows;
}

function fillShare(cell, row) {
  if (!cell.firstChild) {
    cell.append(makeBar("share of calls"), h("span", { class: "meter-text" }));
  }
  setBar(cell.firstChild, row.share, 1);
  cell.firstChild.dataset.grade = "good";
  setText(cell.lastChild, formatPercent(row.share));
}

const COLUMNS = [
  { id: "name", title: "Method", text: (row) => row.name, isSearched: true, isCode: true },
  { id: "rate", title: "Calls/s", hint: "mean of 10 s", text: (row) => formatRate(row.rate),
    value: (row) => row.rate, isNumber: true, width: "6.5rem" },
  { id: "share", title: "Share", hint: "of all calls of the last minute", fill: fillShare,
    text: (row) => formatPercent(row.share), value: (row) => row.share, width: "9rem", level: 2 },
  { id: "calls", title: "Calls", hint: "of the last minute", text: (row) => formatCount(row.calls),
    value: (row) => row.calls, isNumber: true, width: "6.5rem", level: 3 },
  { id: "failures", title: "Failures", hint: "of the last minute",
    text: (row) => formatCount(row.failures), value: (row) => row.failures, isNumber: true,
    width: "6rem", level: 2 },
  { id: "p50", title: "p50", hint: "of the newest second with calls",
    text: (row) => formatMs(row.p50_ms), value: (row) => row.p50_ms, isNumber: true,
    width: "6rem", level: 2 },
  { id: "p99", title: "p99", hint: "of the newest second with calls",
    text: (row) => formatMs(row.p99_ms), value: (row) => row.p99_ms, isNumber: true,
    width: "6rem" },
  { id: "highest", title: "Highest p99", hint: "of the seconds of the last minute",
    text: (row) => formatMs(row.highest_p99_ms), value: (row) => row.highest_p99_ms,
    isNumber: true, width: "7.5rem", level: 3 },
];

export function methodsView(context, scope) {
  const grid = makeGrid(scope, {
    label: "Methods", noun: "methods", columns: COLUMNS, key: (row) => row.name, sortBy: "-rate",
    empty: "No method was called in the last minute.",
  });
  const pane = makePane("Methods", {
    fills: true, note: "Last minute; of each second, the 64 busiest methods",
  }, grid.element);
  onSample(context, scope, (history) => {
    pane.tell(history.last, null);
    grid.update(rowsOf(history));
  });
  return pane.element;
}
