// The connections, their principals and their traffic.

import { formatByteRate, formatBytes, formatCount, formatRate, formatSeconds, formatText,
         formatYes } from "../format.js";
import { makeGrid } from "../grid/grid.js";
import { makePane } from "../page/pane.js";
import { poll } from "../server/poll.js";
import { Rates } from "../server/rates.js";
import { getPages } from "../server/request.js";

const COUNTS = ["calls", "received_bytes", "sent_bytes"];

function rate(id, title, format, level) {
  return { id, title, hint: "since the answer before", text: (row) => format(row.rates[id]),
           value: (row) => row.rates[id], isNumber: true, width: "6.5rem", level };
}

function detail(id, title, text) {
  return { id, title, text, level: 4 };
}

const COLUMNS = [
  { id: "peer", title: "Peer", text: (row) => row.peer, isSearched: true, isCode: true,
    width: "10.5rem" },
  { id: "principal", title: "Principal", text: (row) => formatText(row.principal),
    isSearched: true, isCode: true },
  { id: "kind", title: "Kind", hint: "how the principal was proven",
    text: (row) => formatText(row.principal_kind), isSearched: true, width: "6rem", level: 3 },
  { id: "tenant", title: "Tenant", text: (row) => formatText(row.tenant), isSearched: true,
    isCode: true, width: "7rem", level: 3 },
  { id: "age", title: "Age", text: (row) => formatSeconds(row.age_s), value: (row) => row.age_s,
    isNumber: true, width: "6.5rem", level: 2 },
  rate("calls", "Calls/s", formatRate, 2),
  { id: "in_flight", title: "In flight", text: (row) => formatCount(row.in_flight),
    value: (row) => row.in_flight, isNumber: true, width: "5.5rem", level: 2 },
  rate("received_bytes", "Received", formatByteRate, 2),
  rate("sent_bytes", "Sent", formatByteRate, 2),
  { id: "queued", title: "Queued", hint: "replies that the peer has not taken",
    text: (row) => formatBytes(row.queued_bytes), value: (row) => row.queued_bytes,
    isNumber: true, width: "5.5rem", level: 3 },
  detail("id", "Number", (row) => formatCount(row.id)),
  detail("transport", "Channel", (row) => (row.is_encrypted ? `${row.transport}, TLS`
    : row.transport)),
  detail("protocol", "Protocol", (row) => (row.protocol === null ? "no message yet"
    : `${row.protocol}, ${row.is_framed ? "framed" : "unframed"}`)),
  detail("all-calls", "Calls since it began", (row) => formatCount(row.calls)),
  detail("all-received", "Received since it began", (row) => formatBytes(row.received_bytes)),
  detail("all-sent", "Sent since it began", (row) => formatBytes(row.sent_bytes)),
  detail("shared", "Shared memory", (row) => formatBytes(row.shared_bytes)),
  detail("half", "Peer sends no more", (row) => formatYes(row.is_half_closed)),
];

export function connectionsView(context, scope) {
  const rates = new Rates((row) => row.id, COUNTS);
  const grid = makeGrid(scope, {
    label: "Connections", noun: "connections", columns: COLUMNS, key: (row) => row.id,
    sortBy: "-in_flight", empty: "There are no connections.",
  });
  const pane = makePane("Connections", { fills: true, note: "Read every 2 s" }, grid.element);
  poll(context, scope, 2, (signal) => getPages("/connections", "connections", signal),
    (answer, error) => {
      pane.tell(answer, error);
      if (error === null) {
        rates.update(answer.connections, answer.time_s);
        grid.update(answer.connections);
      }
    });
  return pane.element;
}
