// One tool call of a step: its line, its arguments, what it said, the diffs it made.

import { diffView } from "./diff.js";
import { icon, make, setText } from "./dom.js";
import { argsLine, asText, duration, plural } from "./words.js";

const DRAWINGS = { running: "turn", waiting: "pause", done: "check", nonzero: "bang", failed: "cross" };
const SPOKEN = {
  running: "running",
  waiting: "waits for you",
  done: "done",
  nonzero: "done",
  failed: "failed",
};

/** A call as it goes. */
export class CallView {
  constructor(tool, args) {
    this.tool = tool;
    this.mark = make("span", { class: "call-mark" });
    this.figures = make("span", { class: "figures" });
    this.inside = make("div", { class: "call-body" }, argsList(args));
    const line = make("span", { class: "call-args" }, argsLine(args));
    const head = make("summary", {}, this.mark, make("code", { class: "tool" }, tool), line, this.figures);
    this.details = make("details", { class: "call" }, head, this.inside);
    this.element = make("div", { class: "call-frame" }, this.details);
    this.progress = null;
    this.become("running");
  }

  become(state) {
    this.details.dataset.state = state;
    this.mark.replaceChildren(
      icon(DRAWINGS[state]),
      make("span", { class: "sr-only" }, `${SPOKEN[state]}: `),
    );
  }

  /** New arguments: a person edited them. */
  restart(args) {
    this.inside.replaceChildren(argsList(args));
    setText(this.details.querySelector(".call-args"), argsLine(args));
    this.become("running");
  }

  report(words) {
    this.progress ??= this.inside.appendChild(make("p", { class: "muted" }));
    setText(this.progress, words);
  }

  complete(event) {
    this.become(event.data.exit_code ? "nonzero" : "done"); // an exit code is a result, too
    setText(this.figures, `${sizeWords(event)} · ${duration(event.time_ms)}`);
    this.finish(event.result, "Result");
  }

  fail(event) {
    this.become("failed");
    setText(this.figures, duration(event.time_ms));
    this.finish(event.message, "Error");
    this.details.open = true;
  }

  finish(text, title) {
    this.progress?.remove();
    this.progress = null;
    this.inside.append(make("p", { class: "label" }, title), textBox(text, `${title} of ${this.tool}`));
  }

  addDiff(event) {
    this.element.append(diffView(event));
  }
}

function sizeWords(event) {
  if (Number.isInteger(event.data.exit_code)) return `exit ${event.data.exit_code}`;
  return plural(event.result.trimEnd().split("\n").length, "line");
}

/** Arguments, a row each; long ones in a box of their own. */
export function argsList(args) {
  const rows = Object.entries(args).flatMap(([name, value]) => {
    const text = asText(value);
    const long = text.includes("\n") || text.length > 200;
    return [make("dt", {}, name), make("dd", {}, long ? textBox(text, name) : make("code", {}, text))];
  });
  return rows.length
    ? make("dl", { class: "args" }, ...rows)
    : make("p", { class: "muted" }, "No arguments.");
}

function textBox(text, label) {
  return make("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
}
