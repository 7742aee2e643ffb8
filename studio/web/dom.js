// Makes elements. Every text passes through `visible` into a text node: nothing here reads HTML.

import { visible } from "./visible.js";

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with that id. */
export const byId = (id) => document.getElementById(id);

/** An element. A function among the attributes is a listener, `false` and `null` are left out. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value === true ? "" : visible(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map(node));
  return element;
}

const node = (child) => (child instanceof Node ? child : document.createTextNode(visible(child)));

/** One of the drawings at the top of index.html, for the eye alone. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** A push button. */
export function button(words, listener, { kind = "", drawing = null } = {}) {
  return make(
    "button",
    { type: "button", class: `button ${kind}`.trim(), click: listener },
    drawing ? icon(drawing) : null,
    words,
  );
}

/** Replace what `element` holds by one text. */
export function setText(element, text) {
  element.textContent = visible(text);
}
