import { signal } from "@preact/signals";
import { isAbort } from "../api/problem";
import { isTooLong, refusedMax, suggest, type Candidate, type SuggestRequest } from "../api/suggest";
import type { Reading } from "../state/reading";

/** The least probability of a text that is offered unasked. */
const sure = 0.6;
const pauseMs = 40;
const listed = 5;

/** A word, with what stands before it, and the punctuation and the space behind it. */
const wordPattern = /^[^\p{L}\p{M}\p{N}'_]*[\p{L}\p{M}\p{N}'_]*[^\p{L}\p{M}\p{N}'_\s]*[ \t]?/u;

/** The length from which on the end of a text may be that of the search, within a word. */
const longest = 40;

function wholeWords(text: string): string {
  const end = text.lastIndexOf(" ") + 1;
  return text.length < longest || end === 0 ? text : text.slice(0, end);
}

/**
 * What may come next: one text behind the draft, which is offered where the model is sure of it, and
 * several on demand. An offer that was typed past is not made again before the draft is learnt.
 */
export class Offers {
  /** The text behind the draft; "" where the model is not sure. */
  readonly inline = signal("");
  /** What was asked for, and which of it is chosen. */
  readonly list = signal<Candidate[]>([]);
  readonly chosen = signal(0);

  #on: Reading;
  #asked = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #passed = new Set<string>(); // drafts with offers behind them

  constructor(on: Reading) {
    this.#on = on;
  }

  /** Takes note of a draft to which some text was added, and offers what follows. */
  typed(added: string, draft: string): void {
    const offer = this.inline.value;
    this.#end();
    this.list.value = [];
    if (added && offer.length > added.length && offer.startsWith(added)) {
      this.inline.value = offer.slice(added.length);
      return;
    }
    if (added && offer && !offer.startsWith(added)) {
      this.#passed.add(draft.slice(0, -added.length) + offer);
    }
    this.inline.value = "";
    const { signal } = this.#asked;
    this.#timer = setTimeout(() => void this.#offer(draft, signal), pauseMs);
  }

  /** Lists several texts that may follow a draft. */
  async all(draft: string): Promise<void> {
    this.clear();
    const { signal } = this.#asked;
    const found = await this.#ask(draft, { n: listed, unit: "word+" }, signal);
    if (signal.aborted) return;
    this.chosen.value = 0;
    this.list.value = found;
  }

  /** Chooses the next text of the list, or the one before. */
  turn(by: 1 | -1): void {
    const n = this.list.value.length;
    this.chosen.value = (this.chosen.value + by + n) % n;
  }

  /** The first word of the offer. */
  get word(): string {
    return wordPattern.exec(this.inline.value)?.[0] || this.inline.value;
  }

  /** Takes the offer behind a draft away; it is not made again. */
  pass(draft: string): void {
    if (this.inline.value) this.#passed.add(draft + this.inline.value);
    this.clear();
  }

  /** Takes away what is offered. */
  clear(): void {
    this.#end();
    this.inline.value = "";
    this.list.value = [];
  }

  /** Begins a new draft. */
  begin(): void {
    this.clear();
    this.#passed.clear();
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#asked.abort();
    this.#asked = new AbortController();
  }

  async #offer(draft: string, signal: AbortSignal): Promise<void> {
    try {
      const refused = [...this.#passed].filter((p) => p.startsWith(draft) && p !== draft)
        .map((p) => p.slice(draft.length)).slice(-refusedMax);
      const found = await this.#ask(draft, { n: 1, min_probability: sure, refused }, signal);
      const text = wholeWords(found[0]?.text ?? "");
      const whole = draft + text;
      const isPassed = [...this.#passed].some((p) =>
        p.startsWith(whole) || whole.startsWith(p) && !draft.startsWith(p));
      if (!signal.aborted && !isPassed) this.inline.value = text;
    } catch (error) {
      if (!isAbort(error) && !signal.aborted) this.inline.value = ""; // an offer that fails is none
    }
  }

  /** Asks the server. What it finds behind another text than the page's is nothing. */
  async #ask(
    typed: string, how: Omit<SuggestRequest, "typed">, signal: AbortSignal,
  ): Promise<Candidate[]> {
    if (isTooLong(typed)) return [];
    const { id } = this.#on.session.value;
    const found = await suggest(id, { typed, ...how }, signal);
    return found.offset === this.#on.end ? found.candidates : [];
  }
}
