import { callJSON } from "./http";

export interface SuggestRequest {
  typed: string;
  n: number;
  min_probability?: number;
}

/** A text that may come next. */
export interface Candidate {
  text: string;
  probability: number;
}

/** The most bytes that may stand between a session's text and a suggestion. */
export const typedMax = 1024;

/** Finds what may come next behind a session's text and what was typed behind it. */
export async function suggest(
  id: string, request: SuggestRequest, signal: AbortSignal,
): Promise<Candidate[]> {
  if (new TextEncoder().encode(request.typed).length > typedMax) return [];
  const answer: { candidates: Candidate[] } = await callJSON(
    `v1/sessions/${encodeURIComponent(id)}/suggest`, { method: "POST", json: request, signal });
  return answer.candidates;
}
