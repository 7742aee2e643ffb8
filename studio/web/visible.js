// Text that others wrote, made safe to show: what is invisible or turns the reading order is spelled out.
//
// The ranges are those of studio/visible.py; a test holds the two together.

const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069" +
    "\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]",
  "gu", // with `u` a surrogate matches only where it stands alone
);

/** `text` with control, bidi and tag characters as `\x1b`, `\u202e` ...; newline and tab stay. */
export function visible(text) {
  return String(text).replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
    if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, "0")}`;
    return `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

/** `text` in one visible line of at most `maxChars` characters. */
export function oneLine(text, maxChars) {
  const line = visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return line.length <= maxChars ? line : `${line.slice(0, maxChars - 1)}…`;
}
