// One step: its badge, the phase it is in, what the model said, its calls, what came of it.

import { CallView } from "./calls.js";
import { make, setText } from "./dom.js";
import { prose } from "./prose.js";
import { count, duration } from "./words.js";

const DRAFT_CHARS = 4_000; // of a reply while it is written: its end is what one reads

/** A step as it goes. */
export class StepView {
  constructor(number) {
    this.number = number;
    this.calls = new Map();
    this.began = null;
    this.figures = make("span", { class: "figures" });
    this.pill = make("span", { class: "pill" });
    const head = make(
      "div",
      { class: "step-head" },
      make("h3", {}, `Step ${number}`),
      this.pill,
      this.figures,
    );
    this.said = make("div", { class: "said-here" });
    this.draft = make("p", { class: "draft", hidden: true });
    this.work = make("div", { class: "work" });
    this.body = make("div", { class: "step-body" }, head, this.said, this.draft, this.work);
    const badge = make("span", { class: "badge", "aria-hidden": "true" }, String(number));
    this.element = make("li", { class: "step" }, badge, this.body);
    this.written = "";
    this.tokens = 0;
  }

  /** The phase it is in; "" when the step is over. */
  enter(phase, time) {
    this.element.dataset.phase = phase;
    this.pill.hidden = !phase;
    this.pill.dataset.phase = phase;
    setText(this.pill, phase === "waiting" ? "waits for you" : phase);
    this.began ??= Date.parse(time);
    if (!phase) this.showFigures(Date.parse(time));
  }

  spend(event) {
    this.tokens += event.input_tokens + event.output_tokens;
  }

  showFigures(ended) {
    const parts = this.tokens ? [`${count(this.tokens)} tokens`] : [];
    if (this.began !== null && ended > this.began) parts.push(duration(ended - this.began));
    setText(this.figures, parts.join(" · "));
  }

  reason(text) {
    this.endDraft();
    this.thought = text.trim();
    if (this.thought) this.said.append(prose(this.thought));
  }

  /** Take back a thought that was the answer: it is shown whole, below. */
  forgetThought(answer) {
    if (this.thought !== answer.trim()) return;
    this.said.lastElementChild?.remove();
    this.note("Gave its answer.");
  }

  write(event) {
    this.written += event.kind === "tool_call" ? "" : event.content;
    this.drafted = event.kind === "tool_call" ? `Prepares a call of ${event.tool || "a tool"} …` : "";
    if (this.drawing) return;
    this.drawing = requestAnimationFrame(() => {
      this.drawing = 0;
      this.draft.hidden = false;
      setText(this.draft, [this.written.slice(-DRAFT_CHARS), this.drafted].filter(Boolean).join("\n"));
    });
  }

  endDraft() {
    cancelAnimationFrame(this.drawing);
    this.drawing = 0;
    this.written = "";
    this.draft.hidden = true;
    setText(this.draft, "");
  }

  note(text) {
    this.work.append(make("p", { class: "note" }, text));
  }

  observe(text) {
    if (!text.trim()) return;
    this.work.append(
      make("div", { class: "observed" }, make("span", { class: "label" }, "Observed"), prose(text)),
    );
  }

  /** The call of that id, begun when it is new. */
  call(id, tool, args = {}) {
    let view = this.calls.get(id);
    if (!view) {
      view = new CallView(tool, args);
      this.calls.set(id, view);
      this.work.append(view.element);
    }
    return view;
  }
}
