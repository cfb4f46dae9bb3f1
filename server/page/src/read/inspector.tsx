import { useState } from "preact/hooks";
import { asProblem, type ProblemError } from "../api/problem";
import { forkSession } from "../api/sessions";
import type { Candidate } from "../api/types";
import type { Reading } from "../state/reading";
import { go, route } from "../state/route";
import { Problem } from "../shell/problem";
import { useIsShown } from "../ui/hooks";
import { reasonOf, rankText } from "../ui/why";
import { firstOf, grouped } from "../ui/words";
import { askAgain } from "./again";
import { candidateName, changeIn, percent, shareOf, visible } from "./words";

/** What the models expected at a place, and the actual token. */
export function Inspector({ reading, place }: { reading: Reading; place: number }) {
  reading.changed.value;
  if (place < 0 || place >= reading.text.length) return <Hint ofWords={reading.ofWords} />;
  const [first, end] = reading.tokenAt(place);
  const bytes = reading.text.all.slice(first, end);
  const bits = first < reading.bits.length ? reading.bits.at(first) : NaN;
  const fixed = first < reading.baseline.length ? reading.baseline.at(first) : NaN;
  const isCoarse = first < reading.coarseTo && !reading.predictions.at(reading.from + first);
  const byte = reading.ofWords ? "" : `, byte 0x${bytes[0].toString(16).padStart(2, "0")}`;
  return (
    <>
      <h2 class="glyph"><span class="mono">{visible(bytes)}</span></h2>
      <p class="note">offset {grouped(reading.from + first)}{byte}</p>
      <Rating reading={reading} place={first} />
      {!reading.hasCosts ? null : isNaN(bits)
        ? <p>This byte has no score yet.</p>
        : <Costs bits={bits} fixed={fixed} isCoarse={isCoarse} />}
      {reading.hasCosts && !isNaN(bits) &&
        <Expected key={first} reading={reading} place={first} bits={bits} fixed={fixed} />}
      <ForkHere reading={reading} offset={reading.from + first} />
    </>
  );
}

/** How strange the line of a place is, and why. */
function Rating({ reading, place }: { reading: Reading; place: number }) {
  reading.ratings.changed.value;
  const line = reading.ratings.lines[reading.ratings.indexOf(place)];
  if (!line || line.rank === 1) return null;
  const reason = reasonOf(line.why);
  return (
    <p class="rating">
      Line: <strong>{rankText(line.rank)}</strong>
      {reason && <span class="note">{reason}</span>}
    </p>
  );
}

function Hint({ ofWords }: { ofWords: boolean }) {
  return (
    <>
      <h2>What did the model expect here?</h2>
      <p>Point at the text, or click and use the keys.</p>
      <dl class="keys">
        <dt><kbd>←</kbd> <kbd>→</kbd></dt><dd>a {ofWords ? "word" : "byte"}</dd>
        <dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>a line</dd>
        <dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>next and previous surprise</dd>
        <dt><kbd>Home</kbd> <kbd>End</kbd></dt>
        <dd>start and end of the line; with <kbd>Ctrl</kbd>, of the text</dd>
      </dl>
    </>
  );
}

function Costs({ bits, fixed, isCoarse }: { bits: number; fixed: number; isCoarse: boolean }) {
  return (
    <>
      <dl class="costs">
        <div class="of-adapted">
          <dt>Adaptive</dt><dd>{bits.toFixed(2)} bits<small>{percent(shareOf(bits))}</small></dd>
        </div>
        {!isNaN(fixed) && (
          <div class="of-static">
            <dt>Static</dt><dd>{fixed.toFixed(2)} bits<small>{percent(shareOf(fixed))}</small></dd>
          </div>
        )}
      </dl>
      {isCoarse
        ? <p class="note">A mean over the chunk: the page was opened after this text was
          scored.</p>
        : !isNaN(fixed) && <p>{changeIn(bits, fixed)}</p>}
    </>
  );
}

interface At {
  reading: Reading;
  place: number;
  bits: number;
  fixed: number;
}

/** The likeliest tokens of both models side by side, and the actual one. */
function Expected({ reading, place, bits, fixed }: At) {
  const [state, setState] = useState<"known" | "asking" | ProblemError>("known");
  const kept = reading.predictions.at(reading.from + place);
  if (!kept) {
    const ask = (): void => {
      setState("asking");
      askAgain(reading, place).then(() => setState("known"), (e) => setState(asProblem(e)));
    };
    if (typeof state === "object") return <Problem error={state} again={ask} />;
    return (
      <button type="button" disabled={state === "asking"} onClick={ask}>
        {state === "asking" ? "Asking the model…" : "Ask the model what it expected"}
      </button>
    );
  }
  const [first, end] = reading.tokenAt(place);
  const came = visible(reading.text.all.slice(first, end));
  const rows = rowsOf(kept.adapted, kept.fixed, came, bits, fixed);
  const hasFixed = kept.fixed.length > 0;
  return (
    <table class="expected">
      <caption>Expected here</caption>
      <thead>
        <tr>
          <th scope="col">Text</th>
          <th scope="col">Adaptive</th>
          {hasFixed && <th scope="col">Static</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name} class={row.came ? "came" : undefined}>
            <th scope="row" class="mono">
              {row.name}{row.came && <span class="hidden"> (the actual token)</span>}
            </th>
            <Share of="adapted" share={row.adapted} />
            {hasFixed && <Share of="static" share={row.fixed} />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Share({ of, share }: { of: "adapted" | "static"; share: number | undefined }) {
  return (
    <td>
      <meter class={`bar of-${of}`} min={0} max={1} value={share ?? 0} aria-hidden="true" />
      {share === undefined ? "less" : percent(share)}
    </td>
  );
}

interface Row {
  name: string;
  came: boolean;
  adapted?: number;
  fixed?: number;
}

function rowsOf(
  adapted: Candidate[], fixed: Candidate[], came: string, bits: number, fixedBits: number,
): Row[] {
  const rows = new Map<string, Row>();
  const row = (name: string): Row =>
    rows.get(name) ?? rows.set(name, { name, came: name === came }).get(name)!;
  for (const c of adapted) row(candidateName(c)).adapted = Math.exp(c.logprob);
  for (const c of fixed) row(candidateName(c)).fixed = Math.exp(c.logprob);
  row(came).adapted = shareOf(bits);
  if (!isNaN(fixedBits)) row(came).fixed = shareOf(fixedBits);
  return [...rows.values()].sort((a, b) =>
    (b.adapted ?? 0) - (a.adapted ?? 0) || (b.fixed ?? 0) - (a.fixed ?? 0));
}

function ForkHere({ reading, offset }: { reading: Reading; offset: number }) {
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const isShown = useIsShown();
  const fork = (): void => {
    const { id, labels, ttl_seconds } = reading.session.value;
    const title = firstOf(`${labels?.title ?? "text"}, from ${offset}`, 256);
    forkSession(id, { at_offset: offset, labels: { ...labels, title }, ttl_seconds })
      .then(({ id }) => isShown() && go(route.value.view, id), (e) => setProblem(asProblem(e)));
  };
  return (
    <>
      {problem && <Problem error={problem} />}
      <button class="fork" type="button" onClick={fork}
        title="Creates a session with the text before this place">
        Fork here
      </button>
    </>
  );
}
