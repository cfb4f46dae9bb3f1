import { cellAt } from "./cells";

/** A text as shown, and the byte at which each UTF-16 unit begins. */
export interface Decoded {
  text: string;
  starts: number[]; // one more than units: the last is the end
}

/** Decodes bytes as text. Each invalid byte becomes U+FFFD. */
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
