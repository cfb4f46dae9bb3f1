import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { isTooLong } from "../api/suggest";
import { forkSession } from "../api/sessions";
import { grouped } from "../ui/words";
import { ModelChoice } from "../shell/model";
import { Problem, ReadingProblems } from "../shell/problem";
import { draftOf, keepDraft, unsentOf } from "../state/drafts";
import { begin, feed, finish, reading, resume, showFork } from "../state/feed";
import type { Reading } from "../state/reading";
import { href, route } from "../state/route";
import { decode } from "../ui/decode";
import { useCalm, useIsShown } from "../ui/hooks";
import { Cards } from "../write/cards";
import { Controls, type Act } from "../write/controls";
import { actOf, Keys } from "../write/keys";
import { List } from "../write/list";
import { Offers } from "../write/offers";
import { Sheet } from "../write/sheet";
import { joined, Suggestions, sources, type Sampling, type Source } from "../write/suggestions";

/** How much of the session's text the sheet starts with. */
const tailBytes = 6000;
/** The end of a sentence or a line. */
const sentenceEnd = /\n$|[.!?…]["'”’)\]]*\s$/;

/** Learnt text of a session that has received more text since. */
interface Learnt {
  text: string;
  offset: number; // of the session before
}

/** Continues the session's text together with the models. */
export function WriteView() {
  const shown = reading.value;
  return shown ? <Writing key={shown.session.peek().id} on={shown} /> : <Nothing />;
}

function Nothing() {
  const [problem, setProblem] = useState<ProblemError | null>(null);
  return (
    <section class="empty">
      <h1>Write with a model that learns from you</h1>
      <p>
        While you type, the model suggests the next words in gray if they are likely. It learns each
        finished sentence: the longer you write, the better it predicts your words.
      </p>
      {problem && <Problem error={problem} />}
      <ModelChoice />
      <p>
        <button class="primary" type="button" onClick={() => {
          begin("Written here").catch((error) => setProblem(asProblem(error)));
        }}>Start a text</button>{" "}
        <a class="button" href={href("sessions", "")}>Choose a session</a>
      </p>
    </section>
  );
}

function Writing({ on }: { on: Reading }) {
  useCalm(on.changed, 100);
  const isHere = useIsShown();
  const suggestions = useMemo(() => new Suggestions(), [on]);
  const offers = useMemo(() => new Offers(on), [on]);
  const { id, offset, settings } = on.session.value;
  const [draft, setDraft] = useState(() => draftOf(id));
  const [cursor, setCursor] = useState(draft.length);
  const [chosen, setChosen] = useState<Source>("adapted");
  const [sampling, setSampling] = useState<Sampling>(
    { temperature: 0.7, tokens: 64, atLineEnd: true },
  );
  const [whileTyping, setWhileTyping] = useState(true);
  const [sentences, setSentences] = useState(true);
  const [learnt, setLearnt] = useState<Learnt | null>(null);
  const [problem, setProblem] = useState<ProblemError | null>(null);
  const tabbed = useRef(false); // the last key has taken a word
  const taken = useRef(false); // the last key was a Tab that has taken text
  const askedAt = useRef(0); // where in the draft the texts of the two models begin
  const committing = useRef(false);
  const undoing = useRef(false);
  const undone = useRef<{ fork: string; text: string } | null>(null);
  useEffect(() => () => {
    offers.clear();
    suggestions.discard();
  }, [suggestions]);
  useLayoutEffect(() => {
    keepDraft(id, draft);
    if (undone.current) keepDraft(undone.current.fork, undone.current.text + draft);
  }, [draft]);

  const hasStatic = settings?.baseline === true ||
    ["static", "cache"].includes(settings?.method ?? "");
  const from = sources.filter((source) => source === "adapted" || hasStatic);
  const busy = on.activity.value === "feeding";
  const unsent = on.end - offset; // bytes that wait after an interrupted send
  const fixed = useMemo(() => tailOf(on.text.all), [on, on.text.length]);

  const isSent = !busy && unsent === 0; // suggestions require that the session has the shown text
  const mayOffer = settings?.method !== "cache" && !on.ofWords;
  const commit = async (text: string, more: Uint8Array = new Uint8Array()): Promise<void> => {
    if (busy || committing.current || undoing.current || text.length + more.length === 0) return;
    const { offset } = on.session.value;
    if (unsentOf(id) && !on.isKept) { // the earlier text comes first
      if (on.activity.value !== "opening") void resume(on);
      return;
    }
    if (on.end < offset) return; // the text before it is not here yet
    committing.current = true;
    offers.begin();
    suggestions.discard();
    const bytes = joined(new TextEncoder().encode(text), more);
    setLearnt({ text: text + decode(more).text, offset: on.end });
    setDraft((now) => now.slice(text.length));
    setCursor((now) => Math.max(0, now - text.length));
    try {
      await feed(on, bytes, true);
      const hasLeft = !on.isNamed(route.value.session);
      if (hasLeft) await finish(on).catch(() => {}); // the text is kept for the next visit
    } finally {
      committing.current = false;
    }
  };
  const write = (text: string, at: number): void => {
    suggestions.discard();
    const added = text.startsWith(draft) ? text.slice(draft.length) : "";
    setDraft(text);
    setCursor(at);
    tabbed.current = false;
    const atEnd = at === text.length;
    if (sentences && atEnd && added && sentenceEnd.test(text) && isSent && !committing.current) {
      void commit(text);
    } else if (whileTyping && mayOffer && atEnd && text !== "" && isSent) {
      offers.typed(added, text);
    } else {
      offers.clear();
    }
  };
  const insert = (text: string): void =>
    write(draft.slice(0, cursor) + text + draft.slice(cursor), cursor + text.length);
  const accept = (source: Source): void => {
    const suggestion = suggestions.of[source].value;
    if (suggestion?.done && suggestion.bytes.length) {
      void commit(draft.slice(0, askedAt.current), suggestion.bytes);
    }
  };
  const undo = async (): Promise<void> => {
    if (!learnt || busy || undoing.current) return;
    undoing.current = true;
    try {
      const { labels, ttl_seconds } = on.session.value;
      const fork = await forkSession(id, { at_offset: learnt.offset, labels, ttl_seconds });
      // One may have written on, and does so until the fork is shown.
      undone.current = { fork: fork.id, text: learnt.text };
      keepDraft(fork.id, learnt.text + draftOf(id));
      if (isHere()) void showFork(fork);
    } catch (error) {
      undoing.current = false;
      setProblem(asProblem(error));
    }
  };
  const act: Record<Act, () => void> = {
    accept: () => {
      if (!offers.inline.value) return accept(chosen);
      const again = tabbed.current;
      insert(again ? offers.inline.value : offers.word);
      tabbed.current = offers.inline.value !== ""; // of the next offer, a word comes first
    },
    discard: () => {
      offers.pass(draft);
      suggestions.discard();
    },
    suggest: () => {
      if (!isSent || !mayOffer) return;
      suggestions.discard();
      offers.all(draft.slice(0, cursor)).catch((error) => {
        if (!isAbort(error)) setProblem(asProblem(error));
      });
    },
    down: () => offers.turn(1),
    up: () => offers.turn(-1),
    take: () => insert(offers.list.value[offers.chosen.value].text),
    commit: () => void commit(draft),
    undo: () => void undo(),
    continue: () => {
      offers.clear();
      if (!isSent) return;
      askedAt.current = cursor;
      suggestions.ask(id, draft.slice(0, cursor), sampling, from);
    },
    next: () => suggestions.turn(1),
    previous: () => suggestions.turn(-1),
    adapted: () => setChosen("adapted"),
    static: () => setChosen("static"),
  };
  const atEnd = cursor === draft.length;
  const sampled = suggestions.of[chosen].value?.text ?? "";
  const ghost = !atEnd ? "" : offers.inline.value || (askedAt.current === cursor ? sampled : "");
  const isShown = {
    offer: atEnd && offers.inline.value !== "", list: offers.list.value.length > 0,
    texts: suggestions.any, draft: draft !== "",
  };
  return (
    <div class="write">
      <h1 class="hidden">Write</h1>
      <ReadingProblems of={on} />
      {problem && <Problem error={problem} />}
      {unsent > 0 && on.activity.value === "idle" && !on.problem.value && (
        <p class="note">The last {grouped(unsent)} bytes have not been sent yet.{" "}
          <button type="button" onClick={() => void resume(on)}>Send them</button></p>
      )}
      <Sheet fixed={fixed} draft={draft} ghost={ghost}
        entry={isShown.list ? offers.chosen.value : -1} onDraft={write}
        onCursor={(at) => {
          if (at !== cursor && isShown.list) offers.clear(); // it is for another place
          setCursor(at);
        }}
        onKey={(event) => {
          const name = actOf(event, isShown);
          const isTab = event.code === "Tab" && !event.shiftKey;
          const again = isTab && taken.current; // without an offer, it would leave the sheet
          taken.current = isTab && (name === "accept" || name === "take");
          if (!name && !again) return;
          event.preventDefault();
          if (!name) return;
          act[name]();
        }} />
      <List of={offers} onTake={insert} />
      {mayOffer && isTooLong(draft) && (
        <p class="note">The draft is too long for suggestions: commit it first.</p>
      )}
      <Controls sampling={sampling} onSampling={setSampling} whileTyping={whileTyping}
        onWhileTyping={setWhileTyping} sentences={sentences} onSentences={setSentences}
        learnt={learnt?.text ?? ""} act={act} any={suggestions.any} busy={busy}
        offered={isShown.offer || isShown.list} draft={draft !== ""} attempt={suggestions.attempt.value} />
      <Cards of={suggestions} chosen={chosen} hasStatic={hasStatic} onChoose={setChosen}
        onAccept={accept} />
      <Keys />
    </div>
  );
}

/** The end of a session's text, from the start of a line if one is near. */
function tailOf(known: Uint8Array): string {
  let first = Math.max(0, known.length - tailBytes);
  const line = first === 0 ? -1 : known.indexOf(10, first);
  if (line >= 0 && line < known.length - tailBytes / 2) first = line + 1;
  const { text } = decode(known.subarray(first));
  return (first > 0 ? "… " : "") + text.replaceAll("^M\n", "\n");
}
