// Embedding tables: their specification, size and traffic.

import { formatBytes, formatCount, formatRate, formatText } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { Rates } from "../server/rates.js";
import { getPages } from "../server/request.js";

const COUNTS = ["lookups", "lookup_rows", "pushes", "push_rows"];

function shardText({ shard }) {
  switch (shard.kind) {
    case "whole": return "whole";
    case "range": return `rows from ${formatCount(shard.first_row)}`;
    default: return `${shard.kind}, ${shard.index + 1} of ${shard.count}`;
  }
}

function rate(id, title, hint, level) {
  return { id, title, hint, text: (row) => formatRate(row.rates[id]), value: (row) => row.rates[id],
           isNumber: true, width: "7.5rem", level };
}

function total(id, title) {
  return { id: `total-${id}`, title, text: (row) => formatCount(row[id]), level: 4 };
}

const COLUMNS = [
  { id: "name", title: "Table", text: (row) => row.name, isSearched: true, isCode: true },
  { id: "rows", title: "Rows here", hint: "of this server's shard",
    text: (row) => formatCount(row.local_rows), value: (row) => row.local_rows, isNumber: true,
    width: "7.5rem", level: 2 },
  { id: "all-rows", title: "Rows of all shards", text: (row) => formatCount(row.rows), level: 4 },
  { id: "dim", title: "Dim", hint: "floats of a row", text: (row) => formatCount(row.dim),
    value: (row) => row.dim, isNumber: true, width: "4rem", level: 3 },
  { id: "dtype", title: "Type", text: (row) => row.dtype, level: 4 },
  { id: "optimizer", title: "Optimizer", text: (row) => formatText(row.optimizer),
    isSearched: true, width: "8.5rem", level: 3 },
  { id: "shard", title: "Shard", text: shardText, level: 4 },
  { id: "place", title: "Place", text: (row) => row.place, isSearched: true, width: "5.5rem",
    level: 3 },
  { id: "durability", title: "Durability", text: (row) => formatText(row.durability), level: 4 },
  { id: "bytes", title: "Size", hint: "with optimizer state", text: (row) => formatBytes(row.bytes),
    value: (row) => row.bytes, isNumber: true, width: "6.25rem" },
  rate("lookups", "Lookups/s", "times that a lookup named the table", 1),
  rate("lookup_rows", "Rows read/s", "rows that lookups named", 2),
  rate("pushes", "Pushes/s", "times that a push named the table", 2),
  rate("push_rows", "Rows pushed/s", "rows that pushes named", 2),
  total("lookups", "Lookups since the start"),
  total("lookup_rows", "Rows read since the start"),
  total("pushes", "Pushes since the start"),
  total("push_rows", "Rows pushed since the start"),
];

export function tablesView(context, scope) {
  const rates = new Rates((row) => row.name, COUNTS);
  const grid = makeGrid(scope, {
    label: "Tables", noun: "tables", columns: COLUMNS, key: (row) => row.name, sortBy: "name",
    empty: "This server holds no tables.",
  });
  const pane = makePane("Tables", { fills: true, note: "Read every 5 s; rates are means of 5 s" },
    grid.element);
  poll(context, scope, 5, (signal) => getPages("/tables", "tables", signal), (answer, error) => {
    pane.tell(answer, error);
    if (error === null) {
      rates.update(answer.tables, answer.time_s);
      grid.update(answer.tables);
    }
  });
  return pane.element;
}
