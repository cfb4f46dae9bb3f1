import { callJSON } from "./http";
import { pathOf } from "./sessions";

export interface SuggestRequest {
  typed: string;
  n: number;
  unit?: "word+" | "line";
  min_probability?: number;
  refused?: string[];
}

/** A possible continuation. */
export interface Candidate {
  text: string;
  probability: number;
}

/** Possible continuations of a session's text up to an offset. */
export interface Suggestions {
  candidates: Candidate[];
  offset: number;
}

/** The largest number of bytes between a session's text and a suggestion. */
const typedMax = 1024;

/** The largest number of texts that may be rejected. */
export const refusedMax = 100;

/** Whether a draft is too long for suggestions. */
export function isTooLong(draft: string): boolean {
  return new TextEncoder().encode(draft).length > typedMax;
}

/** Finds continuations of a session's text and of typed text after it. */
export function suggest(
  id: string, request: SuggestRequest, signal: AbortSignal,
): Promise<Suggestions> {
  return callJSON(`${pathOf(id)}/suggest`, { method: "POST", json: request, signal });
}
