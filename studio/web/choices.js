// How the next run is to be made: strategy, mode, steps at most, model, preset, workspace, tools.
//
// What is left at the server's own setting is not sent, so that a changed setting counts at once. Choices are
// kept in this browser; the workspace is not: it belongs to the thread that it began.

import { byId, make, setText } from "./dom.js";
import { FolderView } from "./folders.js";
import { folder, plural } from "./words.js";

const KEPT_AS = "lockstitch.options"; // in this browser alone

/** What stands behind the line above the prompt. */
export class Choices {
  constructor() {
    this.folders = new FolderView({ chosen: () => this.keep() });
    byId("options").addEventListener("change", () => this.keep());
  }

  /** Fill the choices with what the server offers, and what this browser chose before. */
  offer(offered, { presets, preset }) {
    const kept = keptOptions();
    const { strategies, modes, tools, steps, model } = offered;
    this.usual = { preset, model: model.usual };
    fill(byId("strategy"), strategies, kept.strategy ?? offered.strategy);
    fill(byId("mode"), modes, kept.mode ?? offered.mode);
    fill(byId("preset"), presets, kept.preset ?? preset);
    Object.assign(byId("max-steps"), {
      min: steps.least,
      max: steps.most,
      value: kept.max_steps ?? steps.usual,
    });
    this.offerModels(model, kept.model ?? "");
    this.offerTools(tools, kept.tools);
    this.folders.offer(offered.workspace);
    const named = [...strategies, ...modes, ...presets];
    this.hints = Object.fromEntries(named.map((each) => [each.name, each.words ?? each.description]));
    this.keep();
  }

  /** A scripted model with no endpoint beside it is the only one there is. */
  offerModels({ usual, others, fixed }, kept) {
    byId("models").replaceChildren(...others.map((name) => make("option", { value: name })));
    Object.assign(byId("model"), { placeholder: usual || "none set", disabled: fixed, value: fixed ? "" : kept });
  }

  offerTools(tools, kept) {
    const chosen = new Set(kept ?? []);
    byId("tool-list").replaceChildren(...tools.map((tool) => toolChoice(tool, chosen)));
    byId("tools-some").checked = Array.isArray(kept);
  }

  /** A thread is open, and works in that folder; null for a new one, whose folder can be chosen. */
  bind(workspace) {
    this.folders.bind(workspace);
    if (this.usual) this.keep();
  }

  /** Whether all is chosen as it can be; shows what is not. */
  check() {
    if (byId("max-steps").checkValidity()) return true;
    byId("options").open = true;
    return byId("max-steps").reportValidity();
  }

  /** How the next run is to be made; null is the server's own setting. */
  wish() {
    const boxes = [...byId("tool-list").querySelectorAll("input:checked")];
    const preset = byId("preset").value;
    return {
      strategy: byId("strategy").value,
      mode: byId("mode").value,
      max_steps: Number(byId("max-steps").value),
      tools: byId("tools-some").checked ? boxes.map((box) => box.value) : null,
      model: byId("model").value.trim() || null,
      preset: preset === this.usual.preset ? null : preset || null,
      workspace: this.folders.wish(),
    };
  }

  keep() {
    const { workspace, ...wish } = this.wish();
    byId("tool-list").hidden = wish.tools === null;
    setText(byId("options-word"), wordsOf(wish, workspace).join(" · "));
    const hints = [this.hints[wish.strategy], this.hints[wish.mode], this.hints[wish.preset]];
    setText(byId("options-hint"), hints.filter(Boolean).join(" "));
    try {
      localStorage.setItem(KEPT_AS, JSON.stringify(wish));
    } catch {
      // a browser that keeps nothing asks again the next time
    }
  }
}

function wordsOf({ strategy, mode, max_steps: steps, tools, model, preset }, workspace) {
  const words = [strategy, mode, plural(steps, "step")];
  words.push(tools === null ? "all tools" : tools.length ? plural(tools.length, "tool") : "no tools");
  if (model) words.push(model);
  if (preset) words.push(`preset ${preset}`);
  if (workspace) words.push(`in ${folder(workspace)}`);
  return words;
}

function keptOptions() {
  try {
    return JSON.parse(localStorage.getItem(KEPT_AS)) ?? {};
  } catch {
    return {};
  }
}

/** The names as options; one that was kept and is gone leaves the first. */
function fill(select, choices, chosen) {
  select.replaceChildren(
    ...choices.map(({ name }) => make("option", { value: name, selected: name === chosen }, name)),
  );
}

function toolChoice({ name, words }, chosen) {
  const box = make("input", { type: "checkbox", value: name, checked: chosen.has(name) });
  return make("label", { class: "choice", title: words }, box, name);
}
