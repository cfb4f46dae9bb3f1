import type { Candidate, ChunkEvent } from "../api/types";

/** The number of likeliest tokens requested and kept per place. */
export const candidatesKept = 5;

/** The number of places kept: the last ones. */
const placesKept = 1 << 18;
const pagePlaces = 1 << 12;

/** The models' candidates at some places, the adapted model's first. */
interface Page {
  tokens: Uint32Array;
  logprobs: Float32Array; // NaN without a candidate
}

/** The models' predictions at the offsets where tokens begin. */
export class Predictions {
  #pages = new Map<number, Page>();
  #texts = new Map<number, string>(); // of tokens of models of words

  /** Stores a chunk event's predictions for the tokens that begin at these bytes of the chunk. */
  take(event: ChunkEvent, starts: number[]): void {
    starts.forEach((start, i) => {
      this.#put(event.offset + start, 0, event.top_logprobs?.[i]);
      this.#put(event.offset + start, candidatesKept, event.baseline_top_logprobs?.[i]);
    });
  }

  /** The likeliest tokens at an offset, under the adapted and the static model. */
  at(offset: number): { adapted: Candidate[]; fixed: Candidate[] } | null {
    const page = this.#pages.get(Math.floor(offset / pagePlaces));
    if (!page) return null;
    const first = (offset % pagePlaces) * 2 * candidatesKept;
    const read = (from: number): Candidate[] => {
      const found: Candidate[] = [];
      for (let i = from; i < from + candidatesKept && !isNaN(page.logprobs[i]); i++) {
        const token = page.tokens[i];
        found.push({ token, text: this.#texts.get(token), logprob: page.logprobs[i] });
      }
      return found;
    };
    const adapted = read(first);
    return adapted.length ? { adapted, fixed: read(first + candidatesKept) } : null;
  }

  #put(offset: number, shift: number, candidates: Candidate[] | undefined): void {
    if (!candidates) return;
    const page = this.#page(Math.floor(offset / pagePlaces));
    const first = (offset % pagePlaces) * 2 * candidatesKept + shift;
    candidates.slice(0, candidatesKept).forEach((c, i) => {
      page.tokens[first + i] = c.token;
      page.logprobs[first + i] = c.logprob;
      if (c.text !== undefined) this.#texts.set(c.token, c.text);
    });
  }

  #page(number: number): Page {
    let page = this.#pages.get(number);
    if (!page) {
      const size = pagePlaces * 2 * candidatesKept;
      page = { tokens: new Uint32Array(size), logprobs: new Float32Array(size).fill(NaN) };
      this.#pages.set(number, page);
      if (this.#pages.size > placesKept / pagePlaces) {
        this.#pages.delete(this.#pages.keys().next().value!); // the oldest
      }
    }
    return page;
  }
}
