// The keys of the page, and a switch that disables single letters for users of speech input.

import { h } from "../dom.js";

const KEY = "thriftps-letters";

let areLettersOn = true;
try {
  areLettersOn = localStorage.getItem(KEY) !== "off";
} catch {
  // The browser may forbid storage.
}

export function usesLetters() {
  return areLettersOn;
}

function useLetters(isOn) {
  areLettersOn = isOn;
  try {
    localStorage.setItem(KEY, isOn ? "on" : "off");
  } catch {
    // Without storage, the choice holds until the page is closed.
  }
}

function keys(rows) {
  return h("dl", { class: "fields keys" }, ...rows.flatMap(([names, text]) => [
    h("dt", {}, ...names.map((name) => h("kbd", { text: name }))), h("dd", { text })]));
}

export function showHelp(views) {
  const letters = h("input", {
    type: "checkbox", id: "letters", on: { change: () => useLetters(letters.checked) },
  });
  letters.checked = areLettersOn;
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "help-title" },
    h("form", { method: "dialog", class: "dialog-head" },
      h("h2", { id: "help-title", text: "Keys" }), h("button", { class: "button", text: "Close" })),
    keys([
      ...views.map(({ title }, i) => [[String(i + 1)], title]),
      [["/"], "Filter the list"],
      [["p"], "Pause or resume the figures"],
      [["t"], "Theme: that of the system, light, dark"],
      [["?"], "This help"],
      [["↑", "↓", "PgUp", "PgDn", "Home", "End"], "In a list: from row to row"],
      [["Enter"], "In a list: everything about the row"],
      [["←", "→"], "In a chart: from moment to moment"],
      [["Esc"], "Close a window; leave a moment of a chart"],
    ]),
    h("p", {}, letters, h("label", { for: "letters", text: " Letters and digits are shortcuts" })));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
