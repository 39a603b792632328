// The filtering and sorting of a grid's rows.

// Returns the rows whose searched text contains all words of `filter`, in upper or lower case.
export function filterRows(rows, columns, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) {
    return rows;
  }
  const searched = columns.filter((column) => column.isSearched);
  return rows.filter((row) => {
    const text = searched.map((column) => column.text(row)).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

const names = new Intl.Collator("en", { numeric: true });

function compare(a, b) {
  if (typeof a === "string" || typeof b === "string") {
    return names.compare(String(a ?? ""), String(b ?? ""));
  }
  return a - b;
}

function isMissing(value) {
  return value === null || value === undefined || Number.isNaN(value);
}

// Returns the rows sorted by the value of a column. Rows without a value always come last. Rows
// with equal values are in the order of their keys, so that a refreshed list does not move.
export function sortRows(rows, column, isDescending, keyOf) {
  const sign = isDescending ? -1 : 1;
  return rows.map((row) => ({ row, value: column.value(row), key: keyOf(row) }))
    .sort((a, b) => {
      if (isMissing(a.value) || isMissing(b.value)) {
        return isMissing(a.value) - isMissing(b.value) || compare(a.key, b.key);
      }
      return sign * compare(a.value, b.value) || compare(a.key, b.key);
    })
    .map(({ row }) => row);
}
