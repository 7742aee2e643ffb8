// The fields of a form in which a person edits the arguments of a call.

import { make } from "./dom.js";
import { asText } from "./words.js";

/** A form of `args`: texts as they are, everything else as JSON. */
export function fieldsOf(args) {
  const fields = Object.entries(args).map(([name, value]) => ({ name, value, box: boxOf(value) }));
  const labels = fields.map(({ name, box }) => make("label", {}, name, box));
  return {
    element: make("div", { class: "fields" }, ...labels),
    focus: () => fields[0]?.box.focus(),
    /** The arguments as they now are; null, and the field told, where one is no JSON. */
    read: () => readAll(fields),
  };
}

function boxOf(value) {
  const box = make("textarea", {
    rows: String(Math.min(12, asText(value).split("\n").length)),
    spellcheck: "false",
  });
  box.value = asText(value);
  box.addEventListener("input", () => box.setCustomValidity(""));
  return box;
}

function readAll(fields) {
  const read = {};
  for (const { name, value, box } of fields) {
    try {
      read[name] = typeof value === "string" ? box.value : JSON.parse(box.value);
    } catch {
      box.setCustomValidity('This is no JSON: a number, true, false, null, [ ... ], { ... } or "text".');
      box.reportValidity();
      return null;
    }
  }
  return read;
}
