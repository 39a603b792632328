// The visible rows of a grid. Two empty rows replace the rows above and below them, and have their
// heights, so that a thousand rows cost as much as forty. aria-rowindex has the position of a row.
//
// One row is active: it receives the focus from the Tab key, and stays active when rows are sorted
// or changed.

import { h, setText } from "../dom.js";

const N_MARGIN = 8;  // additional rows above and below the visible rows

export class RowWindow {
  #columns;
  #key;
  #scroller;
  #table;
  #body;
  #rows = [];
  #activeKey = null;
  // Has one cell, because a colspan would also count hidden columns.
  #above = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td"));
  #below = this.#above.cloneNode(true);

  // `scroller` contains `table`, whose only body this object fills.
  constructor(scope, { columns, key, scroller, table }) {
    this.#columns = columns;
    this.#key = key;
    this.#scroller = scroller;
    this.#table = table;
    [this.#body] = table.tBodies;
    this.#body.append(this.#above, this.#below);
    this.#body.addEventListener("focusin", (event) => this.#activate(event.target));
    scroller.addEventListener("scroll", () => requestAnimationFrame(() => this.#draw()));
    const observer = new ResizeObserver(() => this.#draw());
    observer.observe(scroller);
    scope.add(() => observer.disconnect());
  }

  show(rows) {
    this.#rows = rows;
    this.#draw();
  }

  // Returns the number of the row that contains an element, or undefined.
  rowAt(element) {
    return element.closest("tr")?.at;
  }

  get n_page() {
    return Math.max(Math.floor(this.#scroller.clientHeight / this.#height) - 2, 1);
  }

  // Moves the focus to a row, and scrolls to it if it is not visible.
  goTo(at) {
    const to = Math.min(Math.max(at, 0), this.#rows.length - 1);
    const top = to * this.#height;
    const bottom = top + this.#height + this.#table.tHead.offsetHeight;
    this.#activeKey = this.#key(this.#rows[to]);
    if (top < this.#scroller.scrollTop) {
      this.#scroller.scrollTop = top;
    } else if (bottom > this.#scroller.scrollTop + this.#scroller.clientHeight) {
      this.#scroller.scrollTop = bottom - this.#scroller.clientHeight;
    }
    this.#draw();
    [...this.#body.rows].find((row) => row.at === to)?.focus({ preventScroll: true });
  }

  get #height() {
    return Number.parseFloat(getComputedStyle(this.#scroller).getPropertyValue("--row"));
  }

  #activate(target) {
    const at = this.rowAt(target);
    if (at !== undefined && this.#rows[at]) {
      this.#activeKey = this.#key(this.#rows[at]);
      for (const row of this.#body.querySelectorAll("tr:not(.spacer)")) {
        row.tabIndex = row.at === at ? 0 : -1;
      }
    }
  }

  #draw() {
    const height = this.#height;
    const n_seen = Math.ceil((this.#scroller.clientHeight || 400) / height) + 2 * N_MARGIN;
    const first = Math.max(Math.floor(this.#scroller.scrollTop / height) - N_MARGIN, 0);
    const begin = Math.min(first, Math.max(this.#rows.length - n_seen, 0));
    const end = Math.min(begin + n_seen, this.#rows.length);
    const hadFocus = this.#body.contains(document.activeElement);
    if (!this.#rows.some((row) => this.#key(row) === this.#activeKey)) {
      this.#activeKey = this.#rows.length > 0 ? this.#key(this.#rows[0]) : null;
    }
    this.#above.firstChild.style.height = `${begin * height}px`;
    this.#below.firstChild.style.height = `${(this.#rows.length - end) * height}px`;
    this.#makeRows(end - begin);
    const active = this.#fillRows(begin, end);
    if (hadFocus && active !== document.activeElement) {
      active?.focus({ preventScroll: true });
    }
  }

  #makeRows(n_rows) {
    while (this.#body.rows.length - 2 < n_rows) {
      this.#below.before(h("tr", {}, ...this.#columns.map((column, i) =>
        h(i === 0 ? "th" : "td", { class: column.style, scope: i === 0 ? "row" : null }))));
    }
    while (this.#body.rows.length - 2 > n_rows) {
      this.#below.previousSibling.remove();
    }
  }

  // Fills the elements with rows [begin, end). Returns the element of the active row, or null if it
  // is not among them.
  #fillRows(begin, end) {
    let active = null;
    for (let at = begin; at < end; at += 1) {
      const element = this.#body.rows[at - begin + 1];
      this.#fillRow(element, at);
      active = element.tabIndex === 0 ? element : active;
    }
    // If the active row is not visible, the Tab key needs another row.
    if (active === null && end > begin) {
      this.#body.rows[1].tabIndex = 0;
    }
    return active;
  }

  #fillRow(element, at) {
    const row = this.#rows[at];
    element.at = at;
    element.tabIndex = this.#key(row) === this.#activeKey ? 0 : -1;
    element.setAttribute("aria-rowindex", at + 2);
    this.#columns.forEach((column, i) => {
      if (column.fill) {
        column.fill(element.cells[i], row);
      } else {
        const text = column.text(row);
        setText(element.cells[i], text);
        element.cells[i].title = column.isNumber ? "" : text;
      }
    });
  }
}
