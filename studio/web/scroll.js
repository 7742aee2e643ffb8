// Keeps the newest step in sight, unless the person reads further up.

const NEAR_PX = 80; // from the end: about three lines

/** Follow the end of `box`, and show the button `jump` while the person is elsewhere. Returns: go there. */
export function followEnd(box, jump) {
  let pinned = true;
  const atEnd = () => box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_PX;
  const toEnd = () => {
    pinned = true;
    box.scrollTop = box.scrollHeight;
    jump.hidden = true;
  };
  let top = 0;
  box.addEventListener("scroll", () => {
    if (atEnd()) pinned = true;
    else if (box.scrollTop < top) pinned = false; // only a person scrolls up
    top = box.scrollTop;
    jump.hidden = pinned;
  });
  jump.addEventListener("click", toEnd);
  const watch = new ResizeObserver(() => pinned && toEnd());
  for (const sized of [box, ...box.children]) watch.observe(sized);
  return toEnd;
}
