import { score } from "../api/sessions";
import type { Session } from "../api/types";
import { titleOf } from "../ui/words";

const encoder = new TextEncoder();

/** The cost of a text in one session. */
export interface Side {
  title: string;
  total: number; // bits
  bits: number[]; // of each character; NaN for an unfinished word
}

/** The cost of a text in two sessions. */
export interface Compared {
  bytes: number; // scored by both
  characters: string[];
  first: Side;
  second: Side;
}

/** Scores a text in two sessions as a continuation. Neither session changes. */
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
  // In a model of words the last word may be unfinished. Then it counts for neither session.
  const known = first.map((cost, i) => (isNaN(cost + second[i]) ? 0 : 1));
  const side = (session: Session, costs: Float32Array): Side => ({
    title: titleOf(session),
    total: costs.reduce((sum, cost, i) => sum + (known[i] ? cost : 0), 0),
    bits: firsts.map((from, i) => sumOf(costs.subarray(from, firsts[i + 1] ?? bytes.length))),
  });
  return { bytes: sumOf(known), characters, first: side(a, first), second: side(b, second) };
}

const sumOf = (costs: Float32Array): number => costs.reduce((sum, cost) => sum + cost, 0);

/** The bits of each byte: those of a token are spread evenly over its bytes. */
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
