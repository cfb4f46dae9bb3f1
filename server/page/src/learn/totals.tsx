import type { Costs } from "./costs";
import type { Reading } from "../state/reading";
import { grouped } from "../read/words";
import { bitsText, differenceText, sizeText } from "../ui/words";

interface Props {
  of: Reading;
  news: number; // changes with what `of` has
  costs: Costs;
  shadow: Costs | null;
  unit: string;
}

/** What the whole stream has cost so far, in four numbers. */
export function Totals({ of, costs, shadow, unit }: Props) {
  const { totals, offset, step } = of.session.value;
  const updates = Math.max(step, (of.updates.at(-1)?.step ?? -1) + 1);
  const units = unit === "word" ? totals.tokens : totals.bytes;
  const both = shadow && shadow.end > shadow.start ? Math.min(shadow.end, costs.end) : 0;
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
      {shadow && both > 0 && (
        <div class="shadow">
          <dt>Shadow, up to byte {grouped(both)}</dt>
          <dd>{bitsText(shadow.mean(shadow.start, both).adapted)}{" "}
            <small>beside {bitsText(costs.mean(costs.start, both).adapted)}</small></dd>
        </div>
      )}
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
