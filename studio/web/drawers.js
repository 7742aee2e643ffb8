// The two sides of the page where it is narrow: each opens over the steps, one at a time.

import { byId } from "./dom.js";

const SIDES = [
  ["menu", "threads"],
  ["facts-button", "facts"],
];

/** Make the buttons of the sides work; the result closes them. */
export function openDrawers() {
  const close = () => SIDES.forEach(([opener, side]) => set(opener, side, false));
  for (const [opener, side] of SIDES) {
    byId(opener).addEventListener("click", () => {
      const opens = byId(opener).getAttribute("aria-expanded") !== "true";
      close();
      set(opener, side, opens);
      if (opens) byId(side).querySelector("a, button, h2")?.focus();
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  byId("main").addEventListener("click", close);
  return { close };
}

function leave() {
  for (const [opener, side] of SIDES) {
    if (byId(opener).getAttribute("aria-expanded") !== "true") continue;
    set(opener, side, false);
    byId(opener).focus();
  }
}

function set(opener, side, opens) {
  byId(opener).setAttribute("aria-expanded", String(opens));
  byId(side).classList.toggle("open", opens);
}
