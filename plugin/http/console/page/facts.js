// A list of names with one value each. Values change in place, so that the user's selection stays.

import { h, setText } from "../dom.js";

// Returns {element, update (facts)}. `facts`: [[name, text]].
export function makeFacts() {
  const element = h("dl", { class: "facts" });
  return {
    element,
    update(facts) {
      const names = [...element.querySelectorAll("dt")].map((each) => each.textContent);
      if (names.join("\n") !== facts.map(([name]) => name).join("\n")) {
        element.replaceChildren(...facts.map(([name]) =>
          h("div", {}, h("dt", { text: name }), h("dd"))));
      }
      facts.forEach(([, text], i) => setText(element.children[i].lastChild, text));
    },
  };
}
