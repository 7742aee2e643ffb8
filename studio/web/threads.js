// The list of threads: found, opened, told apart by where they stand.

import { ApiError, listThreads } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { ago, folder, plural } from "./words.js";

const PAGE = 30; // threads; about two screens
const AT_WORK = new Set(["planning", "executing", "observing"]);

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

  /** Read it anew. Returns: the threads; none when the server does not answer. */
  async refresh() {
    try {
      const { threads } = await listThreads(this.limit);
      this.show(threads);
      return threads;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(byId("threads-word"), error.message);
      return [];
    }
  }

  show(threads) {
    const focused = document.activeElement?.hash;
    const within = byId("thread-list").contains(document.activeElement);
    setText(
      byId("threads-word"),
      threads.length
        ? ""
        : "None yet. A thread keeps a conversation and its files, and can go on at any time.",
    );
    byId("threads-more").hidden = threads.length < this.limit;
    const items = threads.map((thread) => item(thread, this.current));
    const drawn = [...byId("thread-list").children];
    if (drawn.length === items.length && drawn.every((old, place) => old.isEqualNode(items[place])))
      return; // a reader's place and the pointer stay where they are
    byId("thread-list").replaceChildren(...items);
    if (within) byId("thread-list").querySelector(`a[href="${focused}"]`)?.focus();
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

/** Where a thread stands; one that was left in the middle is not at work. */
function standing({ phase, running }) {
  if (running) return phase === "waiting" ? "executing" : phase;
  return AT_WORK.has(phase) ? "cut off" : phase;
}

function item(thread, current) {
  const stands = standing(thread);
  const facts = [ago(thread.updated_at), plural(thread.steps, "step"), folder(thread.workspace)];
  const dot = make("span", { class: "dot", "data-phase": stands, title: stands });
  const title = make("span", { class: "thread-title" }, thread.title || "Without a title");
  const spoken = make("span", { class: "sr-only" }, `, ${stands}, `);
  const words = make("span", { class: "thread-facts" }, facts.filter(Boolean).join(" · "));
  const open = thread.thread_id === current;
  const link = { href: `#${thread.thread_id}`, "aria-current": open ? "page" : null };
  return make("li", {}, make("a", link, dot, title, spoken, words));
}
