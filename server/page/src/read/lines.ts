import type { Reading } from "../state/reading";

/** A line of a text and what it cost beside the lines before it. */
export interface Line {
  from: number;
  to: number;
  bits: number;
  excess: number; // bits over what the lines before it let expect of its length
}

/** How many lines are listed. */
export const linesListed = 200;

/** Over about how many of the last lines the usual bits of a byte are a mean, by byte. */
const linesRemembered = 32;
/** How much of a strange line counts, in usual lines: else the next ones looked cheap beside it. */
const timesUsualMax = 3;

/** The lines of a reading, the strangest first: those that cost most over what was usual. */
export function strangestLines(reading: Reading): Line[] {
  const lines = scoredLines(reading);
  let bits = 0; // of the lines before, the less the longer ago they were
  let bytes = 0;
  for (const line of lines) {
    const length = line.to - line.from;
    const usual = bytes > 0 ? (bits / bytes) * length : line.bits;
    line.excess = line.bits - usual;
    bits += Math.min(line.bits, timesUsualMax * usual) - bits / linesRemembered;
    bytes += length - bytes / linesRemembered;
  }
  return lines.sort((a, b) => b.excess - a.excess).slice(0, linesListed);
}

function scoredLines(reading: Reading): Line[] {
  const text = reading.text.all;
  const bits = reading.bits.all;
  const starts = reading.starts.all;
  const lines: Line[] = [];
  let from = 0;
  let sum = 0;
  for (let at = 0; at < bits.length && !isNaN(bits[at]); at++) {
    if (!reading.ofWords || starts[at] === 1) sum += bits[at];
    if (text[at] !== 10) continue;
    lines.push({ from, to: at + 1, bits: sum, excess: 0 });
    from = at + 1;
    sum = 0;
  }
  return lines;
}
