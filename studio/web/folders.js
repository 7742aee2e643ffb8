// The workspace of a new thread: a folder below those that the server allows.

import { ApiError, checkFolder, listFolders } from "./api.js";
import { button, byId, make, setText } from "./dom.js";
import { folder } from "./words.js";

/** The button that names the folder, and the list it opens. */
export class FolderView {
  /** `chosen()` is called when another folder was chosen. */
  constructor({ chosen }) {
    this.chosen = chosen;
    this.bound = null;
    this.own = null;
    byId("workspace").addEventListener("click", () => this.toggle());
    byId("folders").addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  offer(usual) {
    this.usual = usual;
    this.show();
  }

  bind(workspace) {
    this.bound = workspace;
    this.close({ focus: false });
    this.show();
  }

  /** The folder to ask for; null is the thread's own, or the server's for a new one. */
  wish() {
    return this.bound === null ? this.own : null;
  }

  show() {
    const path = this.bound ?? this.own ?? this.usual ?? "";
    setText(byId("workspace-name"), folder(path));
    byId("workspace").title = this.bound === null ? path : `${path}: this thread works here`;
    byId("workspace").disabled = this.bound !== null;
  }

  toggle() {
    if (byId("folders").hidden) this.go(this.own ?? this.usual);
    else this.close();
  }

  close({ focus = true } = {}) {
    const within = byId("folders").contains(document.activeElement);
    byId("folders").hidden = true;
    byId("workspace").setAttribute("aria-expanded", "false");
    if (focus && within) byId("workspace").focus();
  }

  /** Look into a folder; one that may not be looked into gives way to the roots. */
  async go(path) {
    try {
      this.draw(await listFolders(path));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "outside" && path !== null) return this.go(null);
      this.draw({ path: null, parent: null, folders: [] });
      this.tell(error.message);
    }
    byId("folders").hidden = false;
    byId("workspace").setAttribute("aria-expanded", "true");
    byId("folders").focus();
  }

  draw({ path, parent, folders, truncated }) {
    const inside = folders.map(({ name, path: below }) =>
      make("li", {}, button(name, () => this.go(below), { kind: "folder", drawing: "folder" })),
    );
    const up = path === null ? null : button("Up", () => this.go(parent), { kind: "small", drawing: "up" });
    const use = path === null ? null : button("Work here", () => this.use(path), { kind: "small primary" });
    byId("folders").replaceChildren(
      make("div", { class: "folder-head" }, make("code", {}, path ?? "Folders of this server"), up, use),
      inside.length
        ? make("ul", { class: "folder-list" }, ...inside)
        : make("p", { class: "muted" }, "No folder in here."),
      make("p", { class: "bad", role: "alert" }, truncated ? "There are more folders than are shown." : ""),
    );
  }

  async use(path) {
    try {
      const { valid, path: found, message } = await checkFolder(path);
      if (!valid) return this.tell(message);
      this.own = found === this.usual ? null : found;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return this.tell(error.message);
    }
    this.show();
    this.close();
    this.chosen();
  }

  tell(words) {
    setText(byId("folders").lastElementChild, words);
  }
}
