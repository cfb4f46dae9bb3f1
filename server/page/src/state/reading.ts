import { signal } from "@preact/signals";
import type { ProblemError } from "../api/problem";
import type { ChunkEvent, PastScores, Session, StreamEvent, UpdateEvent } from "../api/types";
import { bytes, floats } from "./growing";
import { Predictions } from "./predictions";
import { Ratings } from "./ratings";

/** A scored piece of text, and its cost. */
export interface Piece {
  offset: number;
  bytes: number;
  tokens: number;
  bits: number;
  baselineBits?: number;
  networkBits?: number; // without the companion; unknown for the past
}

/** An update of the fast weights: norms of M and of its change, one number per branch. */
export interface Update {
  offset: number;
  step: number;
  written: number;
  norms: Float32Array;
  changes: Float32Array;
  bankNorms: Float32Array[]; // for each bank, one number per branch
}

/** What the page is doing with the session. */
export type Activity = "idle" | "opening" | "feeding" | "watching";

const updatesKept = 16384;

/**
 * What this page knows of a session: its text, the cost of each byte, and what was learnt. Places
 * count from `from`, the offset of the page's first byte. `changed` signals changes at most once
 * per frame.
 */
export class Reading {
  readonly session;
  readonly activity = signal<Activity>("idle");
  readonly problem = signal<ProblemError | null>(null);
  readonly changed = signal(0);
  /** Whether past text is being scored again. */
  readonly rereading = signal(false);
  /** The strangeness of its lines. */
  readonly ratings = new Ratings(this);

  /** The text; its end may still wait for scores. */
  readonly text = bytes();
  /** The bits of each byte's token, adapted and static; NaN if unknown. */
  readonly bits = floats();
  readonly baseline = floats();
  /** 1 at bytes where a token begins; empty for a model of bytes, where all do. */
  readonly starts = bytes();
  readonly predictions = new Predictions();
  readonly pieces: Piece[] = [];
  readonly updates: Update[] = [];
  branches: { name: string; elements: number }[] = [];

  /** The offset of the first byte of `text`. */
  from = 0;
  /** The place before which bits are means of pieces, because the page did not see that past. */
  coarseTo = 0;
  #frame = 0;

  constructor(session: Session, readonly ofWords: boolean) {
    this.session = signal(session);
    this.from = session.offset;
  }

  /** The offset after the last byte of `text`. */
  get end(): number {
    return this.from + this.text.length;
  }

  /** Whether text has a cost: not if lines are rated only by counts. */
  get hasCosts(): boolean {
    const { settings } = this.session.value;
    return settings?.method !== "counts" || settings.companion;
  }

  /** Where the token of a byte begins and ends. */
  tokenAt(place: number): [number, number] {
    if (!this.ofWords) return [place, place + 1];
    const starts = this.starts.all;
    let first = place;
    while (first > 0 && starts[first] !== 1) first--;
    let end = place + 1;
    while (end < starts.length && starts[end] === 0) end++;
    return [first, end];
  }

  /** Appends text that was fed or fetched. */
  addText(more: Uint8Array): void {
    this.text.push(more);
    this.touch();
  }

  /** Adds scores from the past. */
  addPast(past: PastScores): void {
    for (const piece of past.scores) {
      const from = Math.max(0, piece.offset - this.from);
      const to = piece.offset + piece.bytes - this.from;
      if (to > 0) {
        this.bits.fill(from, to, piece.bits / piece.tokens);
        this.baseline.fill(from, to, (piece.baseline_bits ?? NaN) / piece.tokens);
        this.starts.extend(to, 0);
        this.coarseTo = Math.max(this.coarseTo, to);
      }
      this.pieces.push({ ...piece, baselineBits: piece.baseline_bits });
    }
    this.touch();
  }

  /** Handles an event of the session. */
  take(event: StreamEvent): void {
    if (event.type === "chunk") this.#takeChunk(event);
    else if (event.type === "update") this.#takeUpdate(event);
    else if (event.type === "summary") this.#takeTotals(event);
    this.touch();
  }

  /** Signals a change with the next frame. */
  touch(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.changed.value++;
    });
  }

  #takeTotals({ totals, offset }: Pick<Session, "totals" | "offset">): void {
    this.session.value = { ...this.session.value, totals, offset };
  }

  #takeChunk(event: ChunkEvent): void {
    this.#takeTotals({ totals: event.totals, offset: event.offset + event.bytes });
    this.pieces.push({
      offset: event.offset,
      bytes: event.bytes,
      tokens: event.tokens,
      bits: event.bits,
      baselineBits: event.baseline_bits,
      networkBits: event.network_bits,
    });
    this.placeScores(event, event.offset - this.from);
  }

  /** Stores a chunk's scores at a place of the text. */
  placeScores(event: ChunkEvent, place: number): void {
    const sizes = event.token_bytes;
    const count = event.logprobs?.length ?? 0;
    const starts = new Uint32Array(count);
    const costs = (logprobs: number[] | undefined): Float32Array => {
      const each = new Float32Array(event.bytes).fill(NaN);
      let at = 0;
      logprobs?.forEach((logprob, i) => {
        const size = sizes?.[i] ?? 1;
        each.fill(-logprob / Math.LN2, at, at + size);
        starts[i] = place + at;
        at += size;
      });
      return each;
    };
    this.bits.put(place, costs(event.logprobs));
    this.baseline.put(place, costs(event.baseline_logprobs));
    if (sizes) {
      this.starts.fill(place, place + event.bytes, 0);
      for (const start of starts) this.starts.fill(start, start + 1, 1);
    }
    this.predictions.take(event, starts);
  }

  #takeUpdate(event: UpdateEvent): void {
    if (!this.branches.length) {
      this.branches = event.branches.map(({ name, elements }) => ({ name, elements }));
    }
    const banks = event.branches[0]?.banks?.length ?? 0;
    this.updates.push({
      offset: event.offset,
      step: event.step,
      written: event.written,
      norms: Float32Array.from(event.branches, (b) => b.norm),
      changes: Float32Array.from(event.branches, (b) => b.change),
      bankNorms: Array.from({ length: banks }, (_, bank) =>
        Float32Array.from(event.branches, (b) => b.banks?.[bank].norm ?? 0)),
    });
    if (this.updates.length > updatesKept) {
      const half = this.updates.filter((_, i) => i % 2 === 1);
      this.updates.splice(0, this.updates.length, ...half);
    }
  }
}
