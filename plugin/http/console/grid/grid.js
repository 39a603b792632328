// A table of many rows, which the user can sort and filter. Only visible rows are drawn. Arrow keys
// move from row to row, and Enter shows everything about a row.

import { h, setText } from "../dom.js";
import { formatCount, formatPlural } from "../format.js";
import { showDetails } from "../page/details.js";
import { RowWindow } from "./row_window.js";
import { filterRows, sortRows } from "./rows.js";

function withDefaults(column) {
  const styles = [`level-${column.level ?? 1}`, column.isNumber && "number",
                  column.isCode && "code"];
  return { ...column, value: column.value ?? column.text,
           style: styles.filter(Boolean).join(" ") };
}

function makeTable(label, columns, headers) {
  return h("table", { class: "grid", "aria-label": label },
    h("colgroup", {}, ...columns.map(({ style, width }) => {
      const column = h("col", { class: style });
      column.style.width = width ?? "";
      return column;
    })),
    h("thead", {}, h("tr", { "aria-rowindex": 1 }, ...headers)), h("tbody"));
}

// A column: {
//   id, title, hint      hint: the meaning of the figures, shown over the header
//   text (row)           the text of the cell
//   value (row)          the key of the order; text (row) if left out
//   fill (cell, row)     optional: draws the cell; text (row) is then for filter and details
//   width                of CSS; one column has none and takes the rest
//   level                1: on every screen, 2: not on a phone, 3: on wide screens, 4: in details
//   isNumber, isSearched, isCode
// }
// `sortBy`: id of a column, with a minus for descending. `key (row)`: identifies a row.
// `noun`: the name of rows, in the plural. `details (row)`: optional, more elements for its details.
// Returns {element, update (rows)}.
export function makeGrid(scope, { label, columns, key, sortBy, noun, empty, details, tools = [] }) {
  const all_columns = columns.map(withDefaults);
  const shown_columns = all_columns.filter(({ level }) => level !== 4);
  let rows = [];
  let shown = [];
  let isLoaded = false;
  let isDescending = sortBy.startsWith("-");
  let sorted = shown_columns.find(({ id }) => id === sortBy.replace(/^-/, ""));

  const filter = h("input", {
    type: "search", class: "filter", placeholder: `Filter ${noun}`, autocomplete: "off",
    spellcheck: "false", "aria-label": `Filter ${noun}`, on: { input: change },
  });
  const count = h("span", { class: "note", role: "status" });
  const headers = shown_columns.map((column) => h("th", { scope: "col", class: column.style },
    h("button", { type: "button", class: "sort", title: column.hint, text: column.title,
                  on: { click: () => sortColumn(column) } })));
  const table = makeTable(label, shown_columns, headers);
  const message = h("p", { class: "placeholder", text: "Loading" });
  const scroller = h("div", { class: "grid-scroller" }, table, message);
  const window_of_rows = new RowWindow(scope, { columns: shown_columns, key, scroller, table });
  table.tBodies[0].addEventListener("keydown", onKey);
  table.tBodies[0].addEventListener("click", onClick);

  function sortColumn(column) {
    isDescending = column === sorted ? !isDescending : Boolean(column.isNumber);
    sorted = column;
    change();
  }

  // Applies new rows, another order or another filter.
  function change() {
    shown = sortRows(filterRows(rows, all_columns, filter.value), sorted, isDescending, key);
    headers.forEach((header, i) => {
      if (shown_columns[i] === sorted) {
        header.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      } else {
        header.removeAttribute("aria-sort");
      }
    });
    table.setAttribute("aria-rowcount", shown.length + 1);
    sayCount();
    window_of_rows.show(shown);
  }

  function sayCount() {
    const all = formatPlural(rows.length, noun.slice(0, -1));
    setText(count, shown.length === rows.length ? all : `${formatCount(shown.length)} of ${all}`);
    message.hidden = shown.length > 0;
    if (isLoaded) {
      setText(message, rows.length > 0 ? `No ${noun} match “${filter.value}”.` : empty);
    }
  }

  function open(row) {
    showDetails(`${all_columns[0].title} ${all_columns[0].text(row)}`,
      all_columns.map(({ title, hint, text }) => ({ title, hint, text: text(row) })),
      details?.(row) ?? []);
  }

  function onKey(event) {
    const at = window_of_rows.rowAt(event.target);
    const { n_page } = window_of_rows;
    const moves = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - n_page,
                    PageDown: at + n_page, Home: 0, End: shown.length - 1 };
    if (event.key in moves) {
      event.preventDefault();
      window_of_rows.goTo(moves[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(shown[at]);
    }
  }

  function onClick(event) {
    const at = window_of_rows.rowAt(event.target);
    if (at !== undefined && String(getSelection()) === "") {
      open(shown[at]);
    }
  }

  return {
    element: h("div", { class: "grid-frame" },
      h("div", { class: "grid-tools" }, filter, ...tools, count), scroller),
    update(newest) {
      rows = newest;
      isLoaded = true;
      change();
    },
  };
}
