import { signal } from "@preact/signals";
import { complete } from "../api/complete";
import { asProblem, isAbort, type ProblemError } from "../api/problem";
import { decode } from "../ui/decode";

/** The models that can continue a text. */
export const sources = ["adapted", "static"] as const;
export type Source = (typeof sources)[number];

/** Sampling options. */
export interface Sampling {
  temperature: number;
  tokens: number;
  atLineEnd: boolean; // the text ends at the end of a line
}

/** A text that grows while sampled. */
export interface Suggestion {
  bytes: Uint8Array;
  text: string; // the bytes that can be shown so far
  done: boolean;
  problem?: ProblemError;
}

const seedsMax = 2 ** 31;

/** The continuations of the two models at a place of a text. */
export class Suggestions {
  /** The suggestions of each model; null if not requested. */
  readonly of = {
    adapted: signal<Suggestion | null>(null),
    static: signal<Suggestion | null>(null),
  };
  /** The number of the shown attempt, from 1. */
  readonly attempt = signal(0);

  #asked = new AbortController();
  #again = (): void => {};

  /** Whether a suggestion can be accepted or discarded. */
  get any(): boolean {
    return sources.some((source) => this.of[source].value !== null);
  }

  /** Samples continuations of a session's text and a prompt. */
  ask(session: string, prompt: string, sampling: Sampling, from: readonly Source[]): void {
    const first = Math.floor(Math.random() * seedsMax);
    this.#again = () => {
      this.discard();
      const { signal } = (this.#asked = new AbortController());
      const request = {
        prompt,
        seed: first + this.attempt.value,
        temperature: sampling.temperature,
        max_tokens: sampling.tokens,
        stop: sampling.atLineEnd ? "\n" : undefined,
      };
      for (const source of from) {
        void this.#sample(source, complete(session, { ...request, from: source }, signal), signal);
      }
    };
    this.attempt.value = 1;
    this.#again();
  }

  /** Samples again with the next or the previous seed. */
  turn(by: 1 | -1): void {
    if (!this.any || this.attempt.value + by < 1) return;
    this.attempt.value += by;
    this.#again();
  }

  discard(): void {
    this.#asked.abort();
    for (const source of sources) this.of[source].value = null;
  }

  async #sample(
    source: Source, pieces: AsyncIterable<Uint8Array>, ended: AbortSignal,
  ): Promise<void> {
    const none = { bytes: new Uint8Array(), text: "", done: false };
    let now: Suggestion = none;
    const show = (more: Partial<Suggestion>): void => {
      if (!ended.aborted) this.of[source].value = now = { ...now, ...more };
    };
    show({});
    try {
      for await (const piece of pieces) {
        const bytes = joined(now.bytes, piece);
        show({ bytes, text: decode(bytes).text });
      }
      show({ done: true });
    } catch (error) {
      if (!isAbort(error)) show({ done: true, problem: asProblem(error) });
    }
  }
}

export function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
