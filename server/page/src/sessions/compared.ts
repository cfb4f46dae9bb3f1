import { score } from "../api/sessions";
import type { Session } from "../api/types";
import { titleOf } from "../ui/words";

const encoder = new TextEncoder();

/** What a text costs in one session. */
export interface Side {
  title: string;
  total: number; // bits
  bits: number[]; // of each character; NaN where a word waits for its end
}

/** What a text costs in two sessions. */
export interface Compared {
  bytes: number; // of those that both have scored
  characters: string[];
  first: Side;
  second: Side;
}

/** Scores a text in two sessions, as what comes next. Both stay as they are. */
export async function scoredByBoth(a: Session, b: Session, text: string): Promise<Compared> {
  const bytes = encoder.encode(text);
  const [first, second] = await Promise.all([a, b].map((session) => bitsOf(session, bytes)));
  const characters = [...text];
  let at = 0;
  const firsts = characters.map((character) => {
    const from = at;
    at += encoder.encode(character).length;
    return from;
  });
  // The last word may wait for its end in a model of words: then it counts for neither.
  const known = first.map((cost, i) => (isNaN(cost + second[i]) ? 0 : 1));
  const side = (session: Session, costs: Float32Array): Side => ({
    title: titleOf(session),
    total: costs.reduce((sum, cost, i) => sum + (known[i] ? cost : 0), 0),
    bits: firsts.map((from, i) => sumOf(costs.subarray(from, firsts[i + 1] ?? bytes.length))),
  });
  return { bytes: sumOf(known), characters, first: side(a, first), second: side(b, second) };
}

const sumOf = (costs: Float32Array): number => costs.reduce((sum, cost) => sum + cost, 0);

/** Bits of each byte: those of a token of several bytes are spread evenly over them. */
async function bitsOf(session: Session, bytes: Uint8Array): Promise<Float32Array> {
  const costs = new Float32Array(bytes.length).fill(NaN);
  let at = 0;
  const body = new Blob([bytes as BlobPart]);
  for await (const event of score(session.id, body, { learn: false, logprobs: true })) {
    if (event.type !== "chunk") continue;
    event.logprobs?.forEach((logprob, i) => {
      const size = event.token_bytes?.[i] ?? 1;
      costs.fill(-logprob / Math.LN2 / size, at, at + size);
      at += size;
    });
  }
  return costs;
}
