// Everything about one row, over the page. Escape closes it, and the focus goes back to the row.

import { h } from "../dom.js";

// `fields`: [{title, hint, text}]; `more`: elements below them.
export function showDetails(title, fields, more) {
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "details-title" },
    h("form", { method: "dialog", class: "dialog-head" },
      h("h2", { id: "details-title", text: title }),
      h("button", { class: "button", text: "Close" })),
    ...more,
    h("dl", { class: "fields" }, ...fields.flatMap(({ title: name, hint, text }) => [
      h("dt", { text: name, title: hint ?? null }), h("dd", { text })])));
  dialog.addEventListener("close", () => dialog.remove());
  // A click outside: the dialog itself is its backdrop.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
