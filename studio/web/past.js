// The timeline of the thread on show: its steps with calls and files, and where a person went back. A step that is
// picked shows its diff and the conversation up to there; from it one goes back, or begins a new thread.

import { ApiError, forkThread, readTimeline } from "./api.js";
import { countsOf } from "./diff.js";
import { byId, make, setText } from "./dom.js";
import { MoveView } from "./past_move.js";
import { StepOfPast } from "./past_step.js";
import { count, duration, plural } from "./words.js";

const CALLS_SHOWN = 4; // names in a step's line

/** The dialog behind the button at the top. */
export class PastView {
  /** `moved` is told of a move, `forked` of a new thread's id. */
  constructor({ moved, forked }) {
    this.hears = { moved, forked };
    this.thread = null;
    this.step = new StepOfPast({ goBack: (plan) => this.look(plan), fork: (at) => this.fork(at) });
    this.move = new MoveView({ made: (words) => this.made(words), said: (words) => this.say(words) });
    byId("past-button").addEventListener("click", () => this.open());
    byId("past-close").addEventListener("click", () => byId("past").close());
    byId("past-undo").addEventListener("click", () => this.look({ kind: "undo" }));
    byId("past-redo").addEventListener("click", () => this.look({ kind: "redo" }));
  }

  /** The thread on show; null where there is none yet. */
  bind(thread) {
    if (thread === this.thread) return;
    this.thread = thread;
    byId("past-button").hidden = thread === null;
  }

  async open() {
    this.say("");
    this.move.hide();
    this.step.clear();
    byId("past-list").replaceChildren();
    byId("past").showModal();
    await this.show();
  }

  /** Read it anew, and pick the last step. */
  async show() {
    try {
      const { steps, entries } = await readTimeline(this.thread);
      this.last = steps;
      byId("past-list").replaceChildren(beginning(this), ...entries.map((entry) => itemOf(entry, this)));
      await this.pick(steps);
      this.buttonOf(steps)?.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.fail(error);
    }
  }

  async pick(number) {
    for (const each of byId("past-list").querySelectorAll("button"))
      each.setAttribute("aria-pressed", String(each.dataset.step === String(number)));
    try {
      await this.step.show(this.thread, number, this.last);
    } catch (error) {
      this.fail(error);
    }
  }

  buttonOf(number) {
    return byId("past-list").querySelector(`button[data-step="${number}"]`);
  }

  look(plan) {
    this.say("");
    return this.move.look(this.thread, plan);
  }

  async made(words) {
    await this.hears.moved();
    await this.show();
    this.say(words);
    (this.buttonOf(this.last) ?? byId("past-close")).focus();
  }

  async fork(at) {
    this.say("");
    try {
      const { thread_id: id } = await forkThread(this.thread, at);
      byId("past").close();
      await this.hears.forked(id);
    } catch (error) {
      this.fail(error);
    }
  }

  say(words) {
    setText(byId("past-word"), words);
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    this.say(error.message);
  }
}

function beginning(view) {
  return make("li", {}, stepButton(view, 0, "The beginning", "before the first step"));
}

function stepButton(view, number, title, facts) {
  return make(
    "button",
    { type: "button", "data-step": number, "aria-pressed": "false", click: () => view.pick(number) },
    make("span", { class: "badge", "aria-hidden": "true" }, String(number)),
    make("span", { class: "sr-only" }, `Step ${number}: `),
    make("span", { class: "past-title" }, title),
    make("span", { class: "past-facts" }, facts),
  );
}

function itemOf(entry, view) {
  if (entry.type === "move") return make("li", { class: "past-note" }, moveWords(entry));
  const files = entry.files.map(fileLine);
  if (entry.total > files.length) files.push(make("li", {}, `and ${count(entry.total - files.length)} more`));
  const list = files.length ? make("ul", { class: "past-files" }, ...files) : null;
  if (entry.type === "cut_off") return make("li", { class: "past-note" }, "A step was cut off.", list);
  const facts = [`${count(entry.tokens)} tokens`, duration(entry.time_ms)];
  if (!entry.can_go_back) facts.push("pruned");
  return make("li", {}, stepButton(view, entry.number, titleOf(entry), facts.join(" · ")), list);
}

/** The tools it called, or that it gave the answer. */
function titleOf({ calls, observation }) {
  const names = calls.map(({ tool, success }) => (success ? tool : `${tool} failed`));
  if (!names.length) return observation || "answered";
  const more = names.length > CALLS_SHOWN ? `, and ${plural(names.length - CALLS_SHOWN, "more call")}` : "";
  return names.slice(0, CALLS_SHOWN).join(", ") + more;
}

function fileLine({ path, change, added, removed }) {
  const counts = added === null ? [] : countsOf(added, removed);
  return make("li", {}, make("span", { class: "letter" }, change), make("code", { class: "path" }, path), ...counts);
}

function moveWords({ kind, what, step, from_step: from, source }) {
  if (source) return `Forked from step ${step} of another thread.`;
  const parts = what === "both" ? "" : `, ${what} only`;
  return `${kind}: step ${from} → step ${step}${parts}`;
}
