// A dialog with everything about one row. Escape closes it, and the focus returns to the row.

import { h } from "../dom.js";

// `fields`: [{title, hint, text}]. `more`: elements below the fields.
export function showDetails(title, fields, more) {
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "details-title" },
    h("form", { method: "dialog", class: "dialog-head" },
      h("h2", { id: "details-title", text: title }),
      h("button", { class: "button", text: "Close" })),
    ...more,
    h("dl", { class: "fields" }, ...fields.flatMap(({ title: name, hint, text }) => [
      h("dt", { text: name, title: hint ?? null }), h("dd", { text })])));
  dialog.addEventListener("close", () => dialog.remove());
  // A click outside hits the dialog itself, which is its own backdrop.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
