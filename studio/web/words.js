// How numbers, times and calls are worded. Touches no page.

import { oneLine } from "./visible.js";

const VALUE_CHARS = 60; // of one argument in a call's line
const WHOLE = new Intl.NumberFormat("en");
const AGES = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
]; // seconds each
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export const count = (number) => WHOLE.format(number);

export const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

/** US dollars; a price that nobody knows is said to be unknown. */
export function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  return `$${usd.toFixed(usd > 0 && usd < 1 ? 4 : 2)}`;
}

export function duration(ms) {
  if (ms < 1_000) return `${Math.max(1, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

/** How long ago an ISO 8601 time was, to the largest unit. */
export function ago(time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1_000);
  const [unit, size] = AGES.find(([, each]) => seconds >= each) ?? ["now", 1];
  return unit === "now" ? "just now" : AGO.format(-Math.floor(seconds / size), unit);
}

/** A value of a call's arguments as text. */
export const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A call's arguments in one line: `path=src/a.py limit=20`; a single one stands without its name. */
export function argsLine(args) {
  const pairs = Object.entries(args).map(([name, value]) => [name, oneLine(asText(value), VALUE_CHARS)]);
  if (pairs.length === 1) return pairs[0][1];
  return pairs.map(([name, text]) => `${oneLine(name, VALUE_CHARS)}=${text}`).join("  ");
}

/** The last folder of a path. */
export const folder = (path) => path.split(/[\\/]/).filter(Boolean).pop() ?? path;
