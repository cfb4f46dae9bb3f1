import { useMemo, useRef, useState } from "preact/hooks";
import { Along } from "../learn/along";
import { Chart, type Line } from "../learn/chart";
import { FastWeights } from "../learn/weights";
import { Tables } from "../learn/table";
import { newsOf, useShadows, type Shadowed } from "../learn/shadows";
import { Totals } from "../learn/totals";
import { ReadingProblems } from "../shell/problem";
import { reading, resume, stop } from "../state/feed";
import type { Reading } from "../state/reading";
import { href } from "../state/route";
import { Choice } from "../ui/choice";
import { useCalm, useWidth } from "../ui/hooks";
import { bitsText, namesOf } from "../ui/words";

const places = 600; // points of the chart
const windows = [
  { value: 256, name: "256 B" }, { value: 1024, name: "1 kB" }, { value: 4096, name: "4 kB" },
  { value: 16384, name: "16 kB" }, { value: Infinity, name: "all before" },
];

/** Shows how the session learns: the cost of its text, and the effect of updates. */
export function LearnView() {
  const shown = reading.value;
  return shown ? <Learning key={shown.session.peek().id} of={shown} /> : <Nothing />;
}

function Nothing() {
  return (
    <section class="empty">
      <h1>Watch a model learn</h1>
      <p>
        While text streams through a session, this view shows its cost in bits, the cost for a
        model that does not learn, and the weights that each update changes.
      </p>
      <p><a class="button primary" href={href("read", "")}>Read a text</a>{" "}
        <a class="button" href={href("sessions", "")}>Choose a session</a></p>
    </section>
  );
}

/** The shown part of the stream; null means all of it, even as it grows. */
type Range = [number, number] | null;

function Learning({ of }: { of: Reading }) {
  useCalm(of.changed, 200);
  const shadows = useShadows(of);
  const unit = of.ofWords && shadows.length === 0 ? "word" : "byte";
  const costs = of.costs[unit];
  const [window, setWindow] = useState(1024);
  const [range, setRange] = useState<Range>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const [branch, setBranch] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const narrow = useWidth(box) < 640;
  const [from, to] = range ?? [costs.start, Math.max(costs.end, costs.start + 1)];
  const curve = useMemo(
    () => costs.curve(from, to, places, window), [costs, from, to, costs.end, window],
  );
  // Changes with the contents of `of` and `shadows`, which stay the same objects.
  const news = `${of.changed.peek()} ${newsOf(shadows)}`;
  const shadowed = useMemo(
    () => linesOf(shadows, from, to, window), [from, to, newsOf(shadows), window],
  );
  const { served, alone } = namesOf(of.session.peek());
  const lines: Line[] = [
    { label: served, colour: "--adapted", values: curve.adapted },
    { label: "network alone", colour: "--network", dash: [4, 3], values: curve.network },
    { label: alone, colour: "--static", values: curve.fixed },
  ].filter(({ values }, i) => i === 0 || values.some((value) => value !== null));
  lines.push(...shadowed);
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const gutter = rem * (narrow ? 2.75 : 5.25); // as wide as the labels of the strips
  return (
    <div class="learn" ref={box}>
      <header class="head">
        <h1>How it learns</h1>
        <Live of={of} />
      </header>
      <ReadingProblems of={of} />
      <Totals of={of} costs={costs} shadows={shadows} unit={unit} />
      {costs.end === 0 ? <Waiting of={of} /> : (
        <>
          <figure>
            <figcaption>
              <h2>Bits per {unit}</h2>
              <Legend lines={lines} at={Math.ceil(
                ((cursor ?? to) - from) / (to - from) * places) - 1} />
              <Choice label="Mean over" options={windows} value={window} onChoose={setWindow} />
              {range && <button type="button" onClick={() => setRange(null)}>Show all</button>}
            </figcaption>
            <Along of={costs} from={from} to={to} cursor={cursor} onCursor={setCursor}
              onRange={setRange} unit={unit} window={window}>
              <Chart x={curve.x} lines={lines} from={from} to={to} cursor={cursor} gutter={gutter}
                moments={momentsOf(of, from, to)} onCursor={setCursor}
                onZoom={(low, high) => setRange([low, high])} />
            </Along>
            <p class="note">
              The horizontal axis is the offset in the stream, in bytes. Each mark at the bottom is an
              update of the fast weights.{" "}
              {of.session.peek().settings?.companion && "\"Network alone\" is the " +
                "cost without the companion, for text scored while this page was open. "}
              Drag to zoom. Keys: <kbd>←</kbd> <kbd>→</kbd> move,{" "}
              <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>0</kbd> shows all.
            </p>
          </figure>
          <FastWeights of={of} news={news} from={from} to={to} cursor={cursor} branch={branch}
            narrow={narrow} onCursor={(offset, at) => {
              setCursor(offset);
              setBranch(at);
            }} />
          <Tables costs={costs} shadows={shadows} of={of} from={from} to={to} unit={unit} />
        </>
      )}
    </div>
  );
}

/** The dashes of shadows' curves, which distinguish them without color. */
const dashes = [[8, 5], [2, 4], [12, 4, 2, 4], [5, 3]];

function linesOf(shadows: Shadowed[], from: number, to: number, window: number): Line[] {
  return shadows.map(({ name, costs }, i) => ({
    label: `shadow ${name}`,
    colour: `--shadow${(i % dashes.length) + 1}`,
    dash: dashes[i % dashes.length],
    values: costs.curve(from, to, places, window).adapted,
  }));
}

/** Offsets of the updates in a range. */
function momentsOf(of: Reading, from: number, to: number): number[] {
  return of.updates.map(({ offset }) => offset).filter((at) => at >= from && at <= to);
}

/** The names of the curves, and their values at one point. */
function Legend({ lines, at }: { lines: Line[]; at: number }) {
  return (
    <ul class="lines-key">
      {lines.map(({ label, colour, dash, values }) => (
        <li key={colour}>
          <svg aria-hidden="true" width="28" height="3" stroke={`var(${colour})`}>
            <path d="M0 1.5h28" stroke-width="3" stroke-dasharray={dash?.join()} />
          </svg>
          {label} <b>{bitsText(values[Math.max(0, at)])}</b>
        </li>
      ))}
    </ul>
  );
}

/** Whether anything streams, and a button to follow a session that another client feeds. */
function Live({ of }: { of: Reading }) {
  const activity = of.activity.value;
  if (activity === "idle") {
    const rest = of.end > of.session.peek().offset; // the text was not sent completely
    return (
      <button type="button" onClick={() => void resume(of)}>
        {rest ? "Continue" : "Watch live"}
      </button>
    );
  }
  const words = { opening: "Opening…", feeding: "Reading", watching: "Watching" };
  return (
    <span class="live" role="status">
      <i aria-hidden="true" />{words[activity]}
      {activity !== "opening" && <button type="button" onClick={stop}>Stop</button>}
    </span>
  );
}

function Waiting({ of }: { of: Reading }) {
  return (
    <section class="empty">
      <p>
        {of.activity.value === "idle"
          ? "This session has no text yet. Add text, or watch while another client feeds it."
          : "Nothing has been scored yet. The chart starts with the first chunk."}
      </p>
      {of.activity.value === "idle" &&
        <a class="button primary" href={href("read")}>Add text</a>}
    </section>
  );
}
