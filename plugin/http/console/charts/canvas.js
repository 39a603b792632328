// A canvas with the resolution of the screen. It is drawn at most once per frame, and only while it
// is visible.

import { h } from "../dom.js";

// Calls `draw (context, width, height, colour)` when the size or the theme changes, and after each
// call of the returned function `ask`. `colour ("name")` returns the CSS variable --name.
// `properties` are passed to h().
export function makeCanvas(scope, properties, draw) {
  const element = h("canvas", { class: "plot", ...properties });
  let isAsked = false;

  function drawNow() {
    isAsked = false;
    const width = element.clientWidth;
    const height = element.clientHeight;
    if (scope.isClosed || document.hidden || width === 0 || height === 0) {
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    const [n_columns, n_rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (element.width !== n_columns || element.height !== n_rows) {
      [element.width, element.height] = [n_columns, n_rows];
    }
    const context = element.getContext("2d");
    const style = getComputedStyle(element);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = `11px ${style.getPropertyValue("--sans")}`;
    draw(context, width, height, (name) => style.getPropertyValue(`--${name}`).trim());
  }

  function ask() {
    if (!isAsked && !document.hidden) {
      isAsked = true;
      requestAnimationFrame(drawNow);
    }
  }

  const observer = new ResizeObserver(ask);
  observer.observe(element);
  scope.add(() => observer.disconnect());
  scope.listen(document, "visibilitychange", ask);
  scope.listen(document, "themechange", ask);
  return { element, ask };
}
