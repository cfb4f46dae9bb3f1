import type { Candidate } from "../api/types";
import type { Reading } from "../state/reading";
import { cellAt } from "../ui/cells";
import { grouped } from "../ui/words";

const names: Record<string, string> = {
  " ": "space", "↵": "end of line", "→": "tab",
};

/** Makes text visible whose letters stand alone. */
export function visible(bytes: Uint8Array): string {
  const shown = lettersOf(bytes);
  return names[shown] ?? shown.replaceAll(" ", "␣");
}

/** Text with visible control characters and invalid bytes. */
export function lettersOf(bytes: Uint8Array): string {
  let shown = "";
  for (let at = 0; at < bytes.length;) {
    const cell = cellAt(bytes, at);
    shown += cell.kind === "raw" ? `\\x${cell.shown}` : cell.shown;
    at += cell.size;
  }
  return shown;
}

/** The shown form of a token; for a model of bytes, the byte's value. */
export function candidateName(c: Candidate): string {
  return visible(c.text === undefined ? Uint8Array.of(c.token) : new TextEncoder().encode(c.text));
}

/** A share for readers. */
export function percent(share: number): string {
  if (share >= 0.9995) return share > 0.99995 ? "~100 %" : "99.9 %";
  const digits = share >= 0.1 ? 0 : share >= 0.01 ? 1 : share >= 0.001 ? 2 : 3;
  return share < 0.00001 ? "< 0.001 %" : `${(share * 100).toFixed(digits)} %`;
}

export const shareOf = (bits: number): number => 2 ** -bits;

/** The place's bits in a sentence for screen readers. */
export function spoken(reading: Reading, place: number): string {
  const [first, end] = reading.tokenAt(place);
  const name = visible(reading.text.all.subarray(first, end));
  const bits = reading.bits.at(first);
  if (first >= reading.bits.length || isNaN(bits)) return `${name}: not scored yet`;
  const expected = reading.predictions.at(reading.from + first)?.adapted[0];
  const instead = expected
    ? `, expected ${candidateName(expected)} ${percent(Math.exp(expected.logprob))}`
    : "";
  return `${name}: ${bits.toFixed(1)} bits${instead}`;
}

/** The effect of learning at a place in words. */
export function changeIn(bits: number, fixed: number): string {
  const saved = fixed - bits;
  const times = 2 ** Math.abs(saved);
  if (Math.abs(saved) < 0.07) return "Learning changed little here.";
  const factor = times >= 10 ? grouped(Math.round(times)) : times.toFixed(1);
  return saved > 0
    ? `Learning made this ${factor}\u00a0× likelier: ${saved.toFixed(1)} bits saved.`
    : `Learning made this ${factor}\u00a0× less likely: ${(-saved).toFixed(1)} bits more.`;
}
