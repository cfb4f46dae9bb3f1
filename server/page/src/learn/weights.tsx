import { useMemo, useState } from "preact/hooks";
import type { Reading } from "../state/reading";
import { isDark } from "../state/theme";
import { Choice } from "../ui/choice";
import { stopsOf } from "../ui/ramp";
import { grouped } from "../ui/words";
import { Heat } from "./heat";
import { groupsOf, numbersOf, wordsFor, type Shown } from "./strips";

interface Props {
  of: Reading;
  news: unknown; // changes when `of` has news
  from: number;
  to: number;
  cursor: number | null;
  branch: number;
  narrow: boolean;
  onCursor: (offset: number | null, branch: number) => void;
}

/** The effect of each update on the fast weights of each branch. */
export function FastWeights(props: Props) {
  const { of, from, to, cursor, branch } = props;
  const [shown, setShown] = useState<Shown>("norm");
  const [own, setOwn] = useState(true);
  const groups = useMemo(() => groupsOf(of.branches.map(({ name }) => name)), [of.branches]);
  if (of.updates.length === 0) return <NoneYet of={of} />;
  const banks = of.updates[0].bankNorms.map((_, bank) => ({
    value: bank as Shown, name: `bank ${bank + 1}`,
  }));
  const order = groups.flatMap((group) => group.branches);
  const pick = (by: number): number => {
    const place = Math.max(0, order.indexOf(branch)) + (branch < 0 ? 0 : by);
    return order[Math.min(order.length - 1, Math.max(0, place))];
  };
  const ramp = `linear-gradient(90deg, ${stopsOf(isDark())})`;
  const said = saidOf(of, shown, cursor ?? to, branch);
  const keys: Record<string, () => void> = {
    ArrowUp: () => props.onCursor(cursor ?? to, pick(-1)),
    ArrowDown: () => props.onCursor(cursor ?? to, pick(1)),
    ArrowLeft: () => props.onCursor(Math.max(from, (cursor ?? to) - (to - from) / 200), pick(0)),
    ArrowRight: () => props.onCursor(Math.min(to, (cursor ?? to) + (to - from) / 200), pick(0)),
    Escape: () => props.onCursor(null, -1),
  };
  return (
    <figure class="weights">
      <figcaption>
        <h2>Fast weights</h2>
        <span class="scale-key" aria-hidden="true">
          {own ? "smallest" : "0"} <i style={{ background: ramp }} /> largest
        </span>
        <Choice label="Show" value={shown} onChoose={setShown} options={[
          { value: "norm", name: "size" }, { value: "change", name: "change" },
          ...(banks.length > 1 ? banks : []),
        ]} />
        <Choice label="Scale" value={own} onChoose={setOwn}
          options={[{ value: true, name: "per row" }, { value: false, name: "shared" }]} />
      </figcaption>
      <div class="along" role="slider" tabIndex={0} aria-orientation="vertical"
        aria-label="Fast weights of the model" aria-valuemin={0} aria-valuemax={order.length - 1}
        aria-valuenow={Math.max(0, order.indexOf(branch))} aria-valuetext={said}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act) return;
          event.preventDefault();
          act();
        }}>
        <Heat updates={of.updates} branches={of.branches} groups={groups} shown={shown} own={own}
          from={from} to={to} cursor={cursor} branch={branch} narrow={props.narrow}
          onCursor={props.onCursor} />
      </div>
      <p class="readout">{said}</p>
    </figure>
  );
}

function NoneYet({ of }: { of: Reading }) {
  const method = of.session.peek().settings?.method;
  const learns = method !== "static" && method !== "cache";
  return (
    <section class="weights">
      <h2>Fast weights</h2>
      <p class="note">
        {learns
          ? "The next update will appear here."
          : `The method of this session, ${method}, has no fast weights.`}
      </p>
    </section>
  );
}

function saidOf(of: Reading, shown: Shown, offset: number, branch: number): string {
  const update = of.updates.findLast((update) => update.offset <= offset);
  if (!update) return "This page has seen no update before this place.";
  const moment = `Update ${grouped(update.step + 1)}, at byte ${grouped(update.offset)}`;
  if (branch < 0) return `${moment}: wrote ${grouped(update.written)} weights.`;
  const what = shown === "norm" ? "norm"
    : shown === "change" ? "changed by" : `bank ${shown + 1}, norm`;
  return `${moment}: ${wordsFor(of.branches[branch].name)}, ${what} ${
    numbersOf(update, shown)[branch].toPrecision(3)}`;
}
