// The stream of samples, and the known state of the server.
//
//   connecting -> live -> lost -> live ...    lost: new attempts follow, 1 s to 15 s apart
//   any -> denied                             until the user enters a token
//
// When the user leaves the page, the browser may keep it in memory for its button "back". There it
// must not hold a connection, because browsers open at most six to a server.

import { RequestError, setToken } from "./request.js";
import { readEvents } from "./event_stream.js";

const DELAYS_S = [1, 2, 4, 8, 15];
const SILENCE_MS = 6000;  // a sample arrives every second

export class Link {
  state = "connecting";
  since_ms = Date.now();      // start of the state
  next_attempt_ms = null;     // while lost, between two attempts
  error = null;               // RequestError, while lost or denied
  #listeners = new Set();
  #n_failed = 0;
  #wake = null;
  #watchdog = null;
  #controller = null;
  #isRestarting = false;
  #shown = Promise.resolve();
  #events = {};

  // `events` are functions by name, which are called with the data of hello and sample.
  constructor(events) {
    this.#events = events;
  }

  // Calls `listener` after each change. Returns a function that ends these calls.
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // Runs for ever.
  async run() {
    for (;;) {
      await this.#shown;
      const error = await this.#readUntilError();
      if (this.#isRestarting) {
        this.#isRestarting = false;
        this.#change("connecting", null);
      } else if (error.isDenied) {
        await this.#pause("denied", error, null);
      } else {
        const delay_s = DELAYS_S[Math.min(this.#n_failed, DELAYS_S.length - 1)];
        this.#n_failed += 1;
        await this.#pause("lost", error, Math.max(delay_s, error.retry_after_s ?? 0));
      }
    }
  }

  // If the link is waiting, tries again at once.
  retry() {
    this.#wake?.();
  }

  // Restarts the stream with this token.
  useToken(text) {
    setToken(text);
    this.#restart();
  }

  // Ends the stream until a call of resume().
  suspend() {
    this.#shown = new Promise((resolve) => {
      this.resume = resolve;
    });
    this.#restart();
  }

  resume() {}

  #restart() {
    if (this.#wake) {
      this.#wake();
    } else {
      this.#isRestarting = true;
      this.#controller?.abort();
    }
  }

  async #readUntilError() {
    const controller = new AbortController();
    this.#controller = controller;
    const watch = () => {
      clearTimeout(this.#watchdog);
      this.#watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
    };
    watch();
    try {
      await readEvents("/events", controller.signal, (event, data) => {
        watch();
        this.#n_failed = 0;
        this.#change("live", null);
        this.#events[event]?.(data);
      });
      return new RequestError(0, "the stream has ended");
    } catch (error) {
      if (error instanceof RequestError) {
        return error;
      }
      return new RequestError(0, controller.signal.aborted
        ? "the server has been silent for 6 s" : "the stream cannot be read");
    } finally {
      clearTimeout(this.#watchdog);
      controller.abort();
    }
  }

  #pause(state, error, delay_s) {
    this.next_attempt_ms = delay_s === null ? null : Date.now() + delay_s * 1000;
    this.#change(state, error, true);
    return new Promise((resolve) => {
      const timer = delay_s === null ? null : setTimeout(() => this.#wake(), delay_s * 1000);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = null;
        this.next_attempt_ms = null;
        this.#tell();
        resolve();
      };
    });
  }

  #change(state, error, always = false) {
    if (state !== this.state) {
      this.since_ms = Date.now();
    } else if (!always) {
      return;
    }
    this.state = state;
    this.error = error;
    this.#tell();
  }

  #tell() {
    for (const listener of [...this.#listeners]) {
      listener(this);
    }
  }
}
