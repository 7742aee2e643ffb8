// Draws what a call changed, or would change, in one file.

import { icon, make } from "./dom.js";
import { count } from "./words.js";

const LINES_SHOWN = 60; // a screen and a half; the rest on request
const SIGNS = { add: "+", remove: "−", context: " ", note: " " };
const SPOKEN = { add: "added", remove: "removed" };

/** The diff under the line that names its file; its lines are counted where `added` and `removed` are not known. */
export function diffView(event) {
  const lines = (type) => event.diff_lines.filter((line) => line.type === type).length;
  const head = make(
    "summary",
    {},
    icon("open"),
    make("span", { class: "change" }, event.change_type),
    make("code", { class: "path" }, event.file_path),
    ...countsOf(event.added ?? lines("add"), event.removed ?? lines("remove")),
  );
  return make("details", { class: "diff", open: true }, head, body(event));
}

/** How many lines came and went. */
export const countsOf = (added, removed) => [
  make("span", { class: "added" }, `+${count(added)}`),
  make("span", { class: "removed" }, `−${count(removed)}`),
];

/** What a call would change, as its arguments have it, and the arguments beside; null where they do not say.
 *
 * Where in the file that stands is not known before the call: its lines carry no numbers.
 */
export function proposedDiff(tool, args) {
  const { path: file_path = "", old_text: old, new_text: fresh, content, ...others } = args;
  const lines = (text, type) =>
    text.split("\n").map((line) => ({ line_number: "", type, content: line }));
  if (tool === "edit_file" && typeof old === "string" && typeof fresh === "string") {
    const diff_lines = [...lines(old, "remove"), ...lines(fresh, "add")];
    return { diff: { change_type: "modify", file_path, diff_lines }, others };
  }
  if (tool === "write_file" && typeof content === "string")
    return { diff: { change_type: "write", file_path, diff_lines: lines(content, "add") }, others };
  return null;
}

function body(event) {
  const lines = event.diff_lines;
  if (!lines.length) return make("p", { class: "muted" }, "No line changed.");
  const rows = make("tbody", {}, ...rowsOf(lines.slice(0, LINES_SHOWN), 0));
  const table = make(
    "table",
    {},
    make("caption", { class: "sr-only" }, `Changes in ${event.file_path}`),
    rows,
  );
  const label = `Changes in ${event.file_path}`;
  const frame = make(
    "div",
    { class: "diff-lines", tabindex: "0", role: "region", "aria-label": label },
    table,
  );
  if (lines.length > LINES_SHOWN) frame.append(rest(lines, rows));
  return frame;
}

function rest(lines, rows) {
  const show = () => {
    rows.append(...rowsOf(lines.slice(LINES_SHOWN), lines[LINES_SHOWN - 1].line_number));
    more.remove();
  };
  const words = `Show ${count(lines.length - LINES_SHOWN)} more lines`;
  const more = make("button", { type: "button", class: "button small", click: show }, words);
  return more;
}

function rowsOf(lines, before) {
  const rows = [];
  let last = before;
  for (const line of lines) {
    if (line.type !== "remove" && last && line.line_number > last + 1) rows.push(gap());
    if (line.type === "add" || line.type === "context") last = line.line_number;
    rows.push(row(line));
  }
  return rows;
}

const gap = () => make("tr", { class: "gap", "aria-hidden": "true" }, make("td", { colspan: "3" }, "⋯"));

function row(line) {
  const sign = make("span", { "aria-hidden": "true" }, SIGNS[line.type]);
  const spoken = SPOKEN[line.type] ? make("span", { class: "sr-only" }, SPOKEN[line.type]) : null;
  return make(
    "tr",
    { class: line.type },
    make("td", { class: "number" }, String(line.line_number)),
    make("td", { class: "sign" }, sign, spoken),
    make("td", { class: "text" }, line.content),
  );
}
