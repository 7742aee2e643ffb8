// The side of a thread: its long-lived processes, which a person may keep beyond their run, or stop.

import { ApiError, actOnProcess, listProcesses } from "./api.js";
import { byId, button, make, setText } from "./dom.js";

const TOOLS = new Set(["start_process", "read_process", "stop_process"]);
const OVER = new Set(["agent_tool_complete", "agent_tool_error"]);
const SETTLE_MS = 200; // after an event: events of the past come in hundreds, and a run ends its processes

/** The processes that this server runs for the thread on show. */
export class ProcessesView {
  clear() {
    clearTimeout(this.waiting);
    this.thread = "";
    this.show([]);
    setText(byId("processes-word"), "");
  }

  hear(event) {
    this.thread = event.thread_id;
    if ((OVER.has(event.type) && TOOLS.has(event.tool)) || event.type === "agent_completion") this.lookSoon();
  }

  lookSoon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.look(), SETTLE_MS);
  }

  /** Whether one may end, or be kept at another door, without an event that says so. */
  get running() {
    return this.processes.some((process) => process.running);
  }

  async look() {
    const { thread } = this;
    try {
      const { processes } = await listProcesses(thread);
      if (thread === this.thread) this.show(processes);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error; // the next look may do better
    }
  }

  /** Drawn anew only where something has changed: a button that has the focus keeps it. */
  show(processes) {
    const drawn = JSON.stringify(processes);
    if (drawn === this.drawn) return;
    Object.assign(this, { processes, drawn });
    byId("processes").hidden = !processes.length;
    byId("process-list").replaceChildren(...processes.map((process) => this.item(process)));
  }

  item(process) {
    const { process_id: id, command, running, kept, working_directory: folder } = process;
    const act = (action) => () => this.act(id, action);
    const named = (word) => make("span", {}, word, make("span", { class: "sr-only" }, ` ${id}`));
    const buttons = [
      running && !kept ? button(named("Keep"), act("keep"), { kind: "small" }) : null,
      running ? button(named("Stop"), act("stop"), { kind: "small" }) : null,
    ];
    return make(
      "li",
      { "data-running": String(running) },
      make("code", { title: `${command}\nin ${folder}` }, command),
      make("span", { class: "muted" }, `${id}: ${standing(process)}`),
      make("span", { class: "process-buttons" }, ...buttons),
    );
  }

  async act(id, action) {
    const { thread } = this;
    setText(byId("processes-word"), "");
    try {
      await actOnProcess(thread, id, action);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (thread === this.thread) setText(byId("processes-word"), error.message);
    }
    await this.look();
    if (document.activeElement === document.body) byId("processes-head").focus(); // its button is gone
  }
}

/** Where it stands, and what becomes of it. */
function standing({ running, kept, exit_code: code }) {
  if (running) return kept ? "runs until the server ends" : "runs, and ends with its run";
  return code === null ? "was ended" : `ended with exit code ${code}`;
}
