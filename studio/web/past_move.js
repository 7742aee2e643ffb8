// A rewind, undo or redo: shown first, then made. What somebody else changed is told, and stays only when a person says so.

import { ApiError, makeMove, previewMove } from "./api.js";
import { changesView } from "./changes.js";
import { button, byId, make } from "./dom.js";
import { plural } from "./words.js";

const AGAIN = new Set(["conflict", "moved_on"]); // it is not as it was shown: it is shown anew

/** The preview above the timeline. */
export class MoveView {
  /** `made` is told in words what was done, `said` why nothing was. */
  constructor({ made, said }) {
    Object.assign(this, { made, said, root: byId("past-move") });
  }

  hide() {
    this.root.hidden = true;
    this.root.replaceChildren();
  }

  /** Show what the move would do. */
  async look(thread, plan) {
    try {
      this.show(thread, plan, await previewMove(thread, plan));
    } catch (error) {
      this.hide();
      this.fail(error);
    }
  }

  show(thread, plan, preview) {
    const { files, total, conflicts, staying, warnings, token } = preview;
    const keep = make("input", { type: "checkbox", "data-keep": true });
    const go = () => this.make(thread, { ...plan, token, keep_changed: keep.checked }, keep);
    const cancel = () => {
      this.hide();
      byId("past-step").focus();
    };
    this.root.replaceChildren(
      ...[
        make("h3", {}, headOf(preview)),
        make("p", {}, wordsOf(preview)),
        files.length ? changesView({ changes: files, total }) : null,
        conflicts.length ? namesOf("Somebody else changed since:", conflicts) : null,
        conflicts.length
          ? make("label", { class: "choice" }, keep, "leave these as they are, and take back the rest")
          : null,
        staying.length ? namesOf("These folders stay, they hold what others put there:", staying) : null,
        ...warnings.map((words) => make("p", {}, words)),
        make("div", { class: "row" }, button("Do it", go, { kind: "small primary" }), button("Cancel", cancel, { kind: "small" })),
      ].filter(Boolean),
    );
    this.root.hidden = false;
    this.root.focus();
  }

  async make(thread, order, keep) {
    if (keep.isConnected && !keep.checked) {
      this.said("Nothing was changed: say first that what somebody else changed stays as it is.");
      return keep.focus();
    }
    try {
      const { kind, step, total, left } = await makeMove(thread, order);
      this.hide();
      const kept = left.length ? ` Left as it is: ${left.join(", ")}.` : "";
      await this.made(`Done (${kind}): step ${step}, ${plural(total, "file")} changed.${kept}`);
    } catch (error) {
      const { token: _, keep_changed: __, ...plan } = order;
      if (AGAIN.has(error.code)) await this.look(thread, plan);
      this.fail(error);
    }
  }

  fail(error) {
    if (!(error instanceof ApiError)) throw error;
    this.said(error.message);
  }
}

function headOf({ kind, what, step, from_step: from }) {
  const parts = what === "both" ? "" : ` (${what} only)`;
  return `${kind}: step ${from} → step ${step}${parts}`;
}

function wordsOf({ total, messages_gone: gone }) {
  const files = total ? `${plural(total, "file")} would change` : "No file would change";
  const talk = gone ? `${plural(gone, "message")} would leave the conversation` : "no message would leave the conversation";
  return `${files}, ${talk}. It can be undone.`;
}

function namesOf(words, paths) {
  const items = paths.map((path) => make("li", {}, make("code", {}, path)));
  return make("div", { class: "bad" }, make("p", {}, words), make("ul", { class: "names" }, ...items));
}
