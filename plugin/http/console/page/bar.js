// A level between 0 and its limit, as a bar. Text beside it says the same.

import { h } from "../dom.js";
import { formatPercent } from "../format.js";

// 0.75 of the limit and more is a warning, 0.9 and more is bad; levels without limit are neither.
export function gradeOf(share) {
  if (share >= 0.9) {
    return "bad";
  }
  return share >= 0.75 ? "warning" : "good";
}

// Makes a bar; setBar (bar, used, limit, peak) sets it. `limit` may be null.
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
