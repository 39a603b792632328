// The theme, light or dark. The system or the user chooses it, and the browser stores the choice.

import { announce, h, setText } from "../dom.js";

const KEY = "thriftps-theme";
const CHOICES = ["system", "light", "dark"];

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";  // the browser may forbid storage
  }
}

function store(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // Without storage, the choice holds until the page is closed.
  }
}

let current = CHOICES.includes(stored()) ? stored() : "system";

function apply() {
  if (current === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = current;
  }
  document.dispatchEvent(new Event("themechange"));
}

// Returns the button, and a function that selects the next theme.
export function makeThemeSwitch() {
  const name = h("span", { class: "value", text: `: ${current}` });
  const button = h("button", { type: "button", class: "button quiet", on: { click: next } },
    "Theme", name);

  function next() {
    current = CHOICES[(CHOICES.indexOf(current) + 1) % CHOICES.length];
    store(current);
    setText(name, `: ${current}`);
    apply();
    announce(`Theme: ${current}`);
  }

  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  return { button, next };
}
