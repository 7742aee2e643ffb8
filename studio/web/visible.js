// Text that others wrote, made safe to show: what is invisible or turns the reading order is spelled out.
//
// The ranges and the rule for joiners are those of studio/visible.py; a test holds the two together.

const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f-\\u1160\\u17b4-\\u17b5\\u180e" +
    "\\u200b\\u200e-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufe00-\\ufe0d\\ufeff\\uffa0" +
    "\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]",
  "gu", // with `u` a surrogate matches only where it stands alone
);
const IDLE_JOINER = /(?:^|(?<=[\u0000-\u007f\u200c\u200d]))[\u200c\u200d]/gu;

function spelt(character) {
  const code = character.codePointAt(0);
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

/** `text` with control, bidi and invisible characters as `\x1b`, `\u202e` ...; newline and tab stay. */
export function visible(text) {
  return String(text).replace(UNSEEN, spelt).replace(IDLE_JOINER, spelt);
}

/** `text` in one visible line of at most `maxChars` characters. */
export function oneLine(text, maxChars) {
  const line = visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");
  return line.length <= maxChars ? line : `${line.slice(0, maxChars - 1)}…`;
}
