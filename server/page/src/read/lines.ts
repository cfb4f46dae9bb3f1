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

/** Over how many of the last lines the usual bits of a byte are a mean. */
const linesRemembered = 32;
/** How much of a strange line counts, in usual lines: else the next ones looked cheap beside it. */
const timesUsualMax = 3;

/** The lines of a reading, the strangest first: those that cost most over what was usual. */
export function strangestLines(reading: Reading): Line[] {
  const lines = scoredLines(reading);
  let usual = NaN; // bits of a byte
  lines.forEach((line, i) => {
    const length = line.to - line.from;
    const rate = line.bits / length;
    if (isNaN(usual)) usual = rate;
    line.excess = line.bits - usual * length;
    usual += (Math.min(rate, timesUsualMax * usual) - usual) / Math.min(i + 1, linesRemembered);
  });
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
