/** The visible form of one or a few bytes at a place of a text. */
export interface Cell {
  size: number; // bytes
  width: number; // columns; 0 for a tab, whose width depends on its place
  shown: string;
  kind: "text" | "control" | "raw" | "newline" | "tab";
}

export const tabColumns = 4;

const newline: Cell = { size: 1, width: 1, shown: "↵", kind: "newline" };
const tab: Cell = { size: 1, width: 0, shown: "→", kind: "tab" };
const ascii: Cell[] = Array.from({ length: 128 }, (_, code) => {
  if (code === 10) return newline;
  if (code === 9) return tab;
  if (code >= 32 && code < 127) {
    return { size: 1, width: 1, shown: String.fromCharCode(code), kind: "text" };
  }
  // As in terminals: ^G is the bell.
  return { size: 1, width: 2, shown: `^${String.fromCharCode(code ^ 64)}`, kind: "control" };
});
const raw: Cell[] = Array.from({ length: 256 }, (_, byte) => (
  { size: 1, width: 2, shown: byte.toString(16).padStart(2, "0"), kind: "raw" }
));

/** The cell at a place. Each invalid byte is a cell. */
export function cellAt(text: Uint8Array, place: number): Cell {
  const lead = text[place];
  if (lead < 0x80) return ascii[lead];
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const code = lead < 0xc2 || lead > 0xf4 ? -1 : decode(text, place, size);
  if (code < 0) return raw[lead];
  if (isInvisible(code)) {
    const shown = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    return { size, width: shown.length, shown, kind: "control" };
  }
  const width = isWide(code) ? 2 : isCombining(code) ? 0 : 1;
  return { size, width, shown: String.fromCodePoint(code), kind: "text" };
}

/** The place of the cell that contains a byte. */
export function cellStart(text: Uint8Array, place: number): number {
  for (let at = place; at > place - 4 && at >= 0; at--) {
    if ((text[at] & 0xc0) !== 0x80) return at + cellAt(text, at).size > place ? at : place;
  }
  return place;
}

/** The code point of a character of `size` bytes; -1 if invalid. */
function decode(text: Uint8Array, place: number, size: number): number {
  if (place + size > text.length) return -1;
  let code = text[place] & (0x7f >> size);
  for (let i = 1; i < size; i++) {
    const byte = text[place + i];
    if ((byte & 0xc0) !== 0x80) return -1;
    code = (code << 6) | (byte & 0x3f);
  }
  const least = size === 2 ? 0x80 : size === 3 ? 0x800 : 0x10000;
  const isSurrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least || code > 0x10ffff || isSurrogate ? -1 : code;
}

// Invisible characters, including those that change the direction of text.
function isInvisible(code: number): boolean {
  return (code >= 0x80 && code < 0xa0) || code === 0xad || code === 0x61c || code === 0xfeff
    || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e)
    || (code >= 0x2060 && code <= 0x206f) || (code >= 0xfff9 && code <= 0xfffb)
    || (code >= 0xe0000 && code <= 0xe0fff);
}

function isCombining(code: number): boolean {
  return (code >= 0x300 && code < 0x370) || (code >= 0x1ab0 && code < 0x1b00)
    || (code >= 0x20d0 && code < 0x2100) || (code >= 0xfe00 && code <= 0xfe0f);
}

// East Asian wide and full-width characters and pictographs, approximately as in Unicode's Annex
// 11.
function isWide(code: number): boolean {
  return code >= 0x1100 && (code < 0x1160 || (code >= 0x2e80 && code < 0xa4d0)
    || (code >= 0xac00 && code < 0xd7a4) || (code >= 0xf900 && code < 0xfb00)
    || (code >= 0xfe30 && code < 0xfe70) || (code >= 0xff00 && code < 0xff61)
    || (code >= 0x1f300 && code < 0x1faff) || (code >= 0x20000 && code < 0x3fffe));
}
