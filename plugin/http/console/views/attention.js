// Conditions that need attention, in words. Each has a link to the view with more information.

import { announce, h, setText } from "../dom.js";
import { formatCount, formatPercent, formatSeconds } from "../format.js";

const MANY = 0.9;           // of a limit
const STRAGGLER_S = 5;      // age of a round

const WARNINGS = {
  full: "No room for the log: changes are refused, lookups are answered.",
  "read-only": "A disk has failed: changes are refused until a restart.",
};

function* stateNotes(status) {
  if (status.state !== "ready") {
    const reasons = status.reasons.join(", ") || "no reason given";
    yield ["bad", `The server is ${status.state}: ${reasons}.`, "durability"];
  }
  for (const warning of status.warnings) {
    yield ["bad", WARNINGS[warning] ?? `Warning: ${warning}.`, "durability"];
  }
}

function* limitNotes(status) {
  for (const { name, held_bytes, max_bytes } of status.budgets) {
    if (max_bytes > 0 && held_bytes / max_bytes >= MANY) {
      const share = formatPercent(held_bytes / max_bytes);
      yield ["warning", `Budget ${name}: ${share} is used.`, "limits"];
    }
  }
  for (const { tenant, limits } of status.quotas) {
    for (const { kind, used, max } of limits) {
      if (max > 0 && used / max >= MANY) {
        yield ["warning", `Tenant ${tenant}: ${formatPercent(used / max)} of ${kind} is used.`,
               "limits"];
      }
    }
  }
  const { connections, max_connections } = status.totals;
  if (max_connections > 0 && connections / max_connections >= MANY) {
    yield ["warning", `${formatCount(connections)} of ${formatCount(max_connections)} connections `
      + "are open.", "connections"];
  }
}

function* sampleNotes(history) {
  const { rounds } = history.last;
  if (rounds && rounds.oldest_s >= STRAGGLER_S) {
    yield ["warning", `A round has been open for ${formatSeconds(rounds.oldest_s)}; `
      + `${formatCount(rounds.waiting)} calls wait.`, "rounds"];
  }
  const failures = history.newest(60).reduce((sum, sample) => sum + sample.failures, 0);
  if (failures > 0) {
    yield ["note", `${formatCount(failures)} calls failed in the last minute.`, "methods"];
  }
}

const SIGNS = { bad: "problem", warning: "warning", note: "note", good: "good" };
const N_MOST = 6;

export function makeAttention() {
  let status = null;
  let history = null;
  let problems = "";
  const list = h("ul", { class: "attention-list" });
  const element = h("section", { class: "attention", "aria-label": "Needs attention" }, list);

  function notes() {
    const all = [...(status ? [...stateNotes(status), ...limitNotes(status)] : []),
                 ...(history ? sampleNotes(history) : [])];
    if (all.length > N_MOST) {
      const more = `${formatCount(all.length - N_MOST)} more of the same kind.`;
      return [...all.slice(0, N_MOST), ["note", more, "limits"]];
    }
    return all.length > 0 ? all : [["good", "Nothing needs attention.", null]];
  }

  // Changes items in place, because one of them may have the focus.
  function show() {
    const newest = notes();
    while (list.children.length < newest.length) {
      list.append(h("li", {}, h("span", { class: "badge" }), h("a")));
    }
    while (list.children.length > newest.length) {
      list.lastChild.remove();
    }
    newest.forEach(([grade, words, view], i) => {
      const item = list.children[i];
      item.className = `grade-${grade}`;
      setText(item.firstChild, SIGNS[grade]);
      setText(item.lastChild, words);
      if (view) {
        item.lastChild.href = `#/${view}`;
      } else {
        item.lastChild.removeAttribute("href");
      }
    });
    const bad = newest.filter(([grade]) => grade === "bad").map(([, words]) => words).join(" ");
    if (bad !== problems) {
      problems = bad;
      announce(bad);
    }
  }

  return {
    element,
    takeStatus(newest) {
      status = newest;
      show();
    },
    takeSample(newest) {
      history = newest;
      show();
    },
  };
}
