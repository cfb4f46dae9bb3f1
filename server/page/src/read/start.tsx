import { useEffect, useRef, useState } from "preact/hooks";
import { asProblem, isAbort, unreadable, type ProblemError } from "../api/problem";
import { lastUsed } from "../api/sessions";
import type { Session } from "../api/types";
import { ModelChoice } from "../shell/model";
import { Problem } from "../shell/problem";
import { begin, feed, feedUnshown, reading } from "../state/feed";
import { href } from "../state/route";
import { useIsShown } from "../ui/hooks";
import { firstOf, grouped, shortId } from "../ui/words";
import { samples } from "./samples";

const recentShown = 5;

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

/** The start of a reading: the user's own text, a sample, or an existing session. */
export function Start() {
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const [busy, setBusy] = useState(false);
  const read = async (title: string, text: Uint8Array): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      const opened = await begin(title);
      if (opened === reading.value) void feed(opened, text);
      else await feedUnshown(opened, text);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="start">
      <h1>See what the model did not expect</h1>
      <p class="lead">
        The model reads your text and learns while it reads. Colors show what surprised it. It soon
        expects frequent text.
      </p>
      {problem && <Problem error={problem} />}
      <ModelChoice />
      <Composer label="Text to read" action="Read it" busy={busy} onText={read} />
      <h2>Or try one of these</h2>
      <ul class="samples">
        {samples.map((sample) => (
          <li key={sample.name}>
            <button type="button" disabled={busy}
              onClick={() => void read(sample.name, encode(sample.text()))}>
              <strong>{sample.name}</strong> <span>{sample.note}</span>
            </button>
          </li>
        ))}
      </ul>
      <Recent />
    </div>
  );
}

interface ComposerProps {
  label: string;
  action: string;
  busy: boolean;
  onText: (title: string, text: Uint8Array) => unknown;
}

/** Accepts a text that is typed, pasted, dropped, or chosen as a file. */
export function Composer({ label, action, busy: isUsed, onText }: ComposerProps) {
  const [text, setText] = useState("");
  const [isOver, setOver] = useState(false);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const [isLoading, setLoading] = useState(false);
  const busy = isUsed || isLoading;
  const isShown = useIsShown();
  const chooser = useRef<HTMLInputElement>(null);
  const send = (): void => {
    if (text === "" || busy) return;
    onText(firstOf(text.trim().split("\n", 1)[0], 60) || "Text", encode(text));
    setText("");
  };
  const take = async (file: File | undefined): Promise<void> => {
    if (!file || busy) return;
    setProblem(null);
    setLoading(true);
    let content: ArrayBuffer;
    try {
      content = await file.arrayBuffer();
    } catch (error) {
      return setProblem(unreadable(file, error));
    } finally {
      setLoading(false);
    }
    if (!isShown()) return; // the user has opened another session or view
    onText(file.name, new Uint8Array(content));
  };
  return (
    <form class={`composer${isOver ? " over" : ""}`}
      onSubmit={(e) => { e.preventDefault(); send(); }}
      onDragOver={(e) => { e.preventDefault(); setOver(true); }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        const { files } = e.dataTransfer!;
        if (files.length) void take(files[0]);
        else setText(text + e.dataTransfer!.getData("text/plain"));
      }}>
      <textarea aria-label={label} rows={7} value={text} spellcheck={false}
        placeholder="Paste or type text here, or drop a file"
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); send(); }
        }} />
      <div class="row-of-buttons">
        <button class="primary" type="submit" disabled={busy || text === ""}>{action}</button>
        <button type="button" disabled={busy} onClick={() => chooser.current!.click()}>
          Choose a file…
        </button>
        <input ref={chooser} type="file" hidden
          onChange={(e) => {
            void take(e.currentTarget.files?.[0]);
            e.currentTarget.value = "";
          }} />
        <span class="note"><kbd>Ctrl</kbd>+<kbd>Enter</kbd> reads it</span>
      </div>
      {problem && <Problem error={problem} />}
    </form>
  );
}

/** The sessions used last, to open or watch. */
function Recent() {
  const [sessions, setSessions] = useState<Session[]>([]);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  useEffect(() => {
    const given = new AbortController();
    lastUsed(given.signal)
      .then((all) => setSessions(all.slice(0, recentShown)))
      .catch((error) => { if (!isAbort(error)) setProblem(asProblem(error)); });
    return () => given.abort();
  }, []);
  if (problem) return <Problem error={problem} />;
  if (sessions.length === 0) return null;
  return (
    <>
      <h2>Or open a session and watch its text arrive</h2>
      <ul class="recent">
        {sessions.map((s) => (
          <li key={s.id}>
            <a href={href("read", s.id)}>{s.labels?.title ?? s.name ?? shortId(s.id)}</a>
            <span class="note">{grouped(s.offset)} bytes</span>
          </li>
        ))}
        <li><a href={href("sessions", "")}>All sessions</a></li>
      </ul>
    </>
  );
}
