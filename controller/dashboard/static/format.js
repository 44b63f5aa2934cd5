// Amounts and times as people read them.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SUFFIXES = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, m: 1e-3 };
const NUMBER = new Intl.NumberFormat("en");

/** The value of a Kubernetes quantity, or null. */
export function quantity(text) {
  if (typeof text === "number") return text;
  const match = /^([0-9.]+(?:[eE][+-]?[0-9]+)?)([KMGTPE]i|[kMGTPEm])?$/.exec(text ?? "");
  return match ? Number(match[1]) * (match[2] ? SUFFIXES[match[2]] : 1) : null;
}

/** Bytes with at most three digits: `79.6 GiB`. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < BINARY.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${trimmed(left)} ${BINARY[unit]}`;
}

/** Bits per second: `400 Gb/s`. */
export function bits(value) {
  if (value === null || value === undefined) return "–";
  return value >= 1e9 ? `${trimmed(value / 1e9)} Gb/s` : `${trimmed(value / 1e6)} Mb/s`;
}

function trimmed(value) {
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toFixed(1).replace(/\.0$/, "");
}

export function count(value) {
  return NUMBER.format(value);
}

/** `1 node`, `2 nodes`. */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(used, total) {
  return total ? `${Math.round((100 * used) / total)}%` : "–";
}

/** How long ago: `3 min ago`; empty for no time. */
export function ago(text, now = Date.now()) {
  const then = Date.parse(text ?? "");
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** `PoolIncomplete` as `Pool incomplete`; an acronym stays. */
export function words(camelCase) {
  const parts = camelCase.replace(/([a-z0-9])([A-Z])/g, "$1 $2").split(" ");
  return parts.map((part, at) => (at === 0 || /^[A-Z]{2}/.test(part) ? part : part.toLowerCase())).join(" ");
}

/** Orders names with numbers in them as people do: node-9 before node-10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;
