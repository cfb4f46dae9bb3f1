import { cellAt } from "./cells";

/** A text as one sees it, and where each of its UTF-16 units begins among the bytes. */
export interface Decoded {
  text: string;
  starts: number[]; // one more than there are units: the last is the end
}

/** Bytes as text. Those that are part of no character become U+FFFD each. */
export function decode(bytes: Uint8Array): Decoded {
  let text = "";
  const starts: number[] = [];
  for (let at = 0; at < bytes.length;) {
    const { kind, shown, size } = cellAt(bytes, at);
    const seen = { newline: "\n", tab: "\t", raw: "\ufffd", text: shown, control: shown }[kind];
    for (let unit = 0; unit < seen.length; unit++) starts.push(at);
    text += seen;
    at += size;
  }
  return { text, starts: [...starts, bytes.length] };
}
