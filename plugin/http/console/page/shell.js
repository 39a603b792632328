// The page around the views: the bar, the list of views, the keys, and the view that the URL names.

import { announce, h, isTyping, setText } from "../dom.js";
import { formatSeconds } from "../format.js";
import { Scope } from "../server/poll.js";
import { showHelp, usesLetters } from "./help.js";
import { makeThemeSwitch } from "./theme.js";

const STATES = { starting: "starting", recovering: "recovering", failed: "failed",
                 draining: "draining", ready: "ready", "not ready": "not ready" };

function runBar(history) {
  const server = document.getElementById("server");
  history.subscribe(() => {
    const { hello, last } = history;
    if (hello) {
      const age = last ? `, up ${formatSeconds(Math.floor(last.time_s - hello.start_time_s))}` : "";
      const state = last && last.state !== "ready" ? `, ${STATES[last.state] ?? last.state}` : "";
      setText(server, `${hello.name} ${hello.version}${age}${state}`);
      document.title = `${hello.name} – ThriftPS console`;
    }
  });
}

function makePauseButton(pause) {
  const button = h("button", { type: "button", class: "button quiet", "aria-pressed": "false",
                               text: "Pause", on: { click: toggle } });

  function toggle() {
    pause.isOn = !pause.isOn;
    button.setAttribute("aria-pressed", pause.isOn);
    announce(pause.isOn ? "Figures are paused" : "Figures are resumed");
  }

  return { button, toggle };
}

function makeNavigation(views) {
  const list = document.getElementById("nav-list");
  const button = document.getElementById("nav-button");
  const links = views.map(({ id, title }, i) =>
    h("a", { href: `#/${id}` }, h("span", { text: title }),
      h("kbd", { "aria-hidden": "true", text: i + 1 })));

  function open(isOpen) {
    button.setAttribute("aria-expanded", isOpen);
    list.classList.toggle("open", isOpen);
  }

  list.append(...links.map((link) => h("li", {}, link)));
  list.addEventListener("click", () => open(false));
  button.addEventListener("click", () => open(button.getAttribute("aria-expanded") === "false"));
  return (view) => {
    links.forEach((link, i) => {
      if (views[i] === view) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    });
    setText(button, view.title);
    open(false);
  };
}

function runKeys(actions, views) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)
        || document.querySelector("dialog[open]") || !usesLetters()) {
      return;
    }
    const digit = Number.parseInt(event.key, 10);
    if (event.key in actions) {
      event.preventDefault();
      actions[event.key]();
    } else if (digit >= 1 && digit <= views.length) {
      location.hash = `#/${views[digit - 1].id}`;
    }
  });
}

// `context` is passed to each view: {history, link, cursor, pause}.
export function runShell(views, context) {
  const main = document.getElementById("main");
  const mark = makeNavigation(views);
  const theme = makeThemeSwitch();
  const pause = makePauseButton(context.pause);
  const help = h("button", { type: "button", class: "button quiet", text: "Help",
                             on: { click: () => showHelp(views) } });
  let scope = null;

  function show(isFirst) {
    const view = views.find(({ id }) => location.hash === `#/${id}`) ?? views[0];
    scope?.close();
    scope = new Scope();
    context.cursor.set(null);
    main.replaceChildren(view.make(context, scope));
    mark(view);
    if (!isFirst) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }

  document.getElementById("tools").append(pause.button, theme.button, help);
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  runBar(context.history);
  runKeys({
    "?": () => showHelp(views),
    "/": () => main.querySelector(".filter")?.focus(),
    p: pause.toggle,
    t: theme.next,
  }, views);
  addEventListener("hashchange", () => show(false));
  show(true);
}
