import { signal } from "@preact/signals";
import type { ProblemError } from "../api/problem";
import type { ChunkEvent, PastScores, Session, StreamEvent, UpdateEvent } from "../api/types";
import { Costs, type Piece } from "./costs";
import { bytes, floats } from "./growing";
import { Predictions } from "./predictions";
import { Ratings } from "./ratings";

/** An update of the fast weights: norms of M and of its change, one number per branch. */
export interface Update {
  nth: number; // among all updates that the page has seen, from 1
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
  /** 1 where a token begins, or a piece of the past; a model of bytes needs no starts. */
  readonly starts = bytes();
  readonly predictions = new Predictions();
  /** The cost of the text per byte and per word. */
  readonly costs = { byte: new Costs(false), word: new Costs(true) };
  /** The newest update and, of many updates, every second, fourth and so on of the others. */
  readonly updates: Update[] = [];
  #updatesApart = 1;
  branches: { name: string; elements: number }[] = [];

  /** The offset of the first byte of `text`. */
  from = 0;
  /** A range of offsets whose text the page has missed; null for none. */
  readonly missed = signal<[number, number] | null>(null);
  /** The place before which bits are means of pieces, because the page did not see that past. */
  coarseTo = 0;
  /** The offset before which the page has all scores that the server had at the last fetch. */
  scoredTo = 0;
  /** The session may have the text up to this offset, because of a request without an answer. */
  mayHaveTo = 0;
  /** Whether the text that waits is kept as the session's unsent text. */
  isKept = false;
  #frame = 0;

  constructor(session: Session, readonly ofWords: boolean) {
    this.session = signal(session);
  }

  /** The offset after the last byte of `text`. */
  get end(): number {
    return this.from + this.text.length;
  }

  /** Whether a part of an address means the session: the address contains the id or the name. */
  isNamed(name: string): boolean {
    const session = this.session.peek();
    return name === session.id || name === session.name;
  }

  /** Whether text has a cost: not if lines are rated only by counts. */
  get hasCosts(): boolean {
    const { settings } = this.session.value;
    return settings?.method !== "counts" || settings.companion;
  }

  /** Where a byte's token begins and ends; in the coarse past, where its piece does. */
  tokenAt(place: number): [number, number] {
    if (!this.ofWords) return [place, place + 1];
    const starts = this.starts.all;
    let first = place;
    while (first > 0 && starts[first] !== 1) first--;
    let end = place + 1;
    while (end < starts.length && starts[end] === 0) end++;
    return [first, end];
  }

  /** Whether the page lacks text or scores that the server has reported. */
  get lacksPast(): boolean {
    const { offset, totals } = this.session.peek();
    return this.end < offset || this.scoredTo < totals.bytes;
  }

  /** Appends text that was fed or fetched. */
  addText(more: Uint8Array): void {
    this.text.push(more);
    this.touch();
  }

  /** Forgets the text before an offset; the offset may be after the end. */
  cut(offset: number): void {
    const bytes = Math.min(offset - this.from, this.text.length);
    if (offset > this.end && bytes > 0) this.missed.value = [this.end, offset];
    for (const part of [this.text, this.bits, this.baseline, this.starts]) part.cut(bytes);
    this.coarseTo = Math.max(0, this.coarseTo - bytes);
    this.from = offset;
    this.scoredTo = Math.max(this.scoredTo, offset);
    this.ratings.cut(bytes);
    this.changed.value++; // at once, because all places have changed
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
        this.starts.fill(from, from + 1, 1);
        this.coarseTo = Math.max(this.coarseTo, to);
      }
      this.scoredTo = Math.max(this.scoredTo, piece.offset + piece.bytes);
      this.#addCost(piece);
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
    const offset = event.offset + event.bytes + (event.pending_bytes ?? 0);
    this.#takeTotals({ totals: event.totals, offset });
    if (event.offset <= this.scoredTo) {
      this.scoredTo = Math.max(this.scoredTo, event.offset + event.bytes);
    }
    this.#addCost(event);
    this.placeScores(event);
  }

  #addCost(piece: Piece): void {
    this.costs.byte.add(piece);
    this.costs.word.add(piece);
  }

  /** Stores the scores of a chunk's tokens. */
  placeScores(event: ChunkEvent): void {
    const place = event.offset - this.from;
    if (place < 0) return; // the page has forgotten this text
    const sizes = event.token_bytes;
    const starts: number[] = [];
    const costs = (logprobs: number[] | undefined): Float32Array => {
      const each = new Float32Array(event.bytes).fill(NaN);
      let at = 0;
      logprobs?.forEach((logprob, i) => {
        const size = sizes?.[i] ?? 1;
        each.fill(-logprob / Math.LN2, at, at + size);
        starts[i] = at;
        at += size;
      });
      return each;
    };
    this.bits.put(place, costs(event.logprobs));
    this.baseline.put(place, costs(event.baseline_logprobs));
    if (sizes) {
      this.starts.fill(place, place + event.bytes, 0);
      for (const at of starts) this.starts.fill(place + at, place + at + 1, 1);
    }
    this.predictions.take(event, starts);
  }

  #takeUpdate(event: UpdateEvent): void {
    if (!this.branches.length) {
      this.branches = event.branches.map(({ name, elements }) => ({ name, elements }));
    }
    const banks = event.branches[0]?.banks?.length ?? 0;
    const nth = (this.updates.at(-1)?.nth ?? 0) + 1;
    if ((nth - 1) % this.#updatesApart !== 0) this.updates.pop();
    this.updates.push({
      nth,
      offset: event.offset,
      step: event.step,
      written: event.written,
      norms: Float32Array.from(event.branches, (b) => b.norm),
      changes: Float32Array.from(event.branches, (b) => b.change),
      bankNorms: Array.from({ length: banks }, (_, bank) =>
        Float32Array.from(event.branches, (b) => b.banks?.[bank].norm ?? 0)),
    });
    if (this.updates.length > updatesKept) {
      this.#updatesApart *= 2;
      const half = this.updates.filter((u) => u.nth % this.#updatesApart === 0 || u.nth === nth);
      this.updates.splice(0, this.updates.length, ...half);
    }
  }
}
