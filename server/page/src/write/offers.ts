import { signal } from "@preact/signals";
import { isAbort } from "../api/problem";
import { suggest, type Candidate } from "../api/suggest";

/** The least probability of a text that is offered unasked. */
const sure = 0.6;
const pauseMs = 40;
const listed = 5;

/** A word, with what stands before it, and the punctuation and the space behind it. */
const wordPattern = /^[^\p{L}\p{M}\p{N}'_]*[\p{L}\p{M}\p{N}'_]*[^\p{L}\p{M}\p{N}'_\s]*[ \t]?/u;

/**
 * What may come next: one text behind the cursor, which is offered where the model is sure of it,
 * and several on demand. An offer that was typed past is not made again before the line ends.
 */
export class Offers {
  /** The text behind the cursor; "" where the model is not sure. */
  readonly inline = signal("");
  /** What was asked for, and which of it is chosen. */
  readonly list = signal<Candidate[]>([]);
  readonly chosen = signal(0);

  #session: string;
  #asked = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #passed: string[] = [];

  constructor(session: string) {
    this.#session = session;
  }

  /** Takes note of what was typed behind the draft that was there, and offers what follows. */
  typed(added: string, draft: string): void {
    const offer = this.inline.value;
    this.list.value = [];
    if (added.includes("\n")) this.#passed = [];
    if (added && offer.length > added.length && offer.startsWith(added)) {
      this.inline.value = offer.slice(added.length);
      return;
    }
    if (added && offer && !offer.startsWith(added)) this.#passed.push(offer);
    this.ask(draft);
  }

  /** Asks for an offer behind a draft, after a short pause. */
  ask(draft: string): void {
    this.#end();
    const { signal } = (this.#asked = new AbortController());
    this.#timer = setTimeout(() => void this.#inline(draft, signal), pauseMs);
  }

  /** Lists several texts that may follow a draft. */
  async all(draft: string): Promise<void> {
    this.#end();
    const { signal } = (this.#asked = new AbortController());
    const found = await suggest(this.#session, { typed: draft, n: listed }, signal);
    this.inline.value = "";
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

  /** Takes the offer away; it is not made again in this line. */
  pass(): void {
    if (this.inline.value) this.#passed.push(this.inline.value);
    this.clear();
  }

  clear(): void {
    this.#end();
    this.inline.value = "";
    this.list.value = [];
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#asked.abort();
  }

  async #inline(typed: string, signal: AbortSignal): Promise<void> {
    this.inline.value = "";
    try {
      const request = { typed, n: 1, min_probability: sure };
      const text = (await suggest(this.#session, request, signal))[0]?.text ?? "";
      const isPassed = this.#passed.some((p) => p.endsWith(text) || text.endsWith(p));
      if (!signal.aborted && !isPassed) this.inline.value = text;
    } catch (error) {
      if (!isAbort(error)) this.inline.value = ""; // an offer that fails is none
    }
  }
}
