// The moment that charts point at: one for all charts of a view. It is a time and not a place, so
// it stays on its figures while time goes on.

export class Cursor {
  time_s = null;
  #listeners = new Set();

  set(time_s) {
    if (time_s !== this.time_s) {
      this.time_s = time_s;
      for (const listener of [...this.#listeners]) {
        listener();
      }
    }
  }

  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // The step of sumSteps() that it is in, null if there is none.
  stepOf(data) {
    if (this.time_s === null) {
      return null;
    }
    const at = Math.floor((this.time_s - data.begin_s) / data.step_s);
    return at >= 0 && at < data.steps.length ? at : null;
  }
}
