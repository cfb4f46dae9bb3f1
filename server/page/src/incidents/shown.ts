import { effect, signal } from "@preact/signals";
import type { Incident } from "../api/types";
import { store, stored } from "../state/stored";

/** Which incidents are shown, and which are not. */
export interface Shown {
  open: Incident[];
  earlier: Incident[];
  falseAlarms: Incident[];
  hidden: number; // less strange than the threshold
}

/** The available thresholds: one line in that many. */
export const thresholds = [100, 1000, 10000];

const place = "lmserve.threshold";

/** The chosen threshold, kept across visits. */
export const threshold = signal(
  thresholds.find((n) => String(n) === stored("localStorage", place)) ?? 1000,
);

effect(() => store("localStorage", place, String(threshold.value)));

/** Selects the incidents to show, in their order. */
export function shownOf(all: Incident[], threshold: number): Shown {
  const shown: Shown = { open: [], earlier: [], falseAlarms: [], hidden: 0 };
  for (const i of all) {
    const isStrange = i.p <= 1 / threshold || !!i.changes?.length || i.verdict === "matters";
    if (i.verdict === "false_alarm") shown.falseAlarms.push(i);
    else if (!isStrange) shown.hidden++;
    else (i.state === "open" ? shown.open : shown.earlier).push(i);
  }
  return shown;
}
