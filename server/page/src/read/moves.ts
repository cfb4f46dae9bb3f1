import type { Reading } from "../state/reading";
import type { Rows } from "./rows";
import { surpriseBits, type Mode } from "./scale";

/** Returns where a key moves the caret; null for other keys. */
export function moveOf(
  key: { key: string; ctrlKey: boolean; metaKey: boolean },
  caret: number, reading: Reading, rows: Rows, page: number, mode: Mode,
): number | null {
  const row = rows.of(Math.max(0, caret));
  const whole = key.ctrlKey || key.metaKey;
  const rowsAway = (n: number): number => {
    const to = Math.max(0, Math.min(rows.count - 1, row + n));
    return Math.min(rows.start(to) + caret - rows.start(row), rows.start(to + 1) - 1);
  };
  if (whole && key.key !== "Home" && key.key !== "End") return null;
  const [first, end] = reading.tokenAt(Math.max(0, caret));
  switch (key.key) {
    case "ArrowRight": return end;
    case "ArrowLeft": return reading.tokenAt(Math.max(0, first - 1))[0];
    case "ArrowDown": return rowsAway(1);
    case "ArrowUp": return rowsAway(-1);
    case "PageDown": return rowsAway(page);
    case "PageUp": return rowsAway(-page);
    case "Home": return whole ? 0 : rows.start(row);
    case "End": return whole ? reading.text.length - 1 : rows.start(row + 1) - 1;
    case "n": case "p": {
      const direction = key.key === "n" ? 1 : -1;
      const next = mode === "unusual" ? strangeFrom : surpriseFrom;
      return next(reading, caret, direction) ?? caret;
    }
  }
  return null;
}

/** The place of the next line in order of strangeness, at its strangest word; null without one. */
function strangeFrom({ ratings }: Reading, caret: number, direction: 1 | -1): number | null {
  const line = ratings.lines[ratings.indexOf(caret)];
  const all = ratings.strangest(ratings.lines.length);
  const at = line ? all.indexOf(line) : -1;
  // From an ordinary line, the first is the strangest.
  const next = !line || line.rank === 1 ? all[0] : all[at + direction];
  return next && next.rank > 1 ? next.span[0] : null;
}

/** The next surprising place in a direction; null without one. */
function surpriseFrom(reading: Reading, caret: number, direction: 1 | -1): number | null {
  const bits = reading.bits.all;
  const least = surpriseBits(reading);
  const [first, end] = reading.tokenAt(Math.max(0, caret));
  const begin = direction < 0 ? first - 1 : caret < 0 ? 0 : end;
  for (let at = begin; at >= 0 && at < bits.length; at += direction) {
    if (bits[at] >= least) return reading.tokenAt(at)[0];
  }
  return null;
}
