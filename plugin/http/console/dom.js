// Elements of the page. Text is always set as text and never as HTML: names of tables and of
// principals come from peers and may contain markup.

// Makes an element. `properties` are attributes, except for `text`, `on` (listeners by event) and
// `class`. An attribute that is false or null is omitted. An attribute that is true is empty.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") {
      element.textContent = value;
    } else if (name === "on") {
      for (const [event, listener] of Object.entries(value)) {
        element.addEventListener(event, listener);
      }
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Changes the text only if it differs, so that an idle page causes no layout.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

// Announces a text once to screen readers, without moving the focus.
export function announce(text) {
  setText(document.getElementById("announcer"), text);
}

export function isTyping(target) {
  return target instanceof HTMLElement
    && (target.matches("input, select, textarea") || target.isContentEditable);
}
