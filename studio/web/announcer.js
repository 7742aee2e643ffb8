// Tells a screen reader what happens: the steps politely, what needs a person at once.

import { byId, make } from "./dom.js";
import { argsLine } from "./words.js";

const KEPT = 40; // lines; a reader that comes later hears none of them

const SPOKEN = {
  agent_start: (event) => `The run begins, with ${event.model}.`,
  agent_turn_start: (event) => `Step ${event.step}.`,
  agent_reason: (event) => event.content,
  agent_tool_start: (event) => `${event.tool} ${argsLine(event.args)}`,
  agent_tool_error: (event) => `${event.tool} failed: ${event.message}`,
  agent_diff_preview: (event) => `${event.change_type} ${event.file_path}`,
  agent_notice: (event) => event.content,
  agent_answer: (event) => `Answer: ${event.content}`,
  agent_stopped: () => "The run was stopped.",
  agent_error: (event) => event.message,
  agent_completion: (event) =>
    event.reason === "waiting" ? "" : `The run is over: ${event.reason.replaceAll("_", " ")}.`,
};

export function announcePolitely(event) {
  const words = SPOKEN[event.type]?.(event);
  if (words) say(byId("polite"), words);
}

export const announceAtOnce = (words) => say(byId("assertive"), words);

export function hush() {
  byId("polite").replaceChildren();
  byId("assertive").replaceChildren();
}

function say(region, words) {
  region.append(make("p", {}, words));
  while (region.childElementCount > KEPT) region.firstElementChild.remove();
}
