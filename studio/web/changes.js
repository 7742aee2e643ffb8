// Draws changed files: a line each with its diff where one is known, as an approval, a step or a move tells them.

import { countsOf, diffView } from "./diff.js";
import { make } from "./dom.js";
import { readPatch } from "./patch.js";
import { count } from "./words.js";

const WORDS = { A: "added", M: "changed", D: "deleted" };

/** Files `[{path, change, added, removed, diff?}]`, of which there are `total`; `diff` is one of several of them. */
export function changesView({ changes, total = changes.length, diff = "" }) {
  const known = new Map(readPatch(diff).map((file) => [file.path, file]));
  const rest = total > changes.length ? make("li", { class: "muted" }, `and ${count(total - changes.length)} more`) : null;
  const items = changes.map((change) => make("li", {}, changeView(change, known.get(change.path) ?? readPatch(change.diff ?? "")[0])));
  const named = new Set(changes.map((change) => change.path));
  const words = [...known.values()].flatMap((file) =>
    file.diff_lines.filter(({ type }) => type === "note" && !named.has(file.path)).map(({ content }) => content),
  );
  const cut = words.length ? make("li", { class: "muted" }, words.join(" ")) : null;
  return make("ul", { class: "changes" }, ...items, rest, cut);
}

function changeView(change, file) {
  const { path, added, removed } = change;
  if (file?.diff_lines.length)
    return diffView({ change_type: WORDS[change.change], file_path: path, diff_lines: file.diff_lines, added, removed });
  return make(
    "span",
    { class: "changed-file" },
    make("span", { class: "change" }, WORDS[change.change]),
    make("code", { class: "path" }, path),
    ...(added === null ? [] : countsOf(added, removed)),
  );
}
