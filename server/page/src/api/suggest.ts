import { callJSON } from "./http";

export interface SuggestRequest {
  typed: string;
  n: number;
  unit?: "word+" | "line";
  min_probability?: number;
  refused?: string[];
}

/** A text that may come next. */
export interface Candidate {
  text: string;
  probability: number;
}

/** What may come next, behind a session's text up to an offset. */
export interface Suggestions {
  candidates: Candidate[];
  offset: number;
}

/** The most bytes that may stand between a session's text and a suggestion. */
export const typedMax = 1024;

/** The most texts that may be refused. */
export const refusedMax = 100;

/** Whether a draft is too long for suggestions. */
export function isTooLong(draft: string): boolean {
  return new TextEncoder().encode(draft).length > typedMax;
}

/** Finds what may come next behind a session's text and what was typed behind it. */
export function suggest(
  id: string, request: SuggestRequest, signal: AbortSignal,
): Promise<Suggestions> {
  return callJSON(
    `v1/sessions/${encodeURIComponent(id)}/suggest`, { method: "POST", json: request, signal });
}
