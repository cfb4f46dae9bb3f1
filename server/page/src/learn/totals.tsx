import type { Costs } from "../state/costs";
import type { Shadowed } from "./shadows";
import type { Reading } from "../state/reading";
import { bitsText, capital, differenceText, grouped, namesOf, sizeText } from "../ui/words";

interface Props {
  of: Reading;
  costs: Costs;
  shadows: Shadowed[];
  unit: string;
}

/** The cost of the whole stream so far in four numbers, and one for each shadow. */
export function Totals({ of, costs, shadows, unit }: Props) {
  const { totals, offset, step } = of.session.peek();
  const updates = Math.max(step, (of.updates.at(-1)?.step ?? -1) + 1);
  const units = unit === "word" ? totals.tokens : totals.bytes;
  const known = units > 0;
  const fixed = totals.baseline_bits;
  const { served, alone } = namesOf(of.session.peek());
  return (
    <dl class="sums">
      <div class="adapted">
        <dt>{capital(served)}, bits per {unit}</dt>
        <dd>{known ? bitsText(totals.bits / units) : "–"}</dd>
      </div>
      <OfNetwork costs={costs} unit={unit} />
      <div class="static">
        <dt>{capital(alone)}, bits per {unit}</dt>
        <dd>{known && fixed !== undefined ? bitsText(fixed / units) : "–"}</dd>
      </div>
      {shadows.map((shadow, i) => <OfShadow key={shadow.id} of={shadow} at={i} costs={costs} />)}
      <div>
        <dt>{served === "adapted" ? "Gain by learning" : "Compared with the static model"}</dt>
        <dd>{known && fixed ? differenceText(totals.bits, fixed) : "–"}</dd>
      </div>
      <div>
        <dt>{grouped(updates)} updates in</dt>
        <dd>{sizeText(offset)}</dd>
      </div>
    </dl>
  );
}

/** The cost of the text without and with the companion, as far as the page has seen it. */
function OfNetwork({ costs, unit }: { costs: Costs; unit: string }) {
  const from = costs.networkFrom;
  if (from === null) return null;
  const { network, adapted } = costs.sinceNetwork;
  const isAll = from === costs.start;
  return (
    <div class="network">
      <dt>Network alone, {isAll ? `bits per ${unit}` : `from byte ${grouped(from)}`}</dt>
      <dd>{bitsText(network)}{" "}
        {!isAll && <small>session: {bitsText(adapted)}</small>}</dd>
    </div>
  );
}

/** The cost of the text for a shadow, and for the session up to the same place. */
function OfShadow({ of, at, costs }: { of: Shadowed; at: number; costs: Costs }) {
  const both = Math.min(of.costs.end, costs.end);
  if (both <= of.costs.start) return null;
  return (
    <div class={`shadow${at + 1}`}>
      <dt>Shadow {of.name}, up to byte {grouped(both)}</dt>
      <dd>{bitsText(of.costs.mean(of.costs.start, both).adapted)}{" "}
        <small>session: {bitsText(costs.mean(costs.start, both).adapted)}</small></dd>
    </div>
  );
}
