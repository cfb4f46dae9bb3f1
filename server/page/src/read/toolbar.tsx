import { useState } from "preact/hooks";
import { feed, reread, rereadBytes, resume, stop } from "../state/feed";
import type { Reading } from "../state/reading";
import { Choice } from "../ui/choice";
import { grouped, perByte, sizeText } from "../ui/words";
import { stepsOf, type Mode } from "./scale";
import { Composer } from "./start";

export type Shape = "text" | "lines";

const shapes: { value: Shape; name: string }[] = [
  { value: "text", name: "Text" },
  { value: "lines", name: "Lines" },
];
const colours: { value: Mode; name: string }[] = [
  { value: "unusual", name: "Unusual" },
  { value: "adaptive", name: "Adaptive" },
  { value: "static", name: "Static" },
  { value: "difference", name: "Difference" },
];

interface Props {
  reading: Reading;
  shape: Shape;
  setShape: (shape: Shape) => void;
  mode: Mode;
  setMode: (mode: Mode) => void;
  follows: boolean;
  setFollows: (on: boolean) => void;
}

/** Controls for what is shown and how, and for further reading. */
export function Toolbar(p: Props) {
  const [adding, setAdding] = useState(false);
  const { reading } = p;
  const activity = reading.activity.value;
  const hasBaseline = reading.session.value.settings?.baseline ?? false;
  const addText = (
    <button type="button" aria-expanded={adding} onClick={() => setAdding(!adding)}>
      Add text
    </button>
  );
  return (
    <>
      <div class="toolbar">
        <Choice label="View" options={shapes} value={p.shape} onChoose={p.setShape} />
        {p.shape === "text" && reading.hasCosts && (
          <Choice label="Colors" value={p.mode} onChoose={p.setMode}
            options={colours.filter(({ value }) =>
              hasBaseline || value === "unusual" || value === "adaptive")} />
        )}
        <span class="space" />
        {activity === "feeding" || activity === "watching" ? (
          <>
            {activity === "watching" && addText}
            <button type="button" class="quiet" aria-pressed={p.follows}
              onClick={() => p.setFollows(!p.follows)}>
              {p.follows ? "Following" : "Follow"}
            </button>
            <button type="button" onClick={stop}>
              {activity === "feeding" ? "Pause" : "Stop"}
            </button>
          </>
        ) : activity === "idle" && reading.end > reading.session.value.offset ? (
          <button type="button" class="primary" onClick={() => void resume(reading)}>Continue</button>
        ) : activity === "idle" && (
          <>
            {addText}
            <button type="button" onClick={() => { p.setFollows(true); void resume(reading); }}
              title="Shows text that other clients feed to this session">
              Watch
            </button>
          </>
        )}
      </div>
      {adding && (activity === "idle" || activity === "watching") && (
        <Composer label="Text to add" action="Read" busy={false} onText={(_, text) => {
          setAdding(false);
          p.setFollows(true);
          void feed(reading, text);
        }} />
      )}
      <Totals reading={reading} />
      {p.shape === "text" && <Legend mode={p.mode} words={reading.ofWords} />}
      {p.shape === "text" && p.mode !== "unusual" && <Coarse reading={reading} />}
    </>
  );
}

const doing = {
  idle: "", opening: "Opening…", feeding: "Reading…", watching: "Watching…",
};

/** The progress of the reading, and its cost. */
function Totals({ reading }: { reading: Reading }) {
  reading.changed.value;
  const { totals, offset } = reading.session.value;
  const { adapted, fixed } = perByte(totals);
  const waiting = reading.end - offset;
  return (
    <p class="totals">
      <span class="doing">{doing[reading.activity.value]}</span>
      <span>{grouped(offset)} bytes{waiting > 0 && ` of ${grouped(reading.end)}`}</span>
      {adapted !== undefined && reading.hasCosts &&
        <span><i class="dot of-adapted" />{adapted.toFixed(2)} bits per byte</span>}
      {fixed !== undefined &&
        <span><i class="dot of-static" />{fixed.toFixed(2)} without learning</span>}
    </p>
  );
}

/** Says where colors are coarse, and offers to refine them. */
function Coarse({ reading }: { reading: Reading }) {
  reading.changed.value;
  if (reading.rereading.value) return <p class="note coarse">Scoring this text again…</p>;
  if (reading.coarseTo === 0) return null;
  return (
    <p class="note coarse">
      The colors of the first {grouped(reading.coarseTo)} bytes are means over chunks, because the
      page was opened after the bytes were scored.{" "}
      <button type="button" onClick={() => void reread(reading)}>
        Score the last {sizeText(Math.min(rereadBytes, reading.coarseTo))} of them again
      </button>
    </p>
  );
}

/** The meaning of the colors. */
function Legend({ mode, words }: { mode: Mode; words: boolean }) {
  const unit = words ? "bits per word" : "bits per byte";
  const title = mode === "difference"
    ? `${unit}: learning costs ← → learning saves`
    : mode === "unusual" ? "rarity: one line in N is at least this strange" : `${unit}, ${mode}`;
  return (
    <figure class="legend" aria-label={`Colors: ${title}`}>
      <ol>
        {stepsOf(mode, words).map((step) => (
          <li key={step.name} class={step.name}>{step.label}</li>
        ))}
      </ol>
      <figcaption class="note">{title}</figcaption>
    </figure>
  );
}
