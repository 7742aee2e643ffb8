// The prompt: what begins a run, or is told to one that goes on.

import { byId, setText } from "./dom.js";

const ROWS_MOST = 8; // of the prompt, in a browser that does not size a field by itself
const ELSEWHERE = "It runs at another door: wait until it ends, or stop it there.";

/** The form at the foot of the page. */
export class Composer {
  /** `start(prompt)` and `say(text)` send; `stop()` stops; `check()` is whether a run can be begun. */
  constructor({ start, say, stop, check }) {
    Object.assign(this, { start, say, check, running: false, runBy: "", sending: false });
    byId("composer").addEventListener("submit", (event) => this.submit(event));
    byId("prompt").addEventListener("keydown", (event) => this.key(event));
    byId("prompt").addEventListener("input", () => {
      this.refuse("");
      size();
    });
    byId("stop").addEventListener("click", () => {
      byId("stop").disabled = true; // until the run has come to its end
      stop();
    });
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer").requestSubmit();
  }

  async submit(event) {
    event.preventDefault();
    const text = byId("prompt").value;
    if (this.sending) return;
    if (this.runBy) return this.refuse(ELSEWHERE);
    if (!text.trim())
      return this.refuse(this.running ? "Write what the run should know." : "Write a prompt first.");
    if (!this.running && !this.check()) return;
    await this.send(text);
  }

  /** The text leaves the form when it was taken, and stays when it was not. */
  async send(text) {
    this.sending = true;
    try {
      await (this.running ? this.say(text) : this.start(text));
      byId("prompt").value = "";
      size();
      byId("options").open = false;
    } catch (error) {
      this.refuse(error.message);
    } finally {
      this.sending = false;
    }
  }

  /** Put a prompt into the form, for the person to change or send. */
  suggest(text) {
    byId("prompt").value = text;
    byId("prompt").focus();
  }

  refuse(words) {
    setText(byId("prompt-error"), words);
    byId("prompt").toggleAttribute("aria-invalid", Boolean(words));
  }

  /** A run goes on, or none does; `runBy` says who runs it at another door, where it can only be read. */
  run(running, runBy = "") {
    Object.assign(this, { running, runBy });
    byId("stop").hidden = !running || Boolean(runBy);
    byId("stop").disabled = false;
    byId("start").disabled = Boolean(runBy);
    byId("elsewhere").hidden = !runBy;
    setText(byId("elsewhere-word"), runBy.replace(/^.*\bwritten by /, ""));
    this.refuse("");
    setText(byId("start-word"), running && !runBy ? "Tell it" : "Start");
    setText(byId("prompt-label"), running ? "Something for the run to know" : "Your prompt");
    byId("prompt").placeholder = running && !runBy ? "Something for the next step" : "What should be done?";
  }
}

function size() {
  if (CSS.supports("field-sizing", "content")) return;
  byId("prompt").rows = Math.min(ROWS_MOST, byId("prompt").value.split("\n").length);
}
