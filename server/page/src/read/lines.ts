import { useEffect } from "preact/hooks";
import type { Reading } from "../state/reading";
import { useCalm } from "../ui/hooks";

const renewedMs = 300;

// Typical for lines of logs: a time of day, a Unix time, or a JSON object.
const stamp = /\d\d:\d\d:\d\d|^\W?1\d{9}|^\{"/;
const linesLookedAt = 200;
const bytesLookedAt = 64 << 10;
const linesLeast = 8;

/** Whether a text looks like a log: most of its first lines are typical. */
export function looksLikeLog({ text }: Reading): boolean {
  const first = text.all.slice(0, bytesLookedAt);
  const lines = new TextDecoder().decode(first).split("\n", linesLookedAt).filter(Boolean);
  const stamped = lines.filter((line) => stamp.test(line)).length;
  return lines.length >= linesLeast && stamped > lines.length / 2;
}

/** Rates the lines of a reading while wanted, and renders with the ratings. */
export function useRatings(reading: Reading, isWanted: boolean): void {
  useCalm(reading.changed, renewedMs);
  reading.ratings.changed.value;
  useEffect(() => {
    if (isWanted) reading.ratings.update();
  });
}
