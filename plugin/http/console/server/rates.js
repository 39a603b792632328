// Rates of growing counts, from one answer to the next.

export class Rates {
  #fields;
  #key;
  #before = new Map();
  #before_s = null;

  // `key (row)` identifies a row. `fields` are the names of the counts.
  constructor(key, fields) {
    this.#key = key;
    this.#fields = fields;
  }

  // Adds `rates` to each row: by field, per second since the previous answer. `rates` is null for a
  // new row, for a row without counts, and for all rows of the first answer.
  update(rows, time_s) {
    const elapsed_s = this.#before_s === null ? 0 : time_s - this.#before_s;
    const now = new Map();
    for (const row of rows) {
      const before = this.#before.get(this.#key(row));
      row.rates = {};
      for (const field of this.#fields) {
        const isKnown = before && elapsed_s > 0 && row[field] !== null && before[field] !== null;
        row.rates[field] = isKnown ? Math.max(row[field] - before[field], 0) / elapsed_s : null;
      }
      now.set(this.#key(row), row);
    }
    this.#before = now;
    this.#before_s = time_s;
  }
}
