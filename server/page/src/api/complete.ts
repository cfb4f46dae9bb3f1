import { bytesOf, linesOf } from "./events";
import { call } from "./http";
import { ProblemError } from "./problem";
import { pathOf } from "./sessions";
import type { Problem } from "./types";

export interface CompletionRequest {
  prompt: string;
  from: "adapted" | "static";
  max_tokens: number;
  temperature: number;
  seed: number;
  stop?: string;
}

type CompletionEvent =
  | { type: "piece"; text: string; text_base64?: string }
  | { type: "done"; finish_reason: "stop" | "length" }
  | { type: "error"; problem: Problem };

/** Samples a text after a session's and yields it as it grows. The session does not change. */
export async function* complete(
  id: string, request: CompletionRequest, signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const response = await call(`${pathOf(id)}/complete`, {
    method: "POST",
    json: { ...request, stream: true },
    accept: "text/event-stream",
    signal,
  });
  for await (const line of linesOf(response.body!)) {
    if (!line.startsWith("data:")) continue; // event names, comments
    const event = JSON.parse(line.slice(5)) as CompletionEvent;
    if (event.type === "error") throw new ProblemError(event.problem);
    if (event.type === "piece") yield bytesOf(event);
  }
}
