import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { asProblem, type ProblemError } from "../api/problem";
import { grouped } from "../ui/words";
import { ModelChoice } from "../shell/model";
import { Problem } from "../shell/problem";
import { begin, feed, reading, resume } from "../state/feed";
import type { Reading } from "../state/reading";
import { href } from "../state/route";
import { decode } from "../ui/decode";
import { useCalm } from "../ui/hooks";
import { Cards } from "../write/cards";
import { Controls, type Act } from "../write/controls";
import { actOf, Keys } from "../write/keys";
import { Sheet } from "../write/sheet";
import { Suggestions, sources, type Sampling, type Source } from "../write/suggestions";

/** How much of the session's text the sheet begins with. */
const tailBytes = 6000;
/** How long one does not type before texts are suggested. */
const pauseMs = 500;

/** Writes on at the end of the session's text, together with the models. */
export function WriteView() {
  const shown = reading.value;
  return shown ? <Writing key={shown.session.value.id} on={shown} /> : <Nothing />;
}

function Nothing() {
  const [problem, setProblem] = useState<ProblemError | null>(null);
  return (
    <section class="empty">
      <h1>Write with a model that learns from you</h1>
      <p>
        Two models go on with your text: one that learns what you commit, and one that stays as it
        was made. The longer you write, the more they differ.
      </p>
      {problem && <Problem error={problem} />}
      <ModelChoice />
      <p>
        <button class="primary" type="button" onClick={() => {
          begin("Written here").catch((error) => setProblem(asProblem(error)));
        }}>Begin a text</button>{" "}
        <a class="button" href={href("sessions", "")}>Choose a session</a>
      </p>
    </section>
  );
}

function Writing({ on }: { on: Reading }) {
  useCalm(on.changed, 100);
  const suggestions = useMemo(() => new Suggestions(), [on]);
  const [draft, setDraft] = useState("");
  const [cursor, setCursor] = useState(0);
  const [chosen, setChosen] = useState<Source>("adapted");
  const [sampling, setSampling] = useState<Sampling>(
    { temperature: 0.7, tokens: 64, atLineEnd: true },
  );
  const [whileTyping, setWhileTyping] = useState(true);
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => {
    clearTimeout(waiting.current);
    suggestions.discard();
  }, [suggestions]);

  const { id, offset, settings } = on.session.value;
  const hasStatic = settings?.baseline === true ||
    ["static", "cache"].includes(settings?.method ?? "");
  const from = sources.filter((source) => source === "adapted" || hasStatic);
  const busy = on.activity.value === "feeding";
  const unsent = on.end - offset; // bytes that wait, where sending them has ended early
  const fixed = useMemo(() => tailOf(on.text.all), [on, on.text.length]);

  const suggest = (text = draft, at = cursor): void => {
    clearTimeout(waiting.current);
    if (on.end === on.session.value.offset) suggestions.ask(id, text.slice(0, at), sampling, from);
  };
  const write = (text: string, at: number): void => {
    suggestions.discard();
    setDraft(text);
    setCursor(at);
    clearTimeout(waiting.current);
    if (whileTyping && text !== "") waiting.current = setTimeout(() => suggest(text, at), pauseMs);
  };
  const commit = async (upTo: number, more: Uint8Array): Promise<void> => {
    if (busy || upTo + more.length === 0) return;
    clearTimeout(waiting.current);
    suggestions.discard();
    const text = new Blob([draft.slice(0, upTo), more as BlobPart]);
    setDraft(draft.slice(upTo));
    setCursor(Math.max(0, cursor - upTo));
    await feed(on, text);
  };
  const accept = (source: Source): void => {
    const suggestion = suggestions.of[source].value;
    if (suggestion?.done && suggestion.bytes.length) void commit(cursor, suggestion.bytes);
  };
  const act: Record<Act, () => void> = {
    accept: () => accept(chosen),
    discard: () => suggestions.discard(),
    next: () => suggestions.turn(1),
    previous: () => suggestions.turn(-1),
    suggest: () => suggest(),
    commit: () => void commit(draft.length, new Uint8Array()),
    adapted: () => setChosen("adapted"),
    static: () => setChosen("static"),
  };
  const ghost = cursor === draft.length ? suggestions.of[chosen].value?.text ?? "" : "";
  return (
    <div class="write">
      <h1 class="hidden">Write</h1>
      {on.problem.value && <Problem error={on.problem.value} again={() => void resume(on)} />}
      {unsent > 0 && on.activity.value === "idle" && !on.problem.value && (
        <p class="note">The last {grouped(unsent)} bytes have not been sent yet.{" "}
          <button type="button" onClick={() => void resume(on)}>Send them</button></p>
      )}
      <Sheet fixed={fixed} draft={draft} ghost={ghost} onDraft={write} onCursor={setCursor}
        onKey={(event) => {
          const name = actOf(event, suggestions.any);
          if (!name) return;
          event.preventDefault();
          act[name]();
        }} />
      <Controls sampling={sampling} onSampling={setSampling} whileTyping={whileTyping}
        onWhileTyping={setWhileTyping} act={act} any={suggestions.any} busy={busy}
        draft={draft !== ""} attempt={suggestions.attempt.value} />
      <Cards of={suggestions} chosen={chosen} hasStatic={hasStatic} onChoose={setChosen}
        onAccept={accept} />
      <Keys />
    </div>
  );
}

/** The end of a session's text, from the beginning of a line where that is near. */
function tailOf(known: Uint8Array): string {
  let first = Math.max(0, known.length - tailBytes);
  const line = first === 0 ? -1 : known.indexOf(10, first);
  if (line >= 0 && line < known.length - tailBytes / 2) first = line + 1;
  const { text } = decode(known.subarray(first));
  return (first > 0 ? "… " : "") + text.replaceAll("␍\n", "\n");
}
