// Sets a model's words in type: paragraphs, lists, headings, code. Builds nodes; no HTML is ever read.
//
// Links stay plain text: a model that was misled must not put something to click before a person.

import { make } from "./dom.js";

const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^(#{1,6}) +(.+?)#*$/;
const BULLET = /^ *[-*+] +(.*)$/;
const NUMBER = /^ *\d{1,9}[.)] +(.*)$/;
const WRAPPED_CHARS = 60; // a longer line was broken by its writer's margin, a shorter one on purpose
const INLINE = /(`+)([^`](?:.*?[^`])?)\1(?!`)|\*\*([^*\n]+)\*\*/gs;

/** A block of the text's paragraphs. */
export function prose(text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const block = make("div", { class: "prose" });
  for (let at = 0; at < lines.length;) {
    const [element, next] = blockAt(lines, at);
    if (element) block.append(element);
    at = next;
  }
  return block;
}

function blockAt(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (FENCE.test(line)) return fenced(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return [make("p", { class: "heading" }, ...inline(heading[2])), at + 1];
  if (BULLET.test(line)) return list(lines, at, "ul", BULLET);
  if (NUMBER.test(line)) return list(lines, at, "ol", NUMBER);
  return paragraph(lines, at);
}

function fenced(lines, at) {
  const mark = FENCE.exec(lines[at])[1];
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(mark)) end += 1;
  const code = make("code", {}, lines.slice(at + 1, end).join("\n"));
  return [make("pre", { tabindex: "0" }, code), end + 1];
}

function list(lines, at, name, mark) {
  const items = make(name);
  let next = at;
  while (next < lines.length && mark.test(lines[next])) {
    const words = [mark.exec(lines[next])[1]];
    next += 1;
    while (next < lines.length && /^ {2,}\S/.test(lines[next]) && !isMark(lines[next])) {
      words.push(lines[next].trim());
      next += 1;
    }
    items.append(make("li", {}, ...inline(words.join(" "))));
  }
  return [items, next];
}

function paragraph(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].trim() && (end === at || !isMark(lines[end]))) end += 1;
  return [make("p", {}, ...inline(unwrapped(lines.slice(at, end)))), end];
}

const unwrapped = (lines) =>
  lines.reduce(
    (text, line, place) => `${text}${place && lines[place - 1].length > WRAPPED_CHARS ? " " : "\n"}${line}`,
  );

const isMark = (line) => [FENCE, HEADING, BULLET, NUMBER].some((mark) => mark.test(line));

function inline(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(from, found.index));
    parts.push(found[2] === undefined ? make("strong", {}, found[3]) : make("code", {}, found[2]));
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)].filter((part) => part !== "");
}
