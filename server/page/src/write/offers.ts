import { signal } from "@preact/signals";
import { isAbort } from "../api/problem";
import { isTooLong, refusedMax, suggest, type Candidate, type SuggestRequest } from "../api/suggest";
import type { Reading } from "../state/reading";

/** The least probability of an unrequested offer. */
const sure = 0.6;
const pauseMs = 40;
const listed = 5;

/** A word with the separators before it, and the punctuation and space after it. */
const wordPattern = /^[^\p{L}\p{M}\p{N}'_]*[\p{L}\p{M}\p{N}'_]*[^\p{L}\p{M}\p{N}'_\s]*[ \t]?/u;

/** The length from which a text may end within a word, where the search ended. */
const longest = 40;

function wholeWords(text: string): string {
  const end = text.lastIndexOf(" ") + 1;
  return text.length < longest || end === 0 ? text : text.slice(0, end);
}

/**
 * Possible continuations. One is offered after the draft if the model is confident, and several on
 * request. A rejected offer is not repeated until the draft is learnt.
 */
export class Offers {
  /** The text after the draft; "" if the model is not confident. */
  readonly inline = signal("");
  /** The requested texts. */
  readonly list = signal<Candidate[]>([]);
  readonly chosen = signal(0);

  #on: Reading;
  #asked = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #passed = new Set<string>(); // drafts with rejected offers

  constructor(on: Reading) {
    this.#on = on;
  }

  /** Records text added to a draft, and offers a continuation. */
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

  /** Lists several continuations of a draft. */
  async all(draft: string): Promise<void> {
    this.clear();
    const { signal } = this.#asked;
    const found = await this.#ask(draft, { n: listed, unit: "word+" }, signal);
    if (signal.aborted) return;
    this.chosen.value = 0;
    this.list.value = found;
  }

  /** Selects the next or previous text of the list. */
  turn(by: 1 | -1): void {
    const n = this.list.value.length;
    this.chosen.value = (this.chosen.value + by + n) % n;
  }

  /** The first word of the offer. */
  get word(): string {
    return wordPattern.exec(this.inline.value)?.[0] || this.inline.value;
  }

  /** Removes the offer after a draft, which is not repeated. */
  pass(draft: string): void {
    if (this.inline.value) this.#passed.add(draft + this.inline.value);
    this.clear();
  }

  /** Removes all offers. */
  clear(): void {
    this.#end();
    this.inline.value = "";
    this.list.value = [];
  }

  /** Starts a new draft. */
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
      if (!isAbort(error) && !signal.aborted) this.inline.value = ""; // no offer after an error
    }
  }

  /** Asks the server. Results for another text than the page's are ignored. */
  async #ask(
    typed: string, how: Omit<SuggestRequest, "typed">, signal: AbortSignal,
  ): Promise<Candidate[]> {
    if (isTooLong(typed)) return [];
    const { id } = this.#on.session.value;
    const found = await suggest(id, { typed, ...how }, signal);
    return found.offset === this.#on.end ? found.candidates : [];
  }
}
