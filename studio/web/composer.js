// The prompt and how a run is to be made: strategy, mode, steps at most, tools.

import { byId, make, setText } from "./dom.js";
import { plural } from "./words.js";

const ROWS_MOST = 8; // of the prompt, in a browser that does not size a field by itself
const KEPT_AS = "lockstitch.options"; // in this browser alone

/** The form at the foot of the page. */
export class Composer {
  /** `start(prompt, wish)` and `say(text)` send; `stop()` stops. */
  constructor({ start, say, stop }) {
    Object.assign(this, { start, say, running: false, sending: false });
    byId("composer").addEventListener("submit", (event) => this.submit(event));
    byId("prompt").addEventListener("keydown", (event) => this.key(event));
    byId("prompt").addEventListener("input", () => {
      this.refuse("");
      size();
    });
    byId("options").addEventListener("change", () => this.keep());
    byId("stop").addEventListener("click", () => {
      byId("stop").disabled = true; // until the run has come to its end
      stop();
    });
  }

  /** Fill the choices with what the server offers. */
  offer({ strategies, modes, tools, mode, strategy, steps }) {
    const kept = keptOptions();
    fill(byId("strategy"), strategies, kept.strategy ?? strategy);
    fill(byId("mode"), modes, kept.mode ?? mode);
    Object.assign(byId("max-steps"), {
      min: steps.least,
      max: steps.most,
      value: kept.max_steps ?? steps.usual,
    });
    const chosen = new Set(kept.tools ?? []);
    byId("tool-list").replaceChildren(...tools.map((tool) => toolChoice(tool, chosen)));
    byId("tools-some").checked = Array.isArray(kept.tools);
    this.hints = Object.fromEntries([...strategies, ...modes].map(({ name, words }) => [name, words]));
    this.keep();
  }

  /** How the next run is to be made. */
  wish() {
    const boxes = [...byId("tool-list").querySelectorAll("input:checked")];
    return {
      strategy: byId("strategy").value,
      mode: byId("mode").value,
      max_steps: Number(byId("max-steps").value),
      tools: byId("tools-some").checked ? boxes.map((box) => box.value) : null,
    };
  }

  keep() {
    const wish = this.wish();
    const tools = wish.tools === null ? "all tools" : plural(wish.tools.length, "tool");
    byId("tool-list").hidden = wish.tools === null;
    setText(
      byId("options-word"),
      `${wish.strategy} · ${wish.mode} · ${plural(wish.max_steps, "step")} · ${tools}`,
    );
    setText(
      byId("options-hint"),
      [this.hints?.[wish.strategy], this.hints?.[wish.mode]].filter(Boolean).join(" "),
    );
    try {
      localStorage.setItem(KEPT_AS, JSON.stringify(wish));
    } catch {
      // a browser that keeps nothing asks again the next time
    }
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
    if (!text.trim())
      return this.refuse(this.running ? "Write what the run should know." : "Write a prompt first.");
    if (!byId("max-steps").checkValidity()) {
      byId("options").open = true;
      byId("max-steps").reportValidity();
      return;
    }
    await this.send(text);
  }

  /** The text leaves the form when it was taken, and stays when it was not. */
  async send(text) {
    this.sending = true;
    try {
      await (this.running ? this.say(text) : this.start(text, this.wish()));
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

  /** A run goes on, or none does. */
  run(running) {
    this.running = running;
    byId("stop").hidden = !running;
    byId("stop").disabled = false;
    setText(byId("start-word"), running ? "Tell it" : "Start");
    setText(byId("prompt-label"), running ? "Something for the run to know" : "Your prompt");
    byId("prompt").placeholder = running ? "Something for the next step" : "What should be done?";
  }
}

function size() {
  if (CSS.supports("field-sizing", "content")) return;
  byId("prompt").rows = Math.min(ROWS_MOST, byId("prompt").value.split("\n").length);
}

function keptOptions() {
  try {
    return JSON.parse(localStorage.getItem(KEPT_AS)) ?? {};
  } catch {
    return {};
  }
}

function fill(select, choices, chosen) {
  select.replaceChildren(
    ...choices.map(({ name }) => make("option", { value: name, selected: name === chosen }, name)),
  );
}

function toolChoice({ name, words }, chosen) {
  const box = make("input", { type: "checkbox", value: name, checked: chosen.has(name) });
  return make("label", { class: "choice", title: words }, box, name);
}
