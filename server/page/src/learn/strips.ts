import type { Update } from "../state/reading";
import { firstFrom } from "../state/costs";

/** The displayed norm of the fast weights: of all, of one bank, or of their change. */
export type Shown = "norm" | "change" | number;

/** The displayed number of each branch after an update. */
export function numbersOf(update: Update, shown: Shown): Float32Array {
  if (shown === "norm") return update.norms;
  return shown === "change" ? update.changes : update.bankNorms[shown];
}

/**
 * The numbers of each branch at columns between two offsets, branch by branch; NaN before the first
 * update. An update applies until the next one; a column shows its largest value.
 */
export function stripsOf(
  updates: Update[], branches: number, shown: Shown, from: number, to: number, columns: number,
): Float32Array {
  const strips = new Float32Array(branches * columns).fill(NaN);
  const offsets = updates.map((update) => update.offset);
  let next = firstFrom(offsets, from);
  for (let c = 0; c < columns; c++) {
    const first = Math.max(0, next - 1);
    const end = from + ((c + 1) * (to - from)) / columns;
    while (next < updates.length && offsets[next] <= end) next++;
    for (let u = first; u < next; u++) {
      const numbers = numbersOf(updates[u], shown);
      for (let b = 0; b < branches; b++) {
        const at = b * columns + c;
        if (!(strips[at] >= numbers[b])) strips[at] = numbers[b];
      }
    }
  }
  return strips;
}

/** The ends of each branch's scale. */
export interface Scales {
  least: Float64Array;
  largest: Float64Array;
}

/**
 * The scales of branches. Each may have its own, from its smallest to its largest number. Or all
 * share one from 0 for the root mean square of a branch's entries, so that large matrices do not
 * outshine small ones.
 */
export function scalesOf(
  updates: Update[], branches: { elements: number }[], shown: Shown, own: boolean,
): Scales {
  const least = new Float64Array(branches.length).fill(Infinity);
  const largest = new Float64Array(branches.length);
  for (const update of updates) {
    numbersOf(update, shown).forEach((number, b) => {
      least[b] = Math.min(least[b], number);
      largest[b] = Math.max(largest[b], number);
    });
  }
  if (own) return { least, largest };
  const roots = branches.map(({ elements }) => Math.sqrt(elements));
  const most = largest.reduce((most, norm, b) => Math.max(most, norm / roots[b]), 0);
  return { least: least.fill(0), largest: largest.map((_, b) => most * roots[b]) };
}

/** The branches of a layer, by index. */
export interface Group {
  label: string;
  short: string;
  branches: number[];
}

/** Groups branches by layer, in the order of the computation. */
export function groupsOf(names: string[]): Group[] {
  const groups = new Map<number, number[]>(); // by layer; -1: before the first, Infinity: the last
  names.forEach((name, b) => {
    const outside = name.startsWith("crit.") ? Infinity : -1;
    const layer = Number(/^layers\.(\d+)\./.exec(name)?.[1] ?? outside);
    groups.set(layer, [...(groups.get(layer) ?? []), b]);
  });
  return [...groups].sort(([a], [b]) => a - b).map(([layer, branches]) => {
    if (layer < 0) return { label: "Embedding", short: "Emb", branches };
    if (layer === Infinity) return { label: "Output", short: "Out", branches };
    return { label: `Layer ${layer + 1}`, short: `L${layer + 1}`, branches };
  });
}

const parts: [RegExp, string][] = [
  [/qkv_net/, "queries, keys, values"],
  [/r_net/, "distances"],
  [/o_net/, "attention output"],
  [/CoreNet\.0/, "feed-forward, first half"],
  [/CoreNet\.3/, "feed-forward, second half"],
  [/^crit\./, "output"],
  [/emb/, "embedding"],
];

/** Describes a branch for readers who do not know the names of weights. */
export function wordsFor(name: string): string {
  const layer = /^layers\.(\d+)\./.exec(name)?.[1];
  const part = parts.find(([pattern]) => pattern.test(name))?.[1] ?? name;
  const kind = name.endsWith("bias") ? `${part} (bias)` : part;
  return layer === undefined ? kind : `layer ${Number(layer) + 1}, ${kind}`;
}
