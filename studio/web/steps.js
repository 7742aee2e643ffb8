// The runs of a thread and their steps, drawn from events as they come.

import { button, make, setText } from "./dom.js";
import { prose } from "./prose.js";
import { StepView } from "./step.js";
import { plural } from "./words.js";

export const CUT_OFF = "cut off"; // the end of a run whose server ended: it goes on by itself
const AFTERWORDS = new Set(["agent_usage", "agent_completion"]);
const CONTEXT_MARK = "\nGathered by the agent when this run began"; // what follows it is not the person's
const WELL_ENDED = new Set(["answered", "todos_completed", "finished"]);

/** All that happened in one thread. */
export class StepsView {
  /** `endings` tells what each reason means and whether the thread can go on; `goOn` does it. */
  constructor(root, { endings, goOn }) {
    this.root = root;
    this.endings = endings;
    this.goOn = goOn;
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.run = null;
    this.step = null;
    this.error = "";
  }

  /** A run begins, with what the person said. */
  begin(event) {
    const prompt = (event.prompt ?? "").split(CONTEXT_MARK)[0];
    if (prompt) this.say(prompt);
    else if (!this.run || this.list.childElementCount) this.openRun();
    setText(this.facts, factsOf(event).join(" · "));
  }

  /** What the person said: it stands above the run that it begins. */
  say(text) {
    this.leaveStep();
    this.root.append(
      make("div", { class: "asked" }, make("p", { class: "sr-only" }, "You:"), make("p", {}, text)),
    );
    this.openRun();
  }

  /** What the person said into a run that goes on. */
  sayMeanwhile(text) {
    const words = make("p", { class: "note mine" }, `You, for the next step: ${text}`);
    (this.step?.work ?? this.root).append(words);
  }

  openRun() {
    this.step = null;
    this.error = "";
    this.facts = make("p", { class: "run-facts" });
    this.list = make("ol", { class: "stitches" });
    this.run = make("div", { class: "run" }, make("h2", { class: "sr-only" }, "Run"), this.facts, this.list);
    this.root.append(this.run);
  }

  hear(event) {
    if (!AFTERWORDS.has(event.type)) this.withdraw();
    const draw = DRAWN[event.type];
    if (draw) draw(this, event);
  }

  /** Take back the way on: the thread goes on. */
  withdraw() {
    const line = this.run?.querySelector(".end");
    if (line?.dataset.cut === "") line.remove();
    else line?.querySelector("button")?.remove();
  }

  place(event) {
    if (!this.run) this.openRun();
    if (event.step > 0 && event.step !== this.step?.number) {
      this.leaveStep(event.timestamp);
      this.step = new StepView(event.step);
      this.list.append(this.step.element);
    }
    return this.step;
  }

  leaveStep(time = "") {
    this.step?.endDraft();
    this.step?.enter("", time);
    this.step = null;
  }

  note(event) {
    const step = this.place(event);
    if (step) step.note(event.content);
    else this.run.insertBefore(make("p", { class: "note" }, event.content), this.list);
  }

  answer(text) {
    this.step?.forgetThought(text);
    if (this.error && text.includes(this.error)) return;
    this.run.append(
      make("div", { class: "answer" }, make("h3", { class: "sr-only" }, "Answer"), prose(text)),
    );
  }

  fail(message) {
    this.error = message;
    this.run.append(make("p", { class: "failure", role: "note" }, message));
  }

  end(event) {
    if (event.reason === "waiting") return; // its step goes on with the answer
    this.leaveStep(event.timestamp);
    const { meaning = "", can_go_on: canGoOn = false } = this.endings[event.reason] ?? {};
    this.close({ reason: event.reason, words: `${plural(event.steps, "step")}; ${meaning}.`, canGoOn });
  }

  /** The line under a run that is over, with the way on where there is one. */
  close({ reason, words, canGoOn }) {
    if (!this.run) this.openRun();
    this.step?.endDraft();
    this.step?.enter("", ""); // it may go on, as the same step
    this.run.querySelector(".end")?.remove();
    const line = make("div", {
      class: "end",
      "data-well": WELL_ENDED.has(reason),
      "data-cut": reason === CUT_OFF,
    });
    line.append(make("strong", {}, reason.replaceAll("_", " ")), make("span", {}, words));
    if (canGoOn) line.append(button("Go on", () => this.goOn(line), { kind: "small", drawing: "open" }));
    this.run.append(line);
  }
}

function factsOf({ model, strategy, mode, max_steps: most }) {
  return [model, strategy, `mode ${mode}`, ...(most ? [`at most ${plural(most, "step")}`] : [])];
}

const DRAWN = {
  agent_start: (view, event) => view.begin(event),
  agent_turn_start: (view, event) => view.place(event),
  agent_state(view, event) {
    const over = ["completed", "error", "cancelled", "idle"].includes(event.state);
    view.place(event)?.enter(over ? "" : event.state, event.timestamp);
  },
  agent_context: (view, event) => view.note(event),
  agent_notice: (view, event) => view.note(event),
  agent_reason: (view, event) => view.place(event)?.reason(event.content),
  agent_delta: (view, event) => view.place(event)?.write(event),
  agent_usage: (view, event) => view.place(event)?.spend(event),
  agent_tool_start(view, event) {
    const step = view.place(event);
    step?.endDraft();
    if (step?.calls.has(event.call_id)) step.call(event.call_id).restart(event.args);
    else step?.call(event.call_id, event.tool, event.args);
  },
  agent_tool_progress: (view, event) =>
    view.place(event)?.call(event.call_id, event.tool).report(event.content),
  agent_tool_complete: (view, event) => view.place(event)?.call(event.call_id, event.tool).complete(event),
  agent_tool_error: (view, event) => view.place(event)?.call(event.call_id, event.tool).fail(event),
  agent_diff_preview: (view, event) => view.place(event)?.call(event.call_id, "").addDiff(event),
  agent_approval_request(view, event) {
    if (event.tool === "go_on") return;
    view.place(event)?.endDraft();
    view.step?.call(event.action_id, event.tool, event.args).become("waiting");
  },
  agent_request_input(view, event) {
    const args = { question: event.question };
    view.place(event)?.endDraft();
    view.step?.call(event.action_id, "request_input", args).become("waiting");
  },
  agent_observe: (view, event) => view.place(event)?.observe(event.content),
  agent_answer(view, event) {
    view.place(event)?.endDraft();
    view.answer(event.content);
  },
  agent_error(view, event) {
    view.place(event);
    view.fail(event.message);
  },
  agent_completion(view, event) {
    view.place(event);
    view.end(event);
  },
};
