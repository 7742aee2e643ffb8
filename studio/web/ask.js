// What a run asks a person: an approval, a question, or whether to go on at a limit; and the reply.
//
// A reply is `{decision, args?, message?, always?, digest?}`. The banner takes the focus, never a button of it: a key pressed
// for something else must not approve.

import { argsList } from "./calls.js";
import { changesView } from "./changes.js";
import { diffView, proposedDiff } from "./diff.js";
import { button, byId, make } from "./dom.js";
import { fieldsOf } from "./fields.js";

const GO_ON = "go_on"; // the action of the question at a limit
const RESTORE = "restore_files"; // of the one whether files go along with a fork: they have not yet
const TOO_SOON_MS = 700; // an Enter this early was meant for what the person was typing before
const QUIET = new Set([
  "agent_state",
  "agent_usage",
  "agent_completion",
  "agent_notice",
  "agent_request_input_timeout",
]);
const UNITS = {
  max_steps: "steps",
  cost_limit_usd: "US dollars",
  token_limit: "tokens",
  time_limit_s: "seconds",
};

/** The banner above the prompt. */
export class AskView {
  /** `answer(action_id, reply)` sends; it is told of again by `reopen` when that failed. */
  constructor(root, { answer, announce }) {
    this.root = root;
    this.answer = answer;
    this.announce = announce;
    this.clear();
  }

  clear() {
    this.open = null;
    this.diffs = new Map();
    this.hide();
  }

  hear(event, { live = true } = {}) {
    if (event.type === "agent_diff_preview") this.diffs.set(event.call_id, event);
    if (event.type === "agent_approval_request" || event.type === "agent_request_input")
      this.ask(event, live);
    else if (this.open && !QUIET.has(event.type)) this.clear();
  }

  /** Show what is asked; a replay shows it once it is known to stand. */
  ask(event, live) {
    this.open = event;
    if (live) this.show();
  }

  /** Show what the thread waits for: its last request, or the one its checkpoint names. */
  stand(waitingFor) {
    if (!waitingFor) return this.clear();
    if (this.open?.action_id !== waitingFor.action_id) this.open = eventFrom(waitingFor);
    this.show();
  }

  show() {
    if (!this.open || this.shown === this.open) return;
    this.shown = this.open;
    this.since = performance.now();
    this.root.replaceChildren(...bannerOf(this, this.open));
    this.root.hidden = false;
    this.root.classList.remove("flash");
    this.root.getBoundingClientRect(); // a second question flashes again
    this.root.classList.add("flash");
    document.title = "● Your word, please · Lockstitch";
    this.announce(this.root.querySelector("#ask-head").textContent);
    (this.root.querySelector("[data-first]") ?? this.root).focus();
  }

  hide() {
    const within = this.root.contains(document.activeElement);
    this.shown = null;
    this.root.hidden = true;
    this.root.replaceChildren();
    document.title = "Lockstitch";
    if (within) byId("scroll").focus({ preventScroll: true }); // the prompt would open a phone's keyboard
  }

  send(reply) {
    const { action_id: id } = this.open;
    this.hide();
    this.answer(id, reply);
  }

  /** The reply did not arrive: ask again, with the reason. */
  reopen(words) {
    if (!this.open) return;
    this.show();
    this.root.append(make("p", { class: "bad", role: "alert" }, words));
  }

  /** Whether a key may count: it was pressed after the person could see what it answers. */
  seen() {
    return performance.now() - this.since > TOO_SOON_MS;
  }
}

/** A request as a checkpoint keeps it, in the form of its event: older events may be gone. */
function eventFrom(request) {
  const { action_id: id, action_requests: [action], review_configs: [review], question } = request;
  if (question !== undefined) return { type: "agent_request_input", action_id: id, question };
  const { name: tool, args, description: reason } = action;
  return {
    type: "agent_approval_request",
    action_id: id,
    tool,
    args,
    reason,
    allowed_decisions: review.allowed_decisions,
    digest: request.digest ?? "",
    rule: request.rule ?? null,
    changes: request.changes ?? [],
    total: request.total ?? 0,
    diff: request.diff ?? "",
  };
}

function bannerOf(view, event) {
  if (event.type === "agent_request_input") return question(view, event);
  return event.tool === GO_ON ? limit(view, event) : approval(view, event);
}

const head = (words) => make("h2", { id: "ask-head" }, words);
const row = (...children) => make("div", { class: "row" }, ...children);

function question(view, event) {
  const reply = () => view.send({ decision: "respond", message: text.value });
  const text = make("textarea", {
    id: "answer",
    rows: "2",
    "aria-label": "Your answer",
    "data-first": true,
    keydown: (key) => sendOnEnter(key, view, reply),
  });
  const words = make("p", { class: "question" }, event.question);
  return [head("The agent has a question"), words, text, row(button("Answer", reply, { kind: "primary" }))];
}

