import { useLayoutEffect, useRef } from "preact/hooks";
import type { Incident, LineWhy, Verdict } from "../api/types";
import { levelOf, markLevel } from "../read/scale";
import { heatOf } from "../state/ratings";
import { href } from "../state/route";
import { grouped } from "../ui/words";
import { markOf, rankText, reasonOf } from "../ui/why";

interface Props {
  of: Incident;
  session: string;
  isChosen: boolean; // keys act on this incident
  isOpen: boolean;
  canTab: boolean;
  moves: number; // a change moves the focus here; 0: never
  onChoose: () => void;
  onToggle: () => void;
  onJudge: (verdict: Verdict | null) => void;
}

const kinds = {
  surge: "surge",
  novelty: "new kind",
  number: "number",
  silence: "silence",
  drift: "drift",
  empty: "empty",
  field: "new field",
  missing: "missing",
  format: "new format",
};
const verdicts = { false_alarm: "false alarm", matters: "matters" };

/** The approximate number of visible letters of a collapsed incident's line. */
const lettersSeen = (): number =>
  innerWidth > 860 ? Math.floor((Math.min(innerWidth, 1536) - 420) / 9) : 90;

/** An incident in two rows, or expanded with all details. */
export function Row(p: Props) {
  const { of } = p;
  const head = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (p.moves === 0) return;
    head.current!.focus({ preventScroll: true });
    head.current!.scrollIntoView({ block: "nearest" });
  }, [p.moves]);
  const isChangeAlone = of.p >= 1;
  const about = `${grouped(of.lines)} line${of.lines === 1 ? "" : "s"}`;
  const why = [...(of.changes ?? []).map((c) => c.evidence), reasonOf(of.why)].filter(Boolean);
  return (
    <li class={`incident ${of.state}${p.isChosen ? " chosen" : ""}`}>
      <button ref={head} type="button" class="head" aria-expanded={p.isOpen}
        tabIndex={p.canTab ? 0 : -1} onFocus={p.onChoose} onClick={p.onToggle}>
        <i class={`heat ${levelOf(heatOf(of))}`} aria-hidden="true" />
        <span class="rank">
          {isChangeAlone ? kinds[of.changes![0].kind] : rankText(of.rank)}
          {!isChangeAlone && of.changes && <small>{kinds[of.changes[0].kind]}</small>}
        </span>
        <span class="what">
          <Marked line={of.samples[0] ?? ""} why={of.why} heat={heatOf(of)} isShort />
          <span class="why">
            {of.state === "stays" && <><em>usual now</em>{" "}</>}
            {of.verdict && <><em class={of.verdict}>{verdicts[of.verdict]}</em>{" "}</>}
            {why.join(" · ")}
          </span>
        </span>
        <span class="size">
          {about}
          <small>{grouped(of.first)}{of.last > of.first && `–${grouped(of.last)}`}</small>
        </span>
      </button>
      {p.isOpen && <Opened {...p} />}
    </li>
  );
}

function Opened({ of, session, onJudge }: Props) {
  const reason = reasonOf(of.why);
  return (
    <div class="opened">
      <ol class="samples-of">
        {of.samples.map((line, i) => <li key={i}><Marked line={line} why={of.why} heat={heatOf(of)} /></li>)}
      </ol>
      {of.lines > of.samples.length &&
        <p class="note">and {grouped(of.lines - of.samples.length)} more</p>}
      <dl>
        {reason && <><dt>Why</dt><dd>{reason}</dd></>}
        {of.changes?.map((c, i) => (
          <div key={i}>
            <dt>{kinds[c.kind][0].toUpperCase() + kinds[c.kind].slice(1)}</dt>
            <dd>{c.evidence}
              <span class="note">
                {" "}from line {grouped(c.first)}, found at {grouped(c.line)}
              </span>
            </dd>
          </div>
        ))}
        <dt>State</dt>
        <dd>{{
          open: "open: more lines may join",
          closed: "closed: 200 lines without another",
          stays: "closed: its lines are usual now",
        }[of.state]}</dd>
      </dl>
      <p class="in-a-row">
        <button type="button" aria-pressed={of.verdict === "false_alarm"}
          onClick={() => onJudge("false_alarm")}>False alarm <kbd>f</kbd></button>
        <button type="button" aria-pressed={of.verdict === "matters"}
          onClick={() => onJudge("matters")}>Matters <kbd>m</kbd></button>
        {of.verdict && (
          <button type="button" onClick={() => onJudge(null)}>Withdraw <kbd>u</kbd></button>
        )}
        <a class="button" href={href("read", session, of.offset)}>Show in Read <kbd>r</kbd></a>
      </p>
    </div>
  );
}

/** A line with its strangest token marked. */
function Marked({ line, why, heat, isShort }: {
  line: string; why?: LineWhy; heat: number; isShort?: boolean;
}) {
  if (line === "") return <span class="line mono note">(no line)</span>;
  const [from, to] = markOf(line, why);
  const room = isShort ? lettersSeen() : Infinity;
  const first = to > room ? Math.max(0, from - Math.floor(room / 3)) : 0; // keeps the mark visible
  const cut = /^[\udc00-\udfff]/.test(line.slice(first, first + 1)) ? first - 1 : first;
  return (
    <span class="line mono">
      {cut > 0 && "…"}{line.slice(cut, from)}
      {to > from && <mark class={markLevel(heat)}>{line.slice(from, to)}</mark>}{line.slice(to)}
    </span>
  );
}
