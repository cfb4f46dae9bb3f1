import type { Reading } from "../state/reading";
import { bitsText, capital, grouped, namesOf } from "../ui/words";
import { firstFrom, type Costs } from "../state/costs";
import type { Shadowed } from "./shadows";
import { wordsFor } from "./strips";

interface Props {
  costs: Costs;
  shadows: Shadowed[];
  of: Reading;
  from: number;
  to: number;
  unit: string;
}

const rows = 20;

/** The chart as a table, and the current fast weights. */
export function Tables(props: Props) {
  return (
    <details class="tables">
      <summary>As tables</summary>
      <CostTable {...props} />
      <BranchTable of={props.of} />
    </details>
  );
}

function CostTable({ costs, shadows, of, from, to, unit }: Props) {
  const offsets = of.updates.map((update) => update.offset);
  const updatesTo = (offset: number): number =>
    of.updates[firstFrom(offsets, offset + 1) - 1]?.nth ?? 0;
  const { served, alone } = namesOf(of.session.peek());
  const hasNetwork = costs.mean(from, to).network !== null;
  const ends = Array.from({ length: rows }, (_, i) => from + ((i + 1) * (to - from)) / rows);
  return (
    <table class="numbers">
      <caption>Bits per {unit} in {rows} equal parts of the chart</caption>
      <thead>
        <tr><th scope="col">Bytes up to</th><th scope="col">{capital(served)}</th>
          {hasNetwork && <th scope="col">Network alone</th>}
          <th scope="col">{capital(alone)}</th>
          {shadows.map(({ id, name }) => <th scope="col" key={id}>Shadow {name}</th>)}
          <th scope="col">Saved</th><th scope="col">Updates</th></tr>
      </thead>
      <tbody>
        {ends.map((end, i) => {
          const begin = i ? ends[i - 1] : from;
          const { adapted, network, fixed } = costs.mean(begin, end);
          return (
            <tr key={i}>
              <th scope="row">{grouped(Math.round(end))}</th>
              <td>{bitsText(adapted)}</td>
              {hasNetwork && <td>{bitsText(network)}</td>}
              <td>{bitsText(fixed)}</td>
              {shadows.map((shadow) => (
                <td key={shadow.id}>{bitsText(shadow.costs.mean(begin, end).adapted)}</td>
              ))}
              <td>{bitsText(adapted === null || fixed === null ? null : fixed - adapted)}</td>
              <td>{updatesTo(end) - updatesTo(begin)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function BranchTable({ of }: { of: Reading }) {
  const update = of.updates.at(-1);
  if (!update) return null;
  const { bankNorms } = update;
  return (
    <table class="numbers">
      <caption>Fast weights after the newest update, at byte {grouped(update.offset)}</caption>
      <thead>
        <tr><th scope="col">Weights</th><th scope="col">Norm</th>
          <th scope="col">Changed by</th>
          {bankNorms.map((_, bank) => <th scope="col" key={bank}>Bank {bank + 1}</th>)}</tr>
      </thead>
      <tbody>
        {of.branches.map(({ name }, b) => (
          <tr key={name}>
            <th scope="row" title={name}>{wordsFor(name)}</th>
            <td>{update.norms[b].toPrecision(3)}</td>
            <td>{update.changes[b].toPrecision(3)}</td>
            {bankNorms.map((norms, bank) => <td key={bank}>{norms[b].toPrecision(3)}</td>)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
