// The page: puts its parts together and tells each what happens. The thread on show is in the address.

import { announceAtOnce, announcePolitely, hush } from "./announcer.js";
import { ApiError, readOptions, readPresets } from "./api.js";
import { AskView } from "./ask.js";
import { Choices } from "./choices.js";
import { Composer } from "./composer.js";
import { byId, button, make, setText } from "./dom.js";
import { TodoView, TotalsView } from "./facts.js";
import { PastView } from "./past.js";
import { CUT_OFF, StepsView } from "./steps.js";
import { ProcessesView } from "./processes.js";
import { Thread } from "./thread.js";
import { ThreadList } from "./threads.js";
import { openDrawers } from "./drawers.js";
import { followEnd } from "./scroll.js";
import { folder } from "./words.js";

const IDEAS = [
  "What does this project do?",
  "Run the tests and tell me what fails.",
  "Find a bug and fix it.",
];
const SCRIPTED_IDEAS = ["Find out why the tests fail, and fix it."];
const LOOK_MS = 4_000; // between two looks at what other doors do; a run's own events come at once
const ANSWERED_ELSEWHERE = new Set(["not_waiting", "other_action"]);

const toEnd = followEnd(byId("scroll"), byId("to-end"));
const list = new ThreadList();
const drawers = openDrawers();
const thread = new Thread({
  opened,
  event: hear,
  running: (running, runBy) => composer.run(running, runBy),
  rests,
  lost,
  connected: () => (byId("connection").hidden = true),
  failed: (error) => strip(error.message),
});
const choices = new Choices();
const composer = new Composer({ start, say, stop: () => thread.stop(), check: () => choices.check() });
const ask = new AskView(byId("ask"), { answer, announce: announceAtOnce });
const steps = new StepsView(byId("steps"), { endings: {}, goOn });
const processes = new ProcessesView();
const past = new PastView({ moved, forked });
const views = [steps, new TodoView(), processes, new TotalsView()];

function hear(event, { live }) {
  for (const view of views) view.hear(event);
  ask.hear(event, { live });
  if (live) {
    announcePolitely(event);
    byId("connection").hidden = true;
  }
  if (event.type === "agent_state") phase(event.state);
  if (event.type === "agent_start") choices.bind(event.workspace);
  past.bind(event.thread_id);
  if (live && (event.type === "agent_start" || event.type === "agent_completion")) list.refresh();
  byId("welcome").hidden = true;
}

function phase(state) {
  byId("phase").dataset.phase = state;
  setText(byId("phase"), state === "waiting" ? "waits for you" : state);
}

function clear() {
  for (const view of views) view.clear();
  ask.clear();
  past.bind(null);
  hush();
  phase("idle");
  setText(byId("title"), "New thread");
  byId("connection").hidden = true;
}

/** A thread that is there was opened; its events follow. */
function opened(view) {
  clear();
  byId("welcome").hidden = true;
  setText(byId("title"), view.title);
  past.bind(view.thread_id);
  choices.bind(view.workspace);
}

/** The thread waits, is over, or was cut off when its server ended. */
function rests(view) {
  ask.stand(view.waiting_for);
  if (view.unfinished) {
    steps.close({
      reason: CUT_OFF,
      words: "Its process ended in the middle of a run. Nothing recorded is lost.",
      canGoOn: true,
    });
  }
  phase(view.waiting_for ? "waiting" : view.unfinished ? CUT_OFF : view.phase);
}

async function start(prompt) {
  await thread.start(prompt, choices.wish());
  toEnd();
  if (location.hash !== `#${thread.id}`) {
    history.pushState(null, "", `#${thread.id}`);
    setText(byId("title"), prompt.trim().split("\n")[0]);
    list.mark(thread.id);
  }
}

function say(text) {
  thread.say(text);
  steps.sayMeanwhile(text);
  toEnd();
}

async function goOn() {
  try {
    await thread.goOn(choices.wish());
  } catch (error) {
    strip(error.message);
  }
}

/** The thread went back or forth: it is read anew. */
async function moved() {
  await Promise.all([thread.open(thread.id), list.refresh()]);
}

async function forked(id) {
  await list.refresh();
  location.hash = `#${id}`;
}

async function answer(actionId, reply) {
  toEnd();
  try {
    await thread.answer(actionId, reply);
  } catch (error) {
    if (ANSWERED_ELSEWHERE.has(error.code)) await thread.open(thread.id);
    else ask.reopen(error.message);
  }
}

function lost(inMs, again) {
  const words = `The connection is lost; the run goes on. Next try in ${Math.ceil(inMs / 1_000)} s. `;
  strip(words, button("Try now", again, { kind: "small" }));
}

function strip(words, ...more) {
  byId("connection").replaceChildren(make("span", {}, words), ...more);
  byId("connection").hidden = false;
}

/** Show what the address names: a thread, or the place to begin one. */
async function show() {
  drawers.close();
  const id = location.hash.slice(1);
  if (id && id === thread.id) return;
  list.mark(id);
  if (!id) return welcome();
  try {
    await thread.open(id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    clear();
    strip(error.message, error.code === "" ? button("Try again", show, { kind: "small" }) : "");
  }
}

function welcome() {
  thread.forget();
  clear();
  choices.bind(null);
  composer.run(false);
  byId("welcome").hidden = false;
  if (matchMedia("(pointer: fine)").matches) byId("prompt").focus({ preventScroll: true });
}

function offer(options, presets) {
  steps.endings = options.endings;
  choices.offer(options, presets);
  setText(byId("welcome-folder"), folder(options.workspace));
  byId("welcome-folder").title = options.workspace;
  byId("scripted").hidden = !options.demo;
  const ideas = (options.demo ? SCRIPTED_IDEAS : IDEAS).map((words) =>
    make(
      "li",
      {},
      button(words, () => composer.suggest(words), { kind: "idea" }),
    ),
  );
  byId("ideas").replaceChildren(...ideas);
}

/** What other doors did meanwhile: to the list, and to the thread on show. */
async function lookAround() {
  const threads = await list.refresh();
  const shown = threads.find((each) => each.thread_id === thread.id);
  if (shown) await thread.notice(shown);
  if (processes.running) await processes.look();
}

async function begin() {
  try {
    offer(...(await Promise.all([readOptions(), readPresets()])));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    strip(
      error.message,
      button("Try again", () => location.reload(), { kind: "small" }),
    );
    return;
  }
  window.addEventListener("hashchange", show);
  document.addEventListener("visibilitychange", () => document.hidden || lookAround());
  setInterval(() => document.hidden || lookAround(), LOOK_MS);
  await Promise.all([list.refresh(), show()]);
}

clear();
begin();
