import type { Reading } from "../state/reading";

/** A line of a text and what it cost beside the lines of like length. */
export interface Line {
  from: number;
  to: number;
  bits: number;
  excess: number; // bits over the median of lines of like length
}

/** How many lines are listed. */
export const linesListed = 200;
const sampled = 257;

/** The lines of a reading, the strangest first: those that cost most over what is usual. */
export function strangestLines(reading: Reading): Line[] {
  const lines = scoredLines(reading);
  const groups = new Map<number, Line[]>();
  for (const line of lines) {
    const group = groupOf(line.to - line.from);
    (groups.get(group) ?? groups.set(group, []).get(group)!).push(line);
  }
  const usual = new Map([...groups].map(([group, of]) => [group, medianBitsOfByte(of)]));
  for (const line of lines) {
    const length = line.to - line.from;
    line.excess = line.bits - usual.get(groupOf(length))! * length;
  }
  return lines.sort((a, b) => b.excess - a.excess).slice(0, linesListed);
}

/** Lines whose lengths differ by less than a half are alike. */
function groupOf(length: number): number {
  return Math.round(Math.log(length) / Math.log(1.5));
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

// Of many lines a part, evenly spread, is enough.
function medianBitsOfByte(lines: Line[]): number {
  const step = Math.max(1, Math.floor(lines.length / sampled));
  const each = lines
    .filter((_, i) => i % step === 0)
    .map((line) => line.bits / (line.to - line.from))
    .sort((a, b) => a - b);
  return each[Math.floor(each.length / 2)];
}
