// The log and the snapshots of a server with a data directory.

import { makeLineChart } from "../charts/line_chart.js";
import { h, setText } from "../dom.js";
import { formatByteRate, formatBytes, formatCount, formatPercent, formatRate, formatSeconds,
         formatText, formatYes } from "../format.js";
import { makeBar, setBar } from "../page/bar.js";
import { makeFacts } from "../page/facts.js";
import { makePane } from "../page/pane.js";
import { sumSteps } from "../server/history.js";
import { onSample, poll } from "../server/poll.js";
import { getJson } from "../server/request.js";

const N_STEPS = 120;
const STEP_S = 5;

const PHASES = {
  recovering: "The log is applied again; calls are refused until that is done.",
  live: "Changes are written to the log.",
  full: "No room for the log: changes are refused, lookups are answered. It continues by itself.",
  "read-only": "A disk has failed: changes are refused until the server is restarted.",
  failed: "The log cannot be applied: all calls are refused.",
};
const GRADES = { live: "good", recovering: "warning" };

// Adds to each step the rates since the previous step.
function addRates(data) {
  data.steps.forEach((step, i) => {
    const [now, before] = [step?.durability, data.steps[i - 1]?.durability];
    if (step) {
      const isKnown = now && before && now.end_lsn >= before.end_lsn;
      step.command_rate = isKnown ? (now.end_lsn - before.end_lsn) / step.seconds : null;
      step.log_rate = isKnown ? Math.max(now.log_bytes - before.log_bytes, 0) / step.seconds
        : null;
      step.behind = now ? Math.max(now.end_lsn - now.lsn, 0) : null;
    }
  });
  return data;
}

function factsOf(durability) {
  const { snapshot, lsn, end_lsn, log_bytes, log, recovery_remaining_s } = durability;
  const isRecovering = durability.phase === "recovering";
  return [
    ["On the disk up to", `LSN ${formatCount(lsn)}`],
    [isRecovering ? "To be applied up to" : "Made up to", `LSN ${formatCount(end_lsn)}`],
    ["Not on the disk yet", `${formatCount(Math.max(end_lsn - lsn, 0))} commands`],
    [isRecovering ? "Applied" : "Written since the start", formatBytes(log_bytes)],
    ...(isRecovering ? [["Recovery takes another", formatSeconds(recovery_remaining_s)]] : []),
    ...snapshotFacts(snapshot, end_lsn),
    ["A snapshot is being written", formatYes(durability.is_writing_snapshot)],
    ["Name of the log", formatText(log)],
  ];
}

function snapshotFacts(snapshot, end_lsn) {
  return snapshot === null ? [["Last snapshot", "none yet"]] : [
    ["Last snapshot", snapshot.name],
    ["It holds", `up to LSN ${formatCount(snapshot.lsn)}`],
    ["Its size", formatBytes(snapshot.bytes)],
    ["Commands since then", formatCount(Math.max(end_lsn - snapshot.lsn, 0))],
      ];
}

function makeRecovery() {
  const bar = makeBar("recovery");
  const text = h("span", { class: "meter-text" });
  const element = h("p", { class: "recovery" }, bar, text);
  return {
    element,
    update({ phase, log_bytes, recovery_bytes }) {
      element.hidden = phase !== "recovering";
      setBar(bar, log_bytes, recovery_bytes);
      bar.dataset.grade = "good";
      setText(text, recovery_bytes > 0 ? `${formatPercent(log_bytes / recovery_bytes)} of `
        + formatBytes(recovery_bytes) : "");
    },
  };
}

export function durabilityView(context, scope) {
  const phase = h("span", { class: "badge" });
  const words = h("span", {});
  const state = h("p", { class: "state", role: "status" }, phase, words);
  const recovery = makeRecovery();
  const facts = makeFacts();
  const none = h("p", { class: "placeholder", hidden: true, text:
    "This server has no data directory (--data-dir), so nothing survives its end." });
  const charts = [
    makeLineChart(scope, context.cursor, {
      title: "Commands", note: "changes", format: formatRate, lines: [
        { name: "made", colour: "first", isFilled: true, value: (step) => step.command_rate },
      ],
    }),
    makeLineChart(scope, context.cursor, {
      title: "Log", format: formatByteRate, scale: "bytes", lines: [
        { name: "written", colour: "third", isFilled: true, value: (step) => step.log_rate },
      ],
    }),
    makeLineChart(scope, context.cursor, {
      title: "Not on the disk yet", note: "at the end of each step",
      format: formatCount, scale: "count", lines: [
        { name: "commands", colour: "second", value: (step) => step.behind },
      ],
    }),
  ];
  const content = h("div", { class: "blocks" }, state, recovery.element, facts.element,
    h("div", { class: "charts" }, ...charts.map(({ element }) => element)));
  const pane = makePane("Log and snapshots", { note: "Read every 2 s" }, none, content);

  function show({ durability }) {
    none.hidden = durability !== null;
    content.hidden = durability === null;
    if (durability) {
      setText(phase, durability.phase);
      state.dataset.grade = GRADES[durability.phase] ?? "bad";
      setText(words, [PHASES[durability.phase], durability.reason].filter(Boolean).join(" "));
      recovery.update(durability);
      facts.update(factsOf(durability));
    }
  }

  poll(context, scope, 2, (signal) => getJson("/status", signal), (status, error) => {
    pane.tell(status, error);
    if (error === null) {
      show(status);
    }
  });
  onSample(context, scope, (history) => {
    const data = addRates(sumSteps(history, N_STEPS, STEP_S));
    charts.forEach((chart) => chart.update(data));
  });
  return pane.element;
}
