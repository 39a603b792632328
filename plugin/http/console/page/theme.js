// Light or dark: the choice of the system, or of the user, which the browser remembers.

import { announce, h, setText } from "../dom.js";

const KEY = "thriftps-theme";
const CHOICES = ["system", "light", "dark"];

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";  // storage may be switched off
  }
}

function store(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // It holds until the page is closed, then.
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

// Returns the button, and a function that goes to the next theme.
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
