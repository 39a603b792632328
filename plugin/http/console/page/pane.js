// The frame of a view: its heading, a note about its figures, and its content.

import { h, setText } from "../dom.js";
import { formatClock } from "../format.js";

// Returns {element, tell (answer, error)}. `tell` shows the content when there is an answer.
export function makePane(title, { note = "", fills = false, tools = [] } = {}, ...content) {
  const message = h("p", { class: "placeholder", text: "Loading", role: "status" });
  const stale = h("p", { class: "stale", role: "status", hidden: true });
  const body = h("div", { class: "pane-body", hidden: true }, ...content);
  const element = h("section", { class: fills ? "pane fills" : "pane", "aria-label": title },
    h("div", { class: "pane-head" }, h("h1", { text: title }),
      note ? h("p", { class: "note", text: note }) : null, ...tools),
    stale, message, body);

  let at = "";

  return {
    element,
    tell(answer, error) {
      if (error === null) {
        at = formatClock(Date.now() / 1000);
      }
      message.hidden = answer !== null;
      body.hidden = answer === null;
      stale.hidden = answer === null || error === null;
      if (error !== null) {
        setText(message, `There are no figures: ${error.message}.`);
        setText(stale, `These figures are those of ${at}: ${error.message}.`);
      }
    },
  };
}
