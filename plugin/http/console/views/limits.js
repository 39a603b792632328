// Budgets of memory and quotas of tenants, and the used part of each.

import { h, setText } from "../dom.js";
import { formatBytes, formatCount, formatNumber, formatPercent } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makeBar, setBar } from "../page/bar.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { getJson } from "../server/request.js";

function depthOf(budget, budgets) {
  const parent = budgets.find(({ name }) => name === budget.parent);
  return parent ? depthOf(parent, budgets) + 1 : 0;
}

function makeBudgets() {
  const body = h("tbody");
  let names = "";

  function makeRow({ name }, depth) {
    const title = h("th", { scope: "row", text: name });
    title.style.paddingInlineStart = `${0.5 + depth}rem`;
    return h("tr", {}, title, h("td", { class: "wide" }, makeBar(`${name}: share of its limit`)),
      ...["number", "number", "number level-2", "number level-2"].map((each) =>
        h("td", { class: each })));
  }

  function fillRow(row, { held_bytes, peak_bytes, max_bytes }) {
    const [, bar, share, held, peak, limit] = row.cells;
    setBar(bar.firstChild, held_bytes, max_bytes, peak_bytes);
    setText(share, max_bytes > 0 ? formatPercent(held_bytes / max_bytes) : "–");
    setText(held, formatBytes(held_bytes));
    setText(peak, formatBytes(peak_bytes));
    setText(limit, max_bytes === null ? "none" : formatBytes(max_bytes));
  }

  return {
    element: h("section", { class: "block" }, h("h2", { text: "Memory" }),
      h("table", { class: "plain budgets" },
        h("caption", { text: "Memory that clients make the server hold. An indented budget is a "
          + "part of the budget above it. The mark on a bar is the highest level so far." }),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Budget" }),
          h("th", { scope: "col", text: "Level" }),
          h("th", { scope: "col", class: "number", text: "Used" }),
          h("th", { scope: "col", class: "number", text: "Held" }),
          h("th", { scope: "col", class: "number level-2", text: "Highest" }),
          h("th", { scope: "col", class: "number level-2", text: "Limit" }))), body)),
    update(budgets) {
      const newest = JSON.stringify(budgets.map(({ name, parent }) => [name, parent]));
      if (newest !== names) {
        names = newest;
        body.replaceChildren(...budgets.map((each) => makeRow(each, depthOf(each, budgets))));
      }
      budgets.forEach((budget, i) => fillRow(body.rows[i], budget));
    },
  };
}

function fillLevel(cell, row) {
  if (!cell.firstChild) {
    cell.append(makeBar("share of the quota"), h("span", { class: "meter-text" }));
  }
  setBar(cell.firstChild, row.used, row.max);
  setText(cell.lastChild, row.max > 0 ? formatPercent(row.used / row.max) : "–");
}

// The name of a kind that counts bytes contains "bytes".
function formatQuota(value, kind) {
  return value !== null && kind.includes("bytes") ? formatBytes(value) : formatNumber(value);
}

const COLUMNS = [
  { id: "tenant", title: "Tenant", text: (row) => row.tenant, isSearched: true, isCode: true },
  { id: "kind", title: "Quota", text: (row) => row.kind, isSearched: true, width: "7rem" },
  { id: "level", title: "Level", text: (row) => (row.max > 0 ? formatPercent(row.used / row.max)
    : "–"), value: (row) => (row.max > 0 ? row.used / row.max : null), fill: fillLevel,
    width: "8rem" },
  { id: "used", title: "Used", text: (row) => formatQuota(row.used, row.kind),
    value: (row) => row.used, isNumber: true, width: "6.5rem", level: 2 },
  { id: "max", title: "Limit", text: (row) => (row.max === null ? "none"
    : formatQuota(row.max, row.kind)), value: (row) => row.max, isNumber: true, width: "6.5rem",
    level: 2 },
  { id: "in_flight", title: "In flight", hint: "calls of the tenant",
    text: (row) => formatCount(row.in_flight), value: (row) => row.in_flight, isNumber: true,
    width: "6rem", level: 3 },
  { id: "refused", title: "Refused", hint: "calls of the tenant since the start",
    text: (row) => formatCount(row.refused), value: (row) => row.refused, isNumber: true,
    width: "6rem", level: 3 },
];

export function limitsView(context, scope) {
  const budgets = makeBudgets();
  const grid = makeGrid(scope, {
    label: "Quotas", noun: "quotas", columns: COLUMNS, sortBy: "-level",
    key: (row) => `${row.kind} ${row.tenant}`, empty: "This server has no quotas.",
  });
  const pane = makePane("Budgets and quotas", { note: "Read every 2 s" },
    h("div", { class: "blocks" }, budgets.element,
      h("section", { class: "block" }, h("h2", { text: "Quotas of tenants" }), grid.element)));
  poll(context, scope, 2, (signal) => getJson("/status", signal), (status, error) => {
    pane.tell(status, error);
    if (error === null) {
      budgets.update(status.budgets);
      grid.update(status.quotas.flatMap(({ limits, ...tenant }) =>
        limits.map((limit) => ({ ...tenant, ...limit }))));
    }
  });
  return pane.element;
}
