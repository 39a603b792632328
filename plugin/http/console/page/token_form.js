// A field for the token, for a server that requires one.

import { h } from "../dom.js";
import { hasToken } from "../server/request.js";

const REASONS = {
  401: "This server wants a token.",
  403: "This principal must not see the console: it lacks the right “admin”.",
};

export function makeTokenForm(link, error) {
  const field = h("input", {
    type: "password", id: "token", class: "filter", autocomplete: "off", required: true,
    spellcheck: "false",
  });
  const reason = hasToken() && error.status === 401 ? "The token was refused."
    : REASONS[error.status];
  return h("form", {
    class: "token", on: {
      submit(event) {
        event.preventDefault();
        link.useToken(field.value.trim());
        field.value = "";
      },
    },
  },
  h("p", {}, h("strong", { text: reason }), ` The server says: ${error.message}`),
  h("label", { for: "token", text: "Token" }), field,
  h("button", { class: "button", text: "Use token" }),
  h("p", { class: "note", text: "The token stays in the memory of this page and is forgotten when "
    + "the page is closed or loaded again." }));
}
