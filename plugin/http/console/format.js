// Numbers as text: three significant digits, thousands separated by commas, always with units.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-CA", {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  second: "2-digit", hour12: false,
});

export const NONE = "–";

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Formats a value below 1,000 with three significant digits: 0.12, 1.23, 12.3, 123.
function threeDigits(value) {
  const size = Math.abs(value);
  if (size < 9.995) {
    return value.toFixed(size < 0.0995 && size > 0 ? 3 : 2);
  }
  return value.toFixed(size < 99.95 ? 1 : 0);
}

function scaled(value, units, factor) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= factor * 0.9995) {
    value /= factor;
    unit += 1;
  }
  return { value, unit };
}

// Formats an exact count: 1,234,567.
export function formatCount(value) {
  return isNumber(value) ? whole.format(value) : NONE;
}

// Formats a number with its noun: "1 stream", "2 streams".
export function formatPlural(value, noun) {
  return `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;
}

// Formats a number that need not be exact: 812, 1.23 k, 45.6 M.
export function formatNumber(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  const part = scaled(value, ["", " k", " M", " G", " T"], 1000);
  if (part.unit === 0) {
    return Number.isInteger(value) ? String(value) : threeDigits(value);
  }
  return threeDigits(part.value) + [" k", " M", " G", " T"][part.unit - 1];
}

export function formatRate(value) {
  return isNumber(value) ? `${formatNumber(value)}/s` : NONE;
}

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function formatBytes(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  const part = scaled(value, BYTES, 1024);
  const digits = part.unit === 0 ? whole.format(part.value) : threeDigits(part.value);
  return `${digits} ${BYTES[part.unit]}`;
}

export function formatByteRate(value) {
  return isNumber(value) ? `${formatBytes(value)}/s` : NONE;
}

// Formats milliseconds as µs, ms or s.
export function formatMs(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  if (value === 0) {
    return "0 ms";
  }
  if (Math.abs(value) < 0.9995) {
    return `${threeDigits(value * 1000)} µs`;
  }
  return Math.abs(value) < 999.5 ? `${threeDigits(value)} ms` : formatSeconds(value / 1000);
}

// Formats a duration in words: 1.25 s, 30 s, 3 min 20 s, 5 h 12 min, 12 d 4 h.
export function formatSeconds(value) {
  if (!isNumber(value)) {
    return NONE;
  }
  if (value < 99.95) {
    return `${Number.isInteger(value) ? value : threeDigits(Math.max(value, 0))} s`;
  }
  const seconds = Math.round(value);
  const steps = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
  const [large, largeUnit, small, smallUnit] = steps.find(([step]) => seconds >= step);
  return `${Math.floor(seconds / large)} ${largeUnit} `
    + `${Math.floor((seconds % large) / small)} ${smallUnit}`;
}

// Formats a number for an axis: without trailing zeros after the point.
export function formatTick(text) {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

// Splits a text of this module into number and unit: ["1.23", "MiB/s"].
export function splitUnit(text) {
  const at = text.search(/[^\d.,–-]/);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at).trim()];
}

export function formatPercent(share) {
  if (!isNumber(share)) {
    return NONE;
  }
  const percent = share * 100;
  if (percent > 0 && percent < 0.05) {
    return "< 0.1 %";
  }
  return `${percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

// These functions use the reader's time zone. `time_s` counts from 1970.
export function formatClock(time_s) {
  return isNumber(time_s) ? clock.format(time_s * 1000) : NONE;
}

export function formatMinutes(time_s) {
  return minutes.format(time_s * 1000);
}

export function formatDay(time_s) {
  return isNumber(time_s) ? day.format(time_s * 1000).replace(",", "") : NONE;
}

export function formatYes(value) {
  return typeof value === "boolean" ? (value ? "yes" : "no") : NONE;
}

export function formatText(value) {
  return value === null || value === undefined || value === "" ? NONE : String(value);
}

// Formats at most `n_most` of many numbers: "5, 7, 12".
export function formatList(values, n_most, n_all = values.length) {
  const shown = values.slice(0, n_most).join(", ");
  return n_all > Math.min(values.length, n_most)
    ? `${shown} and ${whole.format(n_all - Math.min(values.length, n_most))} more` : shown;
}
