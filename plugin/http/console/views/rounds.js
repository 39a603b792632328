// Rounds of averages and of the model: missing trainers, and the age of each round.

import { h, setText } from "../dom.js";
import { formatCount, formatList, formatPlural, formatSeconds } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makeBar, setBar } from "../page/bar.js";
import { makeFacts } from "../page/facts.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { getJson } from "../server/request.js";

const N_NAMED = 12;

function fillArrived(cell, row) {
  if (!cell.firstChild) {
    cell.append(makeBar("trainers that have arrived"), h("span", { class: "meter-text" }));
  }
  setBar(cell.firstChild, row.arrived, row.trainers);
  cell.firstChild.dataset.grade = "good";
  setText(cell.lastChild, arrivedText(row));
}

function arrivedText(row) {
  return `${formatCount(row.arrived)} of ${formatCount(row.trainers)}`;
}

function missingText(row) {
  return formatList(row.missing, N_NAMED, Math.max(row.trainers - row.arrived, row.missing.length));
}

const COLUMNS = [
  { id: "what", title: "Round", text: (row) => row.what, isSearched: true, width: "14rem" },
  { id: "arrived", title: "Arrived", text: arrivedText, value: (row) => row.arrived,
    fill: fillArrived, width: "10rem", level: 2 },
  { id: "missing", title: "Missing trainers", text: missingText, value: (row) => row.missing.length,
    isSearched: true },
  { id: "age", title: "Age", hint: "since the first trainer arrived",
    text: (row) => formatSeconds(row.age_s), value: (row) => row.age_s, isNumber: true,
    width: "6.5rem" },
  { id: "remaining", title: "Time left", hint: "until the round expires",
    text: (row) => formatSeconds(row.remaining_s), value: (row) => row.remaining_s, isNumber: true,
    width: "6.5rem", level: 2 },
];

// Returns the open rounds of averages and of the model.
function rowsOf({ averaging, model }) {
  const rows = (averaging?.rounds ?? []).map((round) => ({
    ...round, trainers: averaging.trainers,
    what: `batch ${round.batch}, bucket ${round.param_loc}`,
  }));
  if (model?.round) {
    rows.unshift({ ...model.round, trainers: model.trainers, what: "update of the model" });
  }
  return rows;
}

function* summaryOf({ averaging, model }) {
  if (averaging) {
    yield ["Trainers of an average", formatCount(averaging.trainers)];
    yield ["Newest batch", averaging.batch === null ? "no push yet" : formatCount(averaging.batch)];
    yield ["Open rounds", formatCount(averaging.open)];
    yield ["Calls that wait", formatCount(averaging.waiting)];
    yield ["Timeout of a round", formatSeconds(averaging.timeout_s)];
  }
  if (model) {
    yield ["Version of the model", model.version === 0 ? "no model" : formatCount(model.version)];
    yield ["Trainers of an update", model.min_trainers === model.trainers
      ? formatCount(model.trainers)
      : `${formatCount(model.min_trainers)} to ${formatCount(model.trainers)}`];
  }
}

function makeStragglers() {
  const body = h("tbody");
  const table = h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Trainer" }),
      h("th", { scope: "col", class: "number", text: "Missing in", title: "open rounds" }),
      h("th", { scope: "col", class: "number", text: "Oldest", title: "age of the oldest" }),
      h("th", { scope: "col", class: "wide", text: "Share of the timeout" }))), body);
  const none = h("p", { class: "note", text: "No trainer is missing in an open round." });

  function makeRow({ trainer, rounds, longest_s }, timeout_s) {
    const bar = makeBar(`trainer ${trainer}: share of the timeout`);
    setBar(bar, longest_s, timeout_s);
    return h("tr", {}, h("th", { scope: "row", text: String(trainer) }),
      h("td", { class: "number", text: formatPlural(rounds, "round") }),
      h("td", { class: "number", text: formatSeconds(longest_s) }), h("td", {}, bar));
  }

  return {
    element: h("section", { class: "block" }, h("h2", { text: "Stragglers" }), none,
      h("div", { class: "stragglers" }, table)),
    update({ stragglers, averaging, model }) {
      const timeout_s = averaging?.timeout_s ?? model?.timeout_s ?? null;
      none.hidden = stragglers.length > 0;
      table.hidden = stragglers.length === 0;
      body.replaceChildren(...stragglers.map((each) => makeRow(each, timeout_s)));
    },
  };
}

export function roundsView(context, scope) {
  const summary = makeFacts();
  const stragglers = makeStragglers();
  const none = h("p", { class: "placeholder", hidden: true, text:
    "This server does not serve ParameterServer, so it has no rounds." });
  const grid = makeGrid(scope, {
    label: "Open rounds", noun: "open rounds", columns: COLUMNS, sortBy: "-age",
    key: (row) => row.what, empty: "No round is open.",
  });
  const content = h("div", { class: "blocks" }, summary.element, stragglers.element,
    h("section", { class: "block" }, h("h2", { text: "Open rounds" }), grid.element));
  const pane = makePane("Rounds", { note: "Read every second; the 100 oldest rounds" },
    none, content);
  poll(context, scope, 1, (signal) => getJson("/rounds", signal), (answer, error) => {
    pane.tell(answer, error);
    if (error === null) {
      none.hidden = answer.averaging !== null || answer.model !== null;
      content.hidden = !none.hidden;
      summary.update([...summaryOf(answer)]);
      stragglers.update(answer);
      grid.update(rowsOf(answer));
    }
  });
  return pane.element;
}
