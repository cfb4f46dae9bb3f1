import type { Reading } from "../state/reading";
import { grouped } from "../read/words";
import { bitsText, differenceText, sizeText } from "../ui/words";

/** What the whole stream has cost so far, in four numbers. */
export function Totals({ of, unit }: { of: Reading; unit: string }) {
  const { totals, offset, step } = of.session.value;
  const updates = Math.max(step, (of.updates.at(-1)?.step ?? -1) + 1);
  const units = of.ofWords ? totals.tokens : totals.chars;
  const known = units > 0;
  const fixed = totals.baseline_bits;
  return (
    <dl class="sums">
      <div class="adapted">
        <dt>Adapted, bits a {unit}</dt>
        <dd>{known ? bitsText(totals.bits / units) : "–"}</dd>
      </div>
      <div class="static">
        <dt>Static, bits a {unit}</dt>
        <dd>{known && fixed !== undefined ? bitsText(fixed / units) : "–"}</dd>
      </div>
      <div>
        <dt>What learning does</dt>
        <dd>{known && fixed ? differenceText(totals.bits, fixed) : "–"}</dd>
      </div>
      <div>
        <dt>{grouped(updates)} updates in</dt>
        <dd>{sizeText(offset)}</dd>
      </div>
    </dl>
  );
}
