// A bar that shows a level between 0 and its limit. Text beside it has the same information.

import { h } from "../dom.js";
import { formatPercent } from "../format.js";

// From 0.75 of the limit on, a level is a warning. From 0.9 on, it is bad. A level without a limit
// is neither.
export function gradeOf(share) {
  if (share >= 0.9) {
    return "bad";
  }
  return share >= 0.75 ? "warning" : "good";
}

// Makes a bar. setBar (bar, used, limit, peak) sets it. `limit` may be null.
export function makeBar(label) {
  return h("span", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0,
                     "aria-valuemax": 100 },
    h("span", { class: "meter-level" }), h("span", { class: "meter-peak" }));
}

export function setBar(bar, used, limit, peak = null) {
  const [level, mark] = bar.children;
  const share = limit > 0 ? used / limit : 0;
  level.style.width = `${Math.min(share, 1) * 100}%`;
  mark.hidden = !(limit > 0) || peak === null;
  mark.style.left = `${Math.min(limit > 0 ? peak / limit : 0, 1) * 100}%`;
  bar.dataset.grade = gradeOf(share);
  bar.dataset.limited = limit > 0;
  bar.setAttribute("aria-valuenow", Math.round(Math.min(share, 1) * 100));
  bar.setAttribute("aria-valuetext", limit > 0 ? formatPercent(share) : "no limit");
}
