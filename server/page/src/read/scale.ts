import type { RatedLine, Ratings } from "../state/ratings";
import type { Reading } from "../state/reading";

/** What colors show: how strange lines are, the bits of one model, or the savings from learning. */
export type Mode = "unusual" | "adaptive" | "static" | "difference";

// Bits at which the next colour begins.
const ofBytes = [0.5, 1, 2, 3, 4.5, 6, 8, 11];
const ofWords = [2, 4, 6, 8, 10, 12, 14, 17];
// Lines: the strangest of that many.
const ofRanks = [30, 100, 300, 1000, 3000, 1e4, 3e4, 1e5];
const ofDifferences = [0.25, 1, 2.5, 5];

const washed = 300; // the rank from which the whole line is colored

/** A color of the scale: its class and its meaning. */
export interface Step {
  name: string;
  label: string;
}

/** The bits from which a place counts as a surprise to jump to. */
export function surpriseBits(reading: Reading): number {
  return reading.ofWords ? ofWords[5] : ofBytes[5];
}

/** The steps of a scale from its low end. */
export function stepsOf(mode: Mode, words: boolean): Step[] {
  if (mode === "difference") {
    const up = ofDifferences.map((bits, i) => ({ name: `gain${i + 1}`, label: `−${bits}` }));
    const down = ofDifferences.map((bits, i) => ({ name: `loss${i + 1}`, label: `+${bits}` }));
    return [...down.reverse(), { name: "heat0", label: "0" }, ...up];
  }
  if (mode === "unusual") {
    const short = (n: number): string => (n >= 1000 ? `${n / 1000}k` : String(n));
    return [1, ...ofRanks].map((rank, i) => ({ name: `heat${i}`, label: short(rank) }));
  }
  const borders = words ? ofWords : ofBytes;
  return ["0", ...borders].map((label, i) => ({ name: `heat${i}`, label: String(label) }));
}

/** Returns the class of each place of a reading in a mode; "wait" if its bits are unknown. */
export function classesOf(reading: Reading, mode: Mode): (place: number, size: number) => string {
  if (mode === "unusual") return unusual(reading.ratings);
  const borders = reading.ofWords ? ofWords : ofBytes;
  const bits = costs(reading, mode === "static" ? "baseline" : "bits");
  if (mode !== "difference") return (place, size) => heat(bits(place, size), borders);
  const fixed = costs(reading, "baseline");
  return (place, size) => difference(fixed(place, size) - bits(place, size));
}

/** The color of a rank: "heat0" to "heat8". */
export const levelOf = (rank: number): string => heat(rank, ofRanks);

/** levelOf for a mark, which is always colored. */
export const markLevel = (rank: number): string => levelOf(Math.max(rank, ofRanks[0]));

/**
 * The strangest word of a line has the color of the line's rank, and the rest of a strange line a
 * lighter one. Nothing is hotter than an incident, and values that change in every line have no
 * color.
 */
function unusual(ratings: Ratings): (place: number) => string {
  let line: RatedLine | undefined;
  return (place) => {
    if (place >= ratings.rated) return "wait";
    if (!line || place < line.from || place >= line.to) line = ratings.lines[ratings.indexOf(place)];
    if (!line) return "heat0";
    if (place >= line.span[0] && place < line.span[1]) return levelOf(line.heat);
    return line.heat >= washed ? "heat1" : "heat0";
  };
}

/** The bits of a cell: their sum for a character of several bytes, those of the word for a word. */
function costs(reading: Reading, which: "bits" | "baseline") {
  const all = reading[which].all;
  return (place: number, size: number): number => {
    if (size === 1 || reading.ofWords) return all[place] ?? NaN;
    let sum = 0;
    for (let i = place; i < place + size; i++) sum += all[i] ?? NaN;
    return sum;
  };
}

function heat(bits: number, borders: number[]): string {
  if (isNaN(bits)) return "wait";
  let level = 0;
  while (level < borders.length && bits >= borders[level]) level++;
  return `heat${level}`;
}

function difference(saved: number): string {
  if (isNaN(saved)) return "wait";
  let level = 0;
  while (level < ofDifferences.length && Math.abs(saved) >= ofDifferences[level]) level++;
  return level === 0 ? "heat0" : (saved > 0 ? "gain" : "loss") + level;
}
