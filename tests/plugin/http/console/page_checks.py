# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Checks of a whole page in JavaScript. Each returns a list of complaints."""

# Finds text with less contrast to its background than WCAG's level AA requires.
LOW_CONTRAST = """
function channels(colour) {
  const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
  return { rgb: [r, g, b], a };
}
function luminance(rgb) {
  const [r, g, b] = rgb.map((each) => each / 255)
    .map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(element) {
  for (let each = element; each; each = each.parentElement) {
    const { rgb, a } = channels(getComputedStyle(each).backgroundColor);
    if (a === 1) return rgb;
  }
  return [255, 255, 255];
}
const found = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !element.checkVisibility()
      || element.closest(".hidden, .skip, noscript")) continue;
  const style = getComputedStyle(element);
  const [high, low] = [luminance(channels(style.color).rgb), luminance(behind(element))]
    .sort((a, b) => b - a);
  const size = parseFloat(style.fontSize);
  const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < least) {
    found.add(`${contrast.toFixed(2)}: ${element.className || element.tagName}`);
  }
}
return [...found];
"""

# Finds controls without a name, cells without a heading, and ids that occur twice.
UNNAMED = """
const found = [];
const name = (element) => (element.getAttribute("aria-label") || element.innerText || element.title
  || [...(element.labels ?? [])].map((label) => label.innerText).join("")
  || document.getElementById(element.getAttribute("aria-labelledby"))?.innerText || "").trim();
for (const element of document.querySelectorAll(
  "a, button, input, summary, nav, dialog, [role=slider], [role=meter], [role=img], .grid")) {
  if (element.checkVisibility() && !name(element)) found.push(element.outerHTML.slice(0, 120));
}
for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0]?.rows.length && !table.querySelector("th[scope]")) {
    found.push(`no heading: ${table.className}`);
  }
}
const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
found.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
if (document.querySelectorAll("h1").length !== 1) found.push("there must be one h1");
if (!document.querySelector("html[lang] main")) found.push("there is no main");
return found;
"""

# Finds elements that extend beyond the right edge of the window, unless an ancestor scrolls.
TOO_WIDE = """
const found = document.documentElement.scrollWidth > innerWidth
  ? [`page: ${document.documentElement.scrollWidth} > ${innerWidth}`] : [];
for (const element of document.querySelectorAll("main *, header *, nav *")) {
  const { right, width } = element.getBoundingClientRect();
  if (width > 0 && right > innerWidth + 1 && element.checkVisibility()
      && !element.closest(".grid-scroller, .figure-table, .stragglers, .hidden")) {
    found.push(`${element.className || element.tagName}: ${Math.round(right)}`);
  }
}
return found;
"""

# TRUE if the focus is visible, on the element or on its label.
FOCUS_IS_SEEN = """
const element = document.activeElement;
return [element, element.nextElementSibling].some((each) => each
  && getComputedStyle(each).outlineStyle !== "none"
  && parseFloat(getComputedStyle(each).outlineWidth) >= 2)
  || element.id === "main" || element === document.body;
"""

# Finds canvases that are blank, or whose resolution is lower than the screen's.
BLANK_CHARTS = """
return [...document.querySelectorAll("canvas")].filter((each) => each.checkVisibility())
  .flatMap((canvas) => {
    const { width, height } = canvas;
    const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    const colours = new Set(new Uint32Array(pixels.buffer));
    const isSharp = Math.abs(width - canvas.clientWidth * devicePixelRatio) <= 1;
    return colours.size > 20 && isSharp ? []
      : [`${canvas.getAttribute("aria-label")}: ${colours.size} colours, ${width} wide`];
  });
"""
