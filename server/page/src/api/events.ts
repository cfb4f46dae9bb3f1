import { ProblemError, isAbort, unreachable } from "./problem";
import type { StreamEvent } from "./types";

/**
 * Yields the events of an application/x-ndjson answer as they arrive. Throws for an `error` event,
 * and for an answer that breaks off.
 */
export async function* eventsOf(response: Response): AsyncGenerator<StreamEvent> {
  for await (const line of linesOf(response.body!)) {
    if (line === "") continue; // keep-alive of the server
    const event = JSON.parse(line) as StreamEvent;
    if (event.type === "error") throw new ProblemError(event.problem);
    yield event;
  }
}

/** Yields the lines of a UTF-8 stream without their ends. */
export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const parts = (rest + decoder.decode(value, { stream: !done })).split("\n");
      rest = parts.pop()!;
      yield* parts;
      if (done) break;
    }
  } catch (error) {
    throw error instanceof ProblemError || isAbort(error) ? error : unreachable(String(error));
  } finally {
    await reader.cancel().catch(() => {}); // the caller has left the loop
  }
  if (rest !== "") throw unreachable("The answer was cut off.");
}

/** The exact bytes of an event's text; none without a text. */
export function bytesOf({ text, text_base64: base64 }: {
  text?: string; text_base64?: string;
}): Uint8Array {
  if (base64 === undefined) return new TextEncoder().encode(text);
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}
