import { signal } from "@preact/signals";
import { asProblem, ProblemError } from "../api/problem";
import { createSession, deleteSession, score, scratch } from "../api/sessions";
import type { Incident, LineEvent, LineWhy } from "../api/types";
import type { Reading } from "./reading";

/** The strangeness of a line. Places are those of the reading. */
export interface RatedLine {
  from: number;
  to: number; // after its newline
  rank: number; // one line in this many is as strange; 1 while too few lines are known
  span: [number, number]; // its strangest word or value
  why?: LineWhy;
  /** The rank of the line's incident if higher, else the line's own. */
  heat: number;
}

const rankOfChanges = 1000; // the least for incidents with a change in number

/** The strangeness of an incident, for its color. */
export const heatOf = ({ rank, changes }: Incident): number =>
  Math.max(rank, changes?.length ? rankOfChanges : 1);

const sentBytes = 1 << 20;
const secondsKept = 600; // lifetime of the session if the page closes before deleting it

/**
 * The ratings of a reading's lines, as in `lmserve watch`. A session with method `counts` computes
 * them from the text alone, so they are available at once for any text, also after a reload.
 */
export class Ratings {
  /** The rated lines in text order. */
  lines: RatedLine[] = [];
  /** Grows with the rated lines. */
  readonly changed = signal(0);
  readonly problem = signal<ProblemError | null>(null);
  /** The place before which all lines are rated. */
  rated = 0;
  #session = "";
  #sent = 0; // bytes sent to that session
  #work: Promise<void> | null = null;
  #isOver = false;

  constructor(private readonly reading: Reading) {}

  /** Rates new lines of the text. */
  update(): void {
    if (this.#isOver || this.problem.peek()) return;
    this.#work ??= this.#rate().catch((error) => {
      this.problem.value = asProblem(error);
    }).finally(() => (this.#work = null));
  }

  /** Rates all lines again after a problem. */
  again(): void {
    const session = this.#session;
    if (session) void deleteSession(session).catch(() => undefined);
    this.#forget();
    this.problem.value = null;
    this.update();
  }

  /** Forgets the lines in the first bytes of the text. */
  cut(bytes: number): void {
    this.rated -= bytes;
    this.lines = this.lines.filter(({ from }) => from >= bytes).map((line) => ({
      ...line, from: line.from - bytes, to: line.to - bytes,
      span: [line.span[0] - bytes, line.span[1] - bytes],
    }));
    if (!this.#work) this.rated = Math.max(0, this.rated);
    this.changed.value++;
  }

  /** Deletes the session created for the ratings. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#work;
    if (this.#session) await deleteSession(this.#session).catch(() => undefined);
  }

  /** The index of the line at a place; -1 without a rating. */
  indexOf(place: number): number {
    let low = 0;
    let high = this.lines.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const { from, to } = this.lines[middle];
      if (place >= from && place < to) return middle;
      if (place < from) high = middle - 1;
      else low = middle + 1;
    }
    return -1;
  }

  /** Returns the strangest lines, strangest first. */
  strangest(most: number): RatedLine[] {
    return [...this.lines].sort((a, b) => b.rank - a.rank || a.from - b.from).slice(0, most);
  }

  async #rate(): Promise<void> {
    for (let isAgain = false; !this.#isOver;) {
      const text = this.reading.text.all;
      const end = Math.min(text.lastIndexOf(10) + 1, lineEnd(text, this.rated + sentBytes));
      if (end <= this.rated) return;
      try {
        await this.#send(text.slice(this.rated, end));
      } catch (error) {
        if (isAgain || !(error instanceof ProblemError) || error.kind !== "session-not-found") {
          throw error;
        }
        isAgain = true; // the session expired without use
        this.#forget();
      }
    }
  }

  #forget(): void {
    Object.assign(this, { lines: [], rated: 0 });
    this.#session = "";
    this.#sent = 0;
  }

  async #send(text: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#session ||= (await createSession({
      settings: { method: "counts", companion: false },
      labels: scratch,
      ttl_seconds: secondsKept,
    })).id;
    for await (const event of score(this.#session, text, { unit: "line" })) {
      if (event.type === "line" && event.ended) this.#take(event);
    }
    this.#sent += text.length;
    this.rated = Math.max(0, this.rated + text.length);
    this.changed.value++;
  }

  #take(event: LineEvent): void {
    const { bytes, warm, span, why } = event;
    const from = event.offset - this.#sent + this.rated;
    if (from < 0) return; // the page has forgotten this line
    const rank = warm ? event.rank : 1;
    const line: RatedLine = {
      from, to: from + bytes, rank, heat: rank, span: [from + span.from, from + span.to], why,
    };
    // A line that is ordinary by now keeps the rank of its incident's start.
    for (const incident of event.incidents ?? []) {
      if (!warm || incident.state !== "open" || incident.last !== event.number) continue;
      const heat = heatOf(incident);
      if (heat <= line.heat) continue;
      const token = new TextEncoder().encode(incident.why?.token ?? "");
      const at = find(this.reading.text.all.subarray(from, line.to), token);
      if (at >= 0 && rank < 100) line.span = [from + at, from + at + token.length];
      line.heat = heat;
    }
    this.lines.push(line);
  }
}

/** The end of the line of a place. */
function lineEnd(text: Uint8Array, place: number): number {
  const newline = text.indexOf(10, place);
  return newline < 0 ? text.length : newline + 1;
}

function find(text: Uint8Array, part: Uint8Array): number {
  if (part.length === 0) return -1;
  for (let at = text.indexOf(part[0]); at >= 0; at = text.indexOf(part[0], at + 1)) {
    if (part.every((byte, i) => text[at + i] === byte)) return at;
  }
  return -1;
}
