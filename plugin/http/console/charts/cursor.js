// The time at which the charts of a view show their figures, one for all charts. It is a time and
// not a position, so it stays at its figures while newer samples arrive.

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

  // Returns the step of sumSteps() that contains the time, or null if there is none.
  stepOf(data) {
    if (this.time_s === null) {
      return null;
    }
    const at = Math.floor((this.time_s - data.begin_s) / data.step_s);
    return at >= 0 && at < data.steps.length ? at : null;
  }
}
