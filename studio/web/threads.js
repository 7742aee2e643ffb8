// The list of threads: found, opened, told apart by where they stand.

import { ApiError, listThreads } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { ago, folder, plural } from "./words.js";

const PAGE = 30; // threads; about two screens

/** The list at the side. A thread's link is `#<its id>`. */
export class ThreadList {
  constructor() {
    this.limit = PAGE;
    this.current = null;
    byId("threads-more").addEventListener("click", () => {
      this.limit += PAGE;
      this.refresh();
    });
  }

  async refresh() {
    try {
      this.show((await listThreads(this.limit)).threads);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(byId("threads-word"), error.message);
    }
  }

  show(threads) {
    setText(
      byId("threads-word"),
      threads.length
        ? ""
        : "None yet. A thread keeps a conversation and its files, and can go on at any time.",
    );
    byId("threads-more").hidden = threads.length < this.limit;
    byId("thread-list").replaceChildren(...threads.map(item));
    this.mark(this.current);
  }

  /** Mark the thread that is open. */
  mark(id) {
    this.current = id;
    for (const link of byId("thread-list").querySelectorAll("a")) {
      if (link.hash === `#${id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
}

function item(thread) {
  const facts = [ago(thread.updated_at), plural(thread.steps, "step"), folder(thread.workspace)].filter(
    Boolean,
  );
  const dot = make("span", { class: "dot", "data-phase": thread.phase, title: thread.phase });
  const title = make("span", { class: "thread-title" }, thread.title || "Without a title");
  const spoken = make("span", { class: "sr-only" }, `, ${thread.phase}, `);
  return make(
    "li",
    {},
    make(
      "a",
      { href: `#${thread.thread_id}` },
      dot,
      title,
      spoken,
      make("span", { class: "thread-facts" }, facts.join(" · ")),
    ),
  );
}
