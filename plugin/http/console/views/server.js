// The running program: version, devices, threads, and the value of every flag.

import { h } from "../dom.js";
import { formatCount, formatDay, formatPlural, formatSeconds } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makeFacts } from "../page/facts.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { getJson } from "../server/request.js";

function valueText({ value, default: usual }) {
  const shown = value === null ? usual : value;
  return Array.isArray(shown) ? shown.join(", ") : String(shown ?? "");
}

const COLUMNS = [
  { id: "name", title: "Flag", text: (row) => `--${row.name}`, isSearched: true, isCode: true,
    width: "13rem" },
  { id: "value", title: "Value", text: valueText, isSearched: true, isCode: true },
  { id: "origin", title: "Origin", text: (row) => row.origin, isSearched: true, width: "8rem",
    level: 2 },
  { id: "help", title: "Meaning", text: (row) => row.help, isSearched: true, width: "45%",
    level: 3 },
  { id: "default", title: "Default", text: (row) => String(row.default ?? ""), level: 4 },
];

function factsOf(version, { workers, io_threads, http, totals }) {
  return [
    ["Name", version.name],
    ["Version", version.version],
    ["Started", formatDay(version.start_time_s)],
    ["Up for", formatSeconds(Math.floor(version.time_s - version.start_time_s))],
    ["Process", String(version.pid)],
    ["Devices", version.devices.join(", ")],
    ["Services", version.services.join(", ")],
    ["Threads for network I/O", formatCount(io_threads)],
    ["Workers", `${formatCount(workers.running)} of ${formatCount(workers.threads)} run`],
    ["Jobs in their queues", `${formatCount(workers.queued)} short, `
      + `${formatCount(workers.queued_long)} long`],
    ["Requests since the start", formatCount(totals.requests)],
    ["Connections since the start", `${formatCount(totals.accepted)} accepted, `
      + `${formatCount(totals.refused)} refused`],
    ["HTTP", `${formatPlural(http.connections, "connection")}, `
      + formatPlural(http.streams, "stream")],
  ];
}

async function load(signal) {
  const [version, flags, status] = await Promise.all(
    ["/version", "/flags", "/status"].map((path) => getJson(path, signal)));
  return { time_s: version.time_s, version, flags: flags.flags, status };
}

export function serverView(context, scope) {
  const facts = makeFacts();
  const grid = makeGrid(scope, {
    label: "Flags", noun: "flags", columns: COLUMNS, sortBy: "name", key: (row) => row.name,
    empty: "There are no flags.",
  });
  const pane = makePane("Server", { note: "Read every 5 s" },
    h("div", { class: "blocks" }, facts.element,
      h("section", { class: "block" }, h("h2", { text: "Flags" }), grid.element)));
  poll(context, scope, 5, load, (answer, error) => {
    pane.tell(answer, error);
    if (error === null) {
      facts.update(factsOf(answer.version, answer.status));
      grid.update(answer.flags);
    }
  });
  return pane.element;
}
