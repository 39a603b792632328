// Reports that the connection to the server is lost, since when, and when the next attempt comes,
// or that the server requires a token. It is empty while the connection is up.

import { h, setText } from "../dom.js";
import { formatClock, formatSeconds } from "../format.js";
import { makeTokenForm } from "./token_form.js";

export function runBanner(link) {
  const banner = document.getElementById("banner");
  const light = document.getElementById("link");
  const light_text = document.getElementById("link-text");
  let shown = null;
  let shown_error = null;
  let timer = null;
  // Screen readers must skip the seconds, which change all the time.
  const seconds = h("span", { class: "note", "aria-hidden": "true" });

  function showLost() {
    banner.replaceChildren(
      h("p", {}, h("strong", { text: `Connection lost at ${formatClock(link.since_ms / 1000)}. ` }),
        `Reason: ${link.error.message}. The figures below are those of that time. `, seconds),
      h("button", { type: "button", class: "button", text: "Try now",
                    on: { click: () => link.retry() } }));
  }

  function tick() {
    const since = formatSeconds(Math.round((Date.now() - link.since_ms) / 1000));
    const wait_s = link.next_attempt_ms === null ? 0
      : Math.max(Math.ceil((link.next_attempt_ms - Date.now()) / 1000), 0);
    setText(seconds, `${since} ago. ` + (link.next_attempt_ms === null ? "Trying now."
      : `Next attempt in ${wait_s} s.`));
  }

  function show() {
    const what = link.state === "lost" || link.state === "denied" ? link.state : "none";
    light.dataset.state = link.state;
    setText(light_text, { connecting: "connecting", live: "live", lost: "connection lost",
                          denied: "not allowed" }[link.state]);
    banner.className = `banner banner-${what}`;
    clearInterval(timer);
    if (what === "lost") {
      tick();
      timer = setInterval(tick, 1000);
    }
    // A form into which the user may be typing a token must not be replaced.
    if (what === shown && (what !== "denied" || link.error === shown_error)) {
      return;
    }
    const hadFocus = banner.contains(document.activeElement);
    shown = what;
    shown_error = link.error;
    if (what === "lost") {
      showLost();
    } else if (what === "denied") {
      banner.replaceChildren(makeTokenForm(link, link.error));
      if (hadFocus) {
        document.getElementById("token").focus();
      }
    } else {
      banner.replaceChildren();
    }
  }

  link.subscribe(show);
  addEventListener("online", () => link.retry());
  document.addEventListener("visibilitychange", () => !document.hidden && link.retry());
}
