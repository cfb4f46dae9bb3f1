/** A text that can be shown, and where each of its UTF-16 units begins among the bytes. */
export interface Decoded {
  text: string;
  starts: number[]; // one more than there are units: the last is the end
}

const decoder = new TextDecoder();
const isContinuation = (byte: number | undefined): boolean => (byte ?? 0) >> 6 === 2;

/** Decodes UTF-8. Each byte that is part of no character becomes U+FFFD. */
export function decode(bytes: Uint8Array): Decoded {
  let text = "";
  const starts: number[] = [];
  for (let at = 0; at < bytes.length;) {
    const lead = bytes[at];
    const wanted = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    let size = 1;
    while (size < wanted && isContinuation(bytes[at + size])) size++;
    const whole = size === wanted ? decoder.decode(bytes.subarray(at, at + size)) : "\ufffd";
    const character = whole.startsWith("\ufffd") ? "\ufffd" : whole;
    if (character === "\ufffd" && !isReplacement(bytes, at)) size = 1;
    for (let unit = 0; unit < character.length; unit++) starts.push(at);
    text += character;
    at += size;
  }
  return { text, starts: [...starts, bytes.length] };
}

const isReplacement = (bytes: Uint8Array, at: number): boolean =>
  bytes[at] === 0xef && bytes[at + 1] === 0xbf && bytes[at + 2] === 0xbd;
