// Numbers as people read them.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** An amount of bytes: "980 B", "12.4 kB". */
export function sizeText(bytes: number): string {
  const steps: [number, string][] = [[1e9, "GB"], [1e6, "MB"], [1e4, "kB"]];
  for (const [from, unit] of steps) {
    const of = unit === "kB" ? 1e3 : from;
    if (bytes >= from) return `${number.format(bytes / of)} ${unit}`;
  }
  return `${number.format(Math.round(bytes))} B`;
}

/** A count: "12,345". */
export const countText = (n: number): string => number.format(n);

/** Bits a unit; a dash where there are none. */
export const bitsText = (bits: number | null | undefined): string =>
  bits === null || bits === undefined || isNaN(bits) ? "–" : bits.toFixed(3);

/** How much less (or more) one cost is than another: "12.3% less". */
export function differenceText(cost: number, other: number): string {
  const percent = 100 * (1 - cost / other);
  return `${Math.abs(percent).toFixed(1)}% ${percent >= 0 ? "less" : "more"}`;
}

const spans: [number, string][] = [
  [365 * 86400, "year"], [30 * 86400, "month"], [86400, "day"], [3600, "hour"], [60, "minute"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });

/** How long ago a time was: "3 hr. ago". */
export function agoText(time: string, now = Date.now()): string {
  const seconds = (now - Date.parse(time)) / 1000;
  for (const [span, unit] of spans) {
    if (seconds >= span) {
      return relative.format(-Math.floor(seconds / span), unit as Intl.RelativeTimeFormatUnit);
    }
  }
  return "just now";
}
