// One step of the timeline: what it changed in files, the conversation up to there, and the ways from it.

import { readDiff, readSteps, readThread } from "./api.js";
import { changesView } from "./changes.js";
import { button, byId, make } from "./dom.js";
import { pastEvents } from "./history.js";
import { StepsView } from "./steps.js";

const WHATS = [
  ["both", "files and conversation"],
  ["files", "files alone"],
  ["conversation", "conversation alone"],
];

/** The right side of the timeline. */
export class StepOfPast {
  constructor({ goBack, fork }) {
    Object.assign(this, { goBack, fork });
  }

  clear() {
    this.number = null;
    byId("past-step").replaceChildren(make("h3", { id: "past-step-head" }, "Reads the timeline …"));
  }

  /** Show step `number` of `last` steps. Throws ApiError. */
  async show(thread, number, last) {
    this.number = number;
    const [view, steps, diff] = await Promise.all([
      readThread(thread),
      readSteps(thread),
      number ? readDiff(thread, number - 1, number) : { files: [], total: 0 },
    ]);
    if (number !== this.number) return; // another one was picked meanwhile
    const talk = make("div", { class: "past-talk" });
    byId("past-step").replaceChildren(
      make("h3", { id: "past-step-head" }, number ? `After step ${number}` : "The beginning"),
      this.ways(number, last),
      make("h4", {}, "What it changed"),
      ...filesOf(diff, number),
      make("h4", {}, "The conversation up to here"),
      talk,
    );
    byId("past-step").scrollTop = 0;
    tell(talk, { ...view, unfinished: true }, steps.slice(0, number));
  }

  ways(number, last) {
    const what = make("select", {}, ...WHATS.map(([value, words]) => make("option", { value }, words)));
    const back = () => this.goBack({ kind: "rewind", to: number, what: what.value });
    return make(
      "div",
      { class: "row" },
      make("label", { class: "past-what" }, make("span", { class: "sr-only" }, "What goes back"), what),
      button(number === last ? "Restore this step …" : "Go back to here …", back, { kind: "small primary" }),
      button("Fork from here", () => this.fork(number), { kind: "small" }),
    );
  }
}

function filesOf({ files, total }, number) {
  if (!files.length) return [make("p", { class: "muted" }, number ? "No file." : "Nothing yet.")];
  const cut = files.some((file) => file.cut) ? make("p", { class: "muted" }, "The diff is longer than this.") : null;
  return [changesView({ changes: files, total }), cut].filter(Boolean);
}

/** Draw the records as the steps of the thread are drawn, without ways to go on. */
function tell(root, view, steps) {
  if (!steps.length) return root.append(make("p", { class: "muted" }, "Nothing was said yet."));
  const drawn = new StepsView(root, { endings: {}, goOn() {} });
  for (const event of pastEvents(view, steps, [])) drawn.hear(event);
  drawn.leaveStep();
}
