// Repeated requests of a view, while the page is visible and the server is reachable.

export class Scope {
  #cleanups = [];
  isClosed = false;

  add(cleanup) {
    this.#cleanups.push(cleanup);
  }

  listen(target, event, listener) {
    target.addEventListener(event, listener);
    this.add(() => target.removeEventListener(event, listener));
  }

  close() {
    this.isClosed = true;
    for (const cleanup of this.#cleanups.splice(0).reverse()) {
      cleanup();
    }
  }
}

// Calls `show (history)` now and after each sample, unless the page is hidden or paused.
export function onSample({ history, pause }, scope, show) {
  function showLast() {
    if (!document.hidden && !pause.isOn && history.last) {
      show(history);
    }
  }

  scope.add(history.subscribe(showLast));
  scope.listen(document, "visibilitychange", showLast);
  showLast();
}

// Calls `load (signal)` every `seconds` until the scope is closed, and `show (value, error)` after
// each call. `error` is null after a success. After a failure, `value` is that of the last success
// (null before the first).
export function poll({ link, pause }, scope, seconds, load, show) {
  const controller = new AbortController();
  let timer = null;
  let isLoading = false;
  let last = null;
  let delay_s = Math.min(seconds, 1);  // rates need a second answer soon

  async function loadOnce() {
    clearTimeout(timer);
    if (isLoading || scope.isClosed || document.hidden) {
      return;
    }
    if (pause.isOn && last !== null) {
      timer = setTimeout(loadOnce, 500);
      return;
    }
    isLoading = true;
    try {
      last = await load(controller.signal);
      isLoading = false;
      if (!scope.isClosed) {
        show(last, null);
      }
    } catch (error) {
      isLoading = false;
      if (scope.isClosed) {
        return;
      }
      show(last, error);
    }
    timer = setTimeout(loadOnce, delay_s * 1000);
    delay_s = seconds;
  }

  scope.listen(document, "visibilitychange", loadOnce);
  scope.add(link.subscribe(() => link.state === "live" && loadOnce()));
  scope.add(() => {
    clearTimeout(timer);
    controller.abort();
  });
  loadOnce();
}
