import { signal } from "@preact/signals";
import { asProblem, ProblemError } from "../api/problem";
import { createSession, deleteSession, score, scratch } from "../api/sessions";
import type { Incident, LineEvent, LineWhy } from "../api/types";
import type { Reading } from "./reading";

/** How strange a line is. Places are those of the reading. */
export interface RatedLine {
  from: number;
  to: number; // behind its newline
  rank: number; // the line is the strangest of about so many; 1 while too few lines are known
  span: [number, number]; // its strangest word or value
  why?: LineWhy;
  /** The rank of the incident that the line belongs to, if that is higher; else its own. */
  heat: number;
}

const rankOfChanges = 1000; // at least, of incidents in which a number has changed

/** How strange an incident is, for its colour. */
export const heatOf = ({ rank, changes }: Incident): number =>
  Math.max(rank, changes?.length ? rankOfChanges : 1);

const sentBytes = 1 << 20;
const secondsKept = 600; // of the session, should the page go before it is deleted

/**
 * The ratings of a reading's lines, the same that `lmserve watch` has. A session of the method
 * `counts` makes them, of the text alone: so they are known of any text, at once, and after a reload.
 */
export class Ratings {
  /** The lines that are rated, in the order of the text. */
  lines: RatedLine[] = [];
  /** Grows when more lines are rated. */
  readonly changed = signal(0);
  readonly problem = signal<ProblemError | null>(null);
  /** The place before which all is rated. */
  rated = 0;
  #session = "";
  #work: Promise<void> | null = null;
  #isOver = false;

  constructor(private readonly reading: Reading) {}

  /** Rates the lines that the text has more by now. */
  update(): void {
    if (this.#isOver || this.problem.peek()) return;
    this.#work ??= this.#rate().catch((error) => {
      this.problem.value = asProblem(error);
    }).finally(() => (this.#work = null));
  }

  /** Deletes what was made for it. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#work;
    if (this.#session) await deleteSession(this.#session).catch(() => undefined);
  }

  /** The index of the line of a place; -1 where none is rated. */
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

  /** The strangest lines, the strangest first. */
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
        isAgain = true; // nobody used it for long: it has expired
        Object.assign(this, { lines: [], rated: 0 });
        this.#session = "";
      }
    }
  }

  async #send(text: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#session ||= (await createSession({
      settings: { method: "counts", companion: false },
      labels: scratch,
      ttl_seconds: secondsKept,
    })).id;
    for await (const event of score(this.#session, text, { unit: "line" })) {
      if (event.type === "line" && event.ended) this.lines.push(this.#lineOf(event));
    }
    this.rated += text.length;
    this.changed.value++;
  }

  #lineOf(event: LineEvent): RatedLine {
    const { offset: from, bytes, warm, span, why } = event;
    const rank = warm ? event.rank : 1;
    const line: RatedLine = {
      from, to: from + bytes, rank, heat: rank, span: [from + span.from, from + span.to], why,
    };
    // A line that is usual by now belongs to what was strange when it began.
    for (const incident of event.incidents ?? []) {
      if (!warm || incident.state !== "open" || incident.last !== event.number) continue;
      const heat = heatOf(incident);
      if (heat <= line.heat) continue;
      const token = new TextEncoder().encode(incident.why?.token ?? "");
      const at = find(this.reading.text.all.subarray(from, line.to), token);
      if (at >= 0 && rank < 100) line.span = [from + at, from + at + token.length];
      line.heat = heat;
    }
    return line;
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