function sendOnEnter(key, view, reply) {
  if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  if (view.seen()) reply();
}

function approval(view, event) {
  const allowed = new Set(event.allowed_decisions);
  const more = make("div", { class: "more" });
  const choose = (form) => () => more.replaceChildren(...form(view, event));
  const { drawn, others, ran } = changesOf(view, event);
  const approve = (extra) => () => view.send({ decision: "approve", digest: event.digest ?? "", ...extra });
  const buttons = row(
    allowed.has("approve") ? button("Approve", approve({}), { kind: "primary", drawing: "check" }) : null,
    event.rule && allowed.has("approve") ? button("Always allow", approve({ always: true })) : null,
    allowed.has("edit") ? button("Edit …", choose(edit)) : null,
    allowed.has("reject") ? button("Reject …", choose(reject), { kind: "danger" }) : null,
    allowed.has("respond") ? button("Answer for it …", choose(respond)) : null,
  );
  return [
    head(`${event.tool} waits for your word`),
    event.reason ? make("p", { class: "muted" }, event.reason) : null,
    make(
      "div",
      { class: "what", tabindex: "0", role: "region", "aria-label": ran ? "What it has changed" : "What it would do" },
      Object.keys(others).length || !drawn ? argsList(others) : null,
      ran ? make("p", { class: "muted" }, "It ran, and what it changed waits:") : null,
      drawn,
    ),
    event.rule ? make("p", { class: "muted" }, `Always allow writes this rule: ${ruleText(event.rule)}`) : null,
    buttons,
    more,
  ].filter(Boolean);
}

/** What the call would change, or has changed (`ran`), where that is known, and the arguments that it does not show. */
function changesOf(view, { action_id: id, tool, args, changes = [], total, diff, allowed_decisions: allowed }) {
  const told = view.diffs.get(id);
  const proposed = proposedDiff(tool, args);
  if (changes.length)
    return { drawn: changesView({ changes, total, diff }), others: proposed?.others ?? args, ran: tool !== RESTORE && !allowed.includes("edit") };
  if (told) return { drawn: diffView(told), others: args };
  return proposed ? { drawn: diffView(proposed.diff), others: proposed.others } : { drawn: null, others: args };
}

/** The rule as it would stand in policy.toml, in one line. */
const ruleText = (rule) =>
  Object.entries(rule)
    .map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
    .join(", ");

function edit(view, event) {
  const fields = fieldsOf(event.args);
  const save = () => {
    const args = fields.read();
    if (args) view.send({ decision: "edit", args });
  };
  queueMicrotask(() => fields.focus());
  return [fields.element, row(button("Approve as edited", save, { kind: "primary" }))];
}

const reject = (view) => wordsFor(view, "reject", "Why not? The agent is told.", "Reject");
const respond = (view) => wordsFor(view, "respond", "What the agent gets instead of a result", "Send");

function wordsFor(view, decision, label, verb) {
  const send = () => view.send({ decision, message: text.value });
  const text = make("textarea", { rows: "2", keydown: (key) => sendOnEnter(key, view, send) });
  queueMicrotask(() => text.focus());
  return [
    make("label", {}, label, text),
    row(button(verb, send, { kind: decision === "reject" ? "danger" : "primary" })),
  ];
}

function amountOf(name, value) {
  const whole = name === "max_steps" || name === "token_limit";
  const bounds = whole ? { min: 1, step: 1 } : { min: 0.01, step: "any" };
  return make("input", { type: "number", value, required: true, ...bounds });
}

function limit(view, event) {
  const { limit: name, more } = event.args;
  const amount = more ? amountOf(name, more) : null;
  const compact = make("input", { type: "checkbox" });
  const instead = more ? null : make("textarea", { rows: "2" });
  const goOn = () => {
    if (amount && !amount.reportValidity()) return;
    if (instead?.value.trim()) view.send({ decision: "respond", message: instead.value });
    else if (amount)
      view.send({
        decision: "edit",
        args: { ...event.args, more: Number(amount.value), compact: compact.checked },
      });
    else view.send({ decision: "edit", args: { ...event.args, compact: compact.checked } });
  };
  const stop = () => view.send({ decision: "reject", message: "" });
  return [
    head(more ? "The run has met its limit" : "The run goes in a circle"),
    make("p", {}, event.reason),
    instead ? make("label", {}, "What it should do instead (may stay empty)", instead) : null,
    make(
      "div",
      { class: "amounts" },
      amount ? make("label", { class: "short" }, `Go on by (${UNITS[name] ?? name})`, amount) : null,
      make("label", { class: "choice" }, compact, "summarise the older turns first"),
    ),
    row(button("Go on", goOn, { kind: "primary" }), button("Stop and sum up", stop)),
  ].filter(Boolean);
}
