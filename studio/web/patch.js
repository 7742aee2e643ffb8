// Reads a unified diff. Touches no page.
//
// What is a header and what a changed line is told by the counts of each hunk: a file's own text may look like either.

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const TYPES = { " ": "context", "+": "add", "-": "remove" };

/** The files of a diff: `[{path, diff_lines: [{line_number, type, content}]}]`; `note` is a line that is none of theirs. */
export function readPatch(text) {
  const reader = { files: [], file: null, old: 0, fresh: 0, number: 0 };
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (reader.old > 0 || reader.fresh > 0) inHunk(reader, line);
    else between(reader, line);
  }
  return reader.files.filter((file) => file.path || file.diff_lines.length);
}

/** A line of a hunk; what has no sign is a word on where the diff was cut. */
function inHunk(reader, line) {
  const type = TYPES[line[0]];
  if (!type) {
    if (!line.startsWith("\\")) reader.old = reader.fresh = 0;
    return note(reader, line);
  }
  if (type !== "add") reader.old -= 1;
  if (type !== "remove") reader.fresh -= 1;
  reader.file.diff_lines.push({ line_number: reader.number, type, content: line.slice(1) });
  if (type !== "remove") reader.number += 1;
}

function between(reader, line) {
  const hunk = HUNK.exec(line);
  if (hunk && reader.file) {
    const [, , old = "1", start, fresh = "1"] = hunk;
    Object.assign(reader, { old: Number(old), fresh: Number(fresh), number: Number(start) });
  } else if (line.startsWith("diff --git ")) open(reader);
  else if (line.startsWith("--- ")) {
    if (!reader.file || reader.file.path) open(reader);
    reader.file.path = pathOf(line);
  } else if (line.startsWith("+++ ")) reader.file.path = pathOf(line) || reader.file.path;
  else if (line) note(reader, line);
}

function open(reader) {
  reader.file = { path: "", diff_lines: [] };
  reader.files.push(reader.file);
}

function note(reader, line) {
  if (!reader.file) open(reader);
  reader.file.diff_lines.push({ line_number: "", type: "note", content: line });
}

/** The path behind `--- a/` or `+++ b/`; "" for /dev/null. */
function pathOf(line) {
  const path = line.slice(4);
  return path === "/dev/null" ? "" : path.slice(2);
}
