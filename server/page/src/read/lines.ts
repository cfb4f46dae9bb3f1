import { useEffect } from "preact/hooks";
import type { Reading } from "../state/reading";
import { useCalm } from "../ui/hooks";

const renewedMs = 300;

// A time of day or a Unix time, or an object of JSON: what lines of logs have.
const stamp = /\d\d:\d\d:\d\d|^\W?1\d{9}|^\{"/;
const linesLookedAt = 200;
const bytesLookedAt = 64 << 10;
const linesLeast = 8;

/** Whether a text looks like a log: most of its first lines have what lines of logs have. */
export function looksLikeLog({ text }: Reading): boolean {
  const first = text.all.slice(0, bytesLookedAt);
  const lines = new TextDecoder().decode(first).split("\n", linesLookedAt).filter(Boolean);
  const stamped = lines.filter((line) => stamp.test(line)).length;
  return lines.length >= linesLeast && stamped > lines.length / 2;
}

/** Has the lines of a reading rated, as long as this is wanted, and renders with them. */
export function useRatings(reading: Reading, isWanted: boolean): void {
  useCalm(reading.changed, renewedMs);
  reading.ratings.changed.value;
  useEffect(() => {
    if (isWanted) reading.ratings.update();
  });
}
