import type { Measures, Model, Session } from "../api/types";

// Numbers and names for readers.

/** The pattern of session names, for forms. */
export const namePattern = "[a-z0-9][a-z0-9._\\-]{0,63}";
export const nameWords = "1 to 64 characters of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit";

/** An id shortened to its end, which is random; ids of the same time share their beginning. */
export const shortId = (id: string): string => `…${id.slice(-8)}`;

/** The first characters of a text. A character beyond UTF-16's basic plane is not cut in halves. */
export const firstOf = (text: string, characters: number): string =>
  [...text.slice(0, 2 * characters)].slice(0, characters).join("");

/** A session's name for readers. */
export function titleOf(session: Session): string {
  const { id, name, labels, settings, shadow_of: of } = session;
  if (name ?? labels?.title) return name ?? labels!.title;
  if (!of) return shortId(id);
  return `${settings?.method ?? ""} shadow of ${of.name ?? shortId(of.id)}`.trim();
}

/** A model's name for readers: its id if another model has the same name. */
export const modelTitle = ({ id, name }: Model, all: Model[]): string =>
  name && all.filter((model) => model.name === name).length === 1 ? name : id;

/** A shadow's name for readers: how it differs from its session. */
export function shadowName(shadow: Session, of: Session): string {
  const { name, labels, model = "", settings } = shadow;
  if (name ?? labels?.title) return name ?? labels!.title;
  const isSame = settings?.method === of.settings?.method;
  const others = Object.entries(settings ?? {}).filter(([setting, value]) =>
    setting !== "method" && setting !== "baseline" && (isSame || setting === "companion") &&
    String(value) !== String(of.settings?.[setting]));
  return [
    model === of.model ? "" : `${model},`, settings?.method ?? "",
    ...others.map(([setting, value]) => `${settingTitle(setting)} ${value}`),
  ].filter(Boolean).join(" ") || shortId(shadow.id);
}

/** The names of a session's curves: what it serves, and the static model alone. */
export function namesOf({ settings }: Session): { served: string; alone: string } {
  const served = settings?.method === "static" ? "static" : "adapted";
  return settings?.companion
    ? { served: `${served} with companion`, alone: "static alone" }
    : { served, alone: "static" };
}

const settingNames: Record<string, string> = {
  chunk: "tokens per update",
  p: "write probability",
  gammas: "decay of the gradient average",
  beta1: "gradient weight in the average",
  beta2: "gradient weight beside the average",
  skip_below: "minimum bits to learn",
  rate: "learning rate",
  cache_size: "cache size",
  theta: "cache sharpness",
  lambda: "cache weight",
  companion_bytes: "size of the companion's table",
  companion_static: "companion with static model",
  baseline: "static model for comparison",
};

/** A setting's name in words. */
export const settingTitle = (name: string): string => settingNames[name] ?? name;

/** A name with a capital letter, for the start of a line. */
export const capital = (name: string): string => name[0].toUpperCase() + name.slice(1);

/** An integer with digits in groups of three. */
export const grouped = (n: number): string => n.toLocaleString("en").replaceAll(",", "\u202f");

const sizes: [number, number, string][] = [[1e9, 1e9, "GB"], [1e6, 1e6, "MB"], [1e4, 1e3, "kB"]];

/** An amount of bytes: "980 B", "12.4 kB". */
export function sizeText(bytes: number): string {
  for (const [from, one, unit] of sizes) {
    if (bytes >= from) return `${(bytes / one).toFixed(1)} ${unit}`;
  }
  return `${grouped(Math.round(bytes))} B`;
}

/** The labels of an axis of bytes, all in one unit. */
export function ticksText(ticks: number[]): string[] {
  const [, one, unit] = sizes.find(([from]) => ticks.at(-1)! >= from) ?? [0, 1, "B"];
  return ticks.map((tick) => `${grouped(+(tick / one).toFixed(3))} ${unit}`);
}

/** Bits per unit; a dash without a value. */
export const bitsText = (bits: number | null | undefined): string =>
  bits === null || bits === undefined || isNaN(bits) ? "–" : signed(bits, 3);

/** A number with `digits` decimals, and a minus sign if it is negative. */
export const signed = (n: number, digits: number): string =>
  n.toFixed(digits).replace("-", "\u2212");

/** Bits per byte of the adapted and of the static model, without unknown words. */
export function perByte(totals: Measures): { adapted?: number; fixed?: number } {
  const { bytes, bits, bits_per_byte: known, baseline_bits: fixed } = totals;
  if (bytes === 0) return {};
  return { adapted: known ?? bits / bytes, fixed: fixed === undefined ? fixed : fixed / bytes };
}

/** How much less (or more) one cost is than another: "12.3% less". */
export function differenceText(cost: number, other: number): string {
  const percent = 100 * (1 - cost / other);
  return `${Math.abs(percent).toFixed(1)}% ${percent >= 0 ? "less" : "more"}`;
}

const spans: [number, Intl.RelativeTimeFormatUnit][] = [
  [365 * 86400, "year"], [30 * 86400, "month"], [86400, "day"], [3600, "hour"], [60, "minute"],
];
const relative = new Intl.RelativeTimeFormat("en", { style: "short" });

/** A time relative to now: "3 hr. ago". */
export function agoText(time: string): string {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  const span = spans.find(([length]) => seconds >= length);
  return span ? relative.format(-Math.floor(seconds / span[0]), span[1]) : "just now";
}
