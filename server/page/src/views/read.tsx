import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Inspector } from "../read/inspector";
import { looksLikeLog, useRatings } from "../read/lines";
import { TextMap } from "../read/map";
import type { Mode } from "../read/scale";
import { Start } from "../read/start";
import { Strangest } from "../read/strangest";
import { Toolbar, type Shape } from "../read/toolbar";
import { spoken } from "../read/words";
import { Problem, ReadingProblems } from "../shell/problem";
import { reading } from "../state/feed";
import type { Reading } from "../state/reading";
import { route } from "../state/route";

const logBytes = 4096; // bytes of text that show whether it is a log
const strangeRank = 30;

/** Reads a text as a map of surprise. */
export function ReadView() {
  if (reading.value) return <Read reading={reading.value} />;
  return <Start />;
}

function Read({ reading }: { reading: Reading }) {
  const [shape, setShape] = useState<Shape>("text");
  const [asked, setMode] = useState<Mode | null>(null);
  const [follows, setFollows] = useState(true);
  const [caret, setCaret] = useState(-1);
  const [hovered, setHovered] = useState(-1);
  const [selected, setSelected] = useState(-1);
  const listener = useMemo(
    () => ({ caret: setCaret, hover: setHovered, followed: setFollows }), []);
  useEffect(() => {
    setCaret(-1);
    setHovered(-1);
    setSelected(-1);
  }, [reading, reading.from]);
  useEffect(() => setFollows(true), [reading]);
  const activity = reading.activity.value;
  // Logs show incidents first, other texts the expectations at each place.
  const isLog = useMemo(() => looksLikeLog(reading), [reading, reading.text.length > logBytes, activity]);
  const mode = !reading.hasCosts ? "unusual" : asked ?? (isLog && !reading.ratings.problem.value ? "unusual" : "adaptive");
  useRatings(reading, mode === "unusual");
  const { at } = route.value;
  const isThere = at >= reading.from && at < reading.end;
  useEffect(() => {
    if (isThere) setSelected(at - reading.from);
  }, [reading, at, isThere]);
  // After reading a log to its end, the view moves to its strangest line.
  const wasFed = useRef(false);
  const ratings = reading.ratings;
  useEffect(() => {
    if (activity === "feeding") wasFed.current = true;
    if (!wasFed.current || activity !== "idle" || mode !== "unusual" || ratings.rated === 0) return;
    wasFed.current = false;
    const [strangest] = ratings.strangest(1);
    if (follows && strangest?.rank >= strangeRank) setSelected(strangest.span[0]);
  }, [reading, activity, mode, ratings.changed.value]);
  return (
    <div class="read">
      <h1 class="hidden">Read</h1>
      <section class="text" aria-label="Text">
        <ReadingProblems of={reading} />
        {shape === "text" && mode === "unusual" && ratings.problem.value &&
          <Problem error={ratings.problem.value} again={() => ratings.again()} />}
        <Toolbar {...{ reading, shape, setShape, mode, setMode, follows, setFollows }} />
        {shape === "text"
          ? <TextMap {...{ reading, mode, selected, listener }} follow={follows} />
          : <Strangest reading={reading} open={(place) => {
            setSelected(place);
            setShape("text");
          }} />}
      </section>
      <aside class="inspector" aria-label="What was expected">
        <Inspector reading={reading} place={hovered >= 0 ? hovered : caret} />
      </aside>
      <p class="hidden" aria-live="polite">{caret >= 0 && spoken(reading, caret)}</p>
    </div>
  );
}
